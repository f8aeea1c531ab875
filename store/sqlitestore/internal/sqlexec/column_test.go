package sqlexec

import (
	"database/sql"
	"math"
	"reflect"
	"testing"
	"time"

	"github.com/skald-go/skald"
)

func TestHeadersComeBack(t *testing.T) {
	want := []skald.Header{{Name: "a", Value: []byte{0, 255}}, {Name: "b", Value: []byte{}}}
	text, err := Headers(want)
	if err != nil {
		t.Fatal(err)
	}
	got, err := ReadHeaders(sql.NullString{String: text.(string), Valid: true})
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%v came back as %v, %v", want, got, err)
	}
	if none, err := Headers(nil); none != nil || err != nil {
		t.Errorf("no headers are %v, %v", none, err)
	}
	if _, err := ReadHeaders(sql.NullString{String: `[["a","!"]]`, Valid: true}); err == nil {
		t.Error("what is not base64 was read")
	}
}

func TestTimes(t *testing.T) {
	at := time.Date(2026, 3, 4, 5, 6, 7, 8_000_000, time.UTC)
	for _, s := range []string{"2026-03-04T05:06:07.008Z", "2026-03-04 05:06:07.008",
		"2026-03-04 06:06:07.008+01:00"} {
		if got := ReadTime(s); !got.Equal(at) {
			t.Errorf("ReadTime(%q) = %v", s, got)
		}
	}
	if got := ReadTime("soon"); !got.IsZero() {
		t.Errorf("ReadTime of no time = %v", got)
	}
	if got := OfMillis(Millis(at)); !got.Equal(at) {
		t.Errorf("%v came back as %v", at, got)
	}
	if Millis(time.Time{}).Valid || !OfMillis(sql.NullInt64{}).IsZero() || Moment(time.Time{}) != nil {
		t.Error("no time is one")
	}
}

// TestMillisecondsRoundsUp checks that a time below a millisecond does not become 0: a lease of 0 would end
// immediately.
func TestMillisecondsRoundsUp(t *testing.T) {
	for d, want := range map[time.Duration]int64{0: 0, 1: 1, time.Microsecond: 1, time.Millisecond: 1,
		time.Millisecond + 1: 2, -time.Second: -1000, math.MaxInt64: 9223372036855} {
		if got := Milliseconds(d); got != want {
			t.Errorf("%v is %d ms, want %d", d, got, want)
		}
	}
}
