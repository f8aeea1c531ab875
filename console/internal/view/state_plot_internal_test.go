package view

import (
	"slices"
	"testing"
	"time"

	"github.com/skald-go/skald/console/internal/page"
)

// TestLines checks that a time without points breaks the line.
func TestLines(t *testing.T) {
	begin := time.Date(2026, 11, 24, 10, 0, 0, 0, time.UTC)
	var got []page.Point
	for s := 0; s < 7200; s += 60 {
		if s < 3600+600 || s >= 3600+1800 {
			got = append(got, page.Point{At: begin.Add(time.Duration(s) * time.Second),
				Pending: int64(s)})
		}
	}
	got = got[len(got)-50:]
	parts, most := lines(got, got[len(got)-1].At,
		func(p *page.Point) float64 { return float64(p.Pending) })
	if len(parts) != 2 || most != float64(got[len(got)-1].Pending) {
		t.Errorf("%d parts, at most %v: %q", len(parts), most, parts)
	}
	flat, most := lines([]page.Point{{At: begin}, {At: begin.Add(time.Minute)}}, begin.Add(time.Minute),
		func(*page.Point) float64 { return 0 })
	if most != 0 || !slices.Equal(flat, []string{"236,41 240,41"}) {
		t.Errorf("%q, at most %v", flat, most)
	}
	if one, _ := lines([]page.Point{{At: begin, Kept: 2}}, begin,
		func(p *page.Point) float64 { return float64(p.Kept) }); !slices.Equal(one,
		[]string{"240,1 240,1"}) {
		t.Errorf("%q", one)
	}
}
