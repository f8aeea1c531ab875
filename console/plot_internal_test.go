package console

import (
	"slices"
	"testing"
	"time"
)

// Points are half a minute apart, older ones than an hour are forgotten, and a line is broken where nobody
// looked.
func TestPlot(t *testing.T) {
	var tr trace
	begin := time.Date(2026, 11, 24, 10, 0, 0, 0, time.UTC)
	var got []point
	for s := range 2 * 3600 {
		if at := begin.Add(time.Duration(s) * time.Second); s < 3600+600 || s >= 3600+1800 {
			got = tr.add(point{At: at, Pending: int64(s)})
		}
	}
	if first := got[0].At.Sub(begin); len(got) > 122 || first < 3600*time.Second-plotEvery || first > 3600*time.Second+plotEvery {
		t.Errorf("%d points, the first after %v", len(got), first)
	}
	parts, most := lines(got, got[len(got)-1].At, func(p *point) float64 { return float64(p.Pending) })
	if len(parts) != 2 || most != float64(got[len(got)-1].Pending) {
		t.Errorf("%d parts, at most %v: %q", len(parts), most, parts)
	}
	flat, most := lines([]point{{At: begin}, {At: begin.Add(time.Minute)}}, begin.Add(time.Minute), func(*point) float64 { return 0 })
	if most != 0 || !slices.Equal(flat, []string{"236,41 240,41"}) {
		t.Errorf("%q, at most %v", flat, most)
	}
	if one, _ := lines([]point{{At: begin, Kept: 2}}, begin, func(p *point) float64 { return float64(p.Kept) }); !slices.Equal(one, []string{"240,1 240,1"}) {
		t.Errorf("%q", one)
	}
}
