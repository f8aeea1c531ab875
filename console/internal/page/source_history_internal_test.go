package page

import (
	"testing"
	"time"
)

// Points are half a minute apart, and points older than an hour are removed.
func TestTrace(t *testing.T) {
	var tr trace
	begin := time.Date(2026, 11, 24, 10, 0, 0, 0, time.UTC)
	var got []Point
	for s := range 2 * 3600 {
		if at := begin.Add(time.Duration(s) * time.Second); s < 3600+600 || s >= 3600+1800 {
			got = tr.Add(Point{At: at, Pending: int64(s)})
		}
	}
	if first := got[0].At.Sub(begin); len(got) > 122 || first < 3600*time.Second-Every ||
		first > 3600*time.Second+Every {
		t.Errorf("%d points, the first after %v", len(got), first)
	}
}
