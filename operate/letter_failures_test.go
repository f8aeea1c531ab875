package operate

import (
	"bytes"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/store"
)

func at(minute int, why string) store.Failure {
	return store.Failure{At: time.Date(2026, 1, 2, 3, minute, 0, 0, time.UTC), Why: why, Host: "h"}
}

func TestMessageListsFailedAttempts(t *testing.T) {
	full := make([]store.Failure, store.MaxFailures)
	for i := range full {
		full[i] = at(i+10, "again")
	}
	for name, c := range map[string]struct {
		p    store.Parked
		want []string
	}{
		"never failed":        {store.Parked{}, nil},
		"without a list":      {store.Parked{First: at(1, "a"), Last: at(2, "b")}, []string{"a", "b"}},
		"one, without a list": {store.Parked{First: at(1, "a"), Last: at(1, "a")}, []string{"a"}},
		"released, without a list": {store.Parked{First: at(3, "a"), Last: at(2, "b")},
			[]string{"b"}},
		"a complete list": {store.Parked{First: at(1, "a"), Last: at(10, "b"), Failures: full[:1]},
			[]string{"again"}},
		"a full list, an earlier first": {store.Parked{First: at(1, "a"), Failures: full},
			append([]string{"a"}, make([]string, store.MaxFailures)...)},
		"a full list that has the first": {store.Parked{First: full[0], Failures: full},
			make([]string, store.MaxFailures)},
	} {
		got := NewMessage(&c.p).Failures
		if len(got) != len(c.want) {
			t.Errorf("%s: %+v, want %d attempts", name, got, len(c.want))
			continue
		}
		for i, why := range c.want {
			if why != "" && got[i].Error != why {
				t.Errorf("%s: attempt %d failed with %q, want %q", name, i, got[i].Error, why)
			}
		}
	}
}

func TestExportKeepsFailedAttempts(t *testing.T) {
	p := store.Parked{Consumer: "c", Identity: store.Identity{ID: "1"}, Message: skald.Message{ID: "1"},
		Failures: []store.Failure{at(1, "a"), at(2, "\xff")}, Dead: &store.Death{At: time.Now()}}
	var file bytes.Buffer
	if err := WriteLetter(&file, &p); err != nil {
		t.Fatal(err)
	}
	for got, err := range ReadLetters(&file) {
		if err != nil || !reflect.DeepEqual(got.Failures, p.Failures) {
			t.Errorf("%v, %v: exported %+v", got, err, p.Failures)
		}
	}
}

// endless is a file without an end and without a line break.
type endless struct{}

func (endless) Read(p []byte) (int, error) { return len(p), nil }

// TestLongLineIsRefused checks that a line of any length takes a bounded part of the memory.
func TestLongLineIsRefused(t *testing.T) {
	for _, err := range ReadLetters(endless{}) {
		if err == nil || !strings.Contains(err.Error(), "more than 67108864 bytes") {
			t.Errorf("it is read with %v", err)
		}
	}
}
