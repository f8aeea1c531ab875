package engine

import (
	"testing"
	"time"
)

func at(seconds int) time.Time { return time.Unix(1_000+int64(seconds), 0).UTC() }

func TestNowIsTheStoresTimeOnceItWasRead(t *testing.T) {
	c := newClock(func() time.Time { return at(0) })
	if got := c.Now(); !got.Equal(at(0)) {
		t.Errorf("before the first reading: %v, want the local time", got)
	}
	c.Observed(at(5))
	c.Observed(time.Time{})
	if got := c.Now(); !got.Equal(at(5)) {
		t.Errorf("the store is 5 s ahead, and Now is %v", got)
	}
}

// TestReadKeepsTheOffsetIfPossible: a reading between two times limits the clock's offset. An offset within
// the limits stays.
func TestReadKeepsTheOffsetIfPossible(t *testing.T) {
	for _, c := range []struct{ believed, read, from, to, want int }{
		{believed: 5, read: 5, from: -1, to: 1, want: 5},
		{believed: 5, read: 3, from: -1, to: 0, want: 4},
		{believed: 0, read: 3, from: -1, to: 1, want: 2},
	} {
		clock := newClock(func() time.Time { return at(0) })
		clock.Observed(at(c.believed))
		clock.Read(at(c.read), at(c.from), at(c.to))
		if got := clock.Now(); !got.Equal(at(c.want)) {
			t.Errorf("%+v: Now is %v, want %v", c, got, at(c.want))
		}
	}
}
