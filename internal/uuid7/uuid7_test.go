package uuid7

import (
	"testing"
	"time"
)

func TestTime(t *testing.T) {
	// The example of RFC 9562, appendix A.6.
	got, ok := Time("017F22E2-79B0-7CC3-98C4-DC0C0C07398F")
	want := time.Date(2022, 2, 22, 19, 22, 22, 0, time.UTC)
	if !ok || !got.Equal(want) {
		t.Errorf("Time = %v, %v, want %v", got, ok, want)
	}
	for _, s := range []string{"", "x", "017F22E2-79B0-4CC3-98C4-DC0C0C07398F",
		"017F22E2-79B0-7CC3-18C4-DC0C0C07398F", "017F22E279B07CC398C4DC0C0C07398F",
		"017F22E2-79B0-7CC3-98C4-DC0C0C07398G"} {
		if _, ok := Time(s); ok {
			t.Errorf("Time(%q) is ok", s)
		}
	}
}

func TestNew(t *testing.T) {
	now := time.Now()
	id := New(now)
	if got, ok := Time(id); !ok || got.UnixMilli() != now.UnixMilli() {
		t.Errorf("Time(New(%v)) = %v, %v", now, got, ok)
	}
	if id == New(now) {
		t.Error("two ids of one millisecond are equal")
	}
	if a, b := From(now, [10]byte{1}), From(now, [10]byte{1}); a != b {
		t.Errorf("From differs: %s, %s", a, b)
	}
}
