package view

import (
	"fmt"
	"strings"
	"time"

	"github.com/skald-go/skald/console/internal/page"
)

const plotGap = 3 * page.Every // after a longer time without a point, a new line begins

const (
	plotWide = 240 // in units of the SVG
	plotHigh = 40
)

// lines returns the points of the polylines of a plot, for SVG. The largest value is at the top.
func lines(points []page.Point, end time.Time,
	value func(*page.Point) float64) (parts []string, largest float64) {
	for i := range points {
		largest = max(largest, value(&points[i]))
	}
	var part []string
	done := func() {
		if len(part) == 1 {
			part = append(part, part[0]) // SVG draws no line for one point, but a dot for two equal points
		}
		if len(part) > 0 {
			parts = append(parts, strings.Join(part, " "))
		}
		part = nil
	}
	for i := range points {
		at := &points[i]
		if i > 0 && at.At.Sub(points[i-1].At) > plotGap {
			done()
		}
		x, y := plotWide*(1-end.Sub(at.At).Seconds()/page.Over.Seconds()), float64(plotHigh)
		if largest > 0 {
			y = plotHigh * (1 - value(at)/largest)
		}
		part = append(part, fmt.Sprintf("%.0f,%.0f", x, y+1))
	}
	done()
	return parts, largest
}

// plots writes a plot of each number over the last hour. It leaves out numbers that were always 0.
func plots(p *page.Page, s *page.SourceState) {
	if len(s.Hour) < 2 {
		return
	}
	last := &s.Hour[len(s.Hour)-1]
	drawn := 0
	for _, plot := range []struct {
		what  string
		value func(*page.Point) float64
		text  func(float64) string
	}{
		{"to be published", func(at *page.Point) float64 { return float64(at.Pending) },
			func(v float64) string { return page.Number(int64(v)) }},
		{"oldest", func(at *page.Point) float64 { return at.OldestSeconds },
			func(v float64) string { return page.Ago(page.Seconds(v)) }},
		{"parked and dead", func(at *page.Point) float64 { return float64(at.Kept) },
			func(v float64) string { return page.Counted(int64(v)) }},
	} {
		parts, most := lines(s.Hour, last.At, plot.value)
		if most == 0 {
			continue
		}
		if drawn++; drawn == 1 {
			p.Put("<div class=\"plots\">\n")
		}
		now := plot.text(plot.value(last))
		p.Put("<figure><svg viewBox=\"0 0 %d %d\" role=\"img\" aria-label=\"%s: %s now, at most %s in the last hour\">",
			plotWide, plotHigh+2, plot.what, now, plot.text(most))
		for _, part := range parts {
			p.Put("<polyline points=\"%s\"/>", part)
		}
		p.Put("</svg><figcaption>%s: <b>%s</b> now, at most %s</figcaption></figure>\n", plot.what, now,
			plot.text(most))
	}
	if drawn > 0 {
		p.Put("</div>\n<p class=\"dim\">Recorded while this console was open, in the last hour: since ")
		p.When(s.Hour[0].At)
		p.Put(".</p>\n")
	}
}
