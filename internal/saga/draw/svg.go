package draw

import (
	"fmt"
	"html"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/skald-go/skald/internal/saga/plan"
)

// Sizes in the picture, in pixels.
const (
	boxHeight = 58 // height of a box
	gapX      = 46
	gapY      = 22
	gapDown   = 28 // distance of the rows in a tall picture
	margin    = 16
	perRune   = 9 // width of a bold letter, in the widest usual font
	perSmall  = 7
	padding   = 8 // padding on each side of a text
	minWidth  = 96
	maxWidth  = 260
)

// SVG returns a picture from left to right. Each step is in the column after the last step that it waits
// for. The picture contains no script, font or link. It names the saga and its steps for screen readers.
// The map marks may be nil if there is no saga.
func SVG(g plan.Graph, marks map[string]Mark) string {
	boxes, width, height := layout(g)
	return picture(g, marks, boxes, width, height, false)
}

// TallSVG is like SVG, but goes from top to bottom, for a narrow screen. A page may contain both pictures,
// which have the CSS classes broad and tall.
func TallSVG(g plan.Graph, marks map[string]Mark) string {
	boxes, width, height := turnBoxes(layout(g))
	return picture(g, marks, boxes, width, height, true)
}

func picture(g plan.Graph, marks map[string]Mark, boxes []box, width, height int, tall bool) string {
	class, arrow := "broad", "a"
	if tall {
		class, arrow = "tall", "t" // an id of its own: browsers do not draw an arrow of a hidden picture
	}
	var b strings.Builder
	fmt.Fprintf(&b,
		`<svg class="%s" xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" width="%d" height="%d" role="img" aria-label="%s" `+
			`font-family="sans-serif" font-size="13">`+"\n", class, width, height, width, height,
		html.EscapeString(line("saga "+g.Name)))
	fmt.Fprintf(&b, `<defs><marker id="%s" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="7" markerHeight="7" orient="auto">`+
		`<path d="M0 0 8 4 0 8z" fill="#4a5568"/></marker></defs>`+"\n", arrow)
	for i, s := range g.Steps {
		for _, a := range s.After {
			from := boxes[slices.IndexFunc(g.Steps, func(s plan.Step) bool { return s.Name == a })]
			to := boxes[i]
			x1, y1, x2, y2 := from.x+from.w, from.y+boxHeight/2, to.x, to.y+boxHeight/2
			bendX, bendY := gapX/2, 0
			if tall {
				x1, y1, x2, y2 = from.x+from.w/2, from.y+boxHeight, to.x+to.w/2, to.y
				bendX, bendY = 0, gapDown/2
			}
			fmt.Fprintf(&b,
				`<path d="M%d %dC%d %d %d %d %d %d" fill="none" stroke="#4a5568" marker-end="url(#%s)"/>`+"\n",
				x1, y1, x1+bendX, y1+bendY, x2-bendX, y2-bendY, x2, y2, arrow)
		}
	}
	for i, s := range g.Steps {
		draw(&b, boxes[i], s, marks[s.Name])
	}
	b.WriteString("</svg>\n")
	return b.String()
}

func draw(b *strings.Builder, at box, s plan.Step, m Mark) {
	fill, stroke := colours(m.Class)
	weight := 1
	if s.Pivot {
		weight = 3
	}
	properties := strings.Join(words(s), ", ")
	title := strings.TrimSuffix(s.Name+": "+properties+", "+m.Text, ", ")
	fmt.Fprintf(b,
		`<g><title>%s</title><rect x="%d" y="%d" width="%d" height="%d" rx="6" fill="%s" stroke="%s" stroke-width="%d"/>`,
		html.EscapeString(line(title)), at.x, at.y, at.w, boxHeight, fill, stroke, weight)
	for n, text := range []string{s.Name, properties, m.Text} {
		if text == "" {
			continue
		}
		style := ` font-weight="bold"`
		if n > 0 {
			style = ` font-size="11" fill="#4a5568"`
		}
		fmt.Fprintf(b, `<text x="%d" y="%d" text-anchor="middle"%s>%s</text>`, at.x+at.w/2,
			at.y+20+15*n, style,
			html.EscapeString(line(fitLine(text, at.w, n))))
	}
	b.WriteString("</g>\n")
}

// fitLine returns s, cut to the width of the box. The first line has n=0, and is bold.
func fitLine(s string, width, n int) string {
	most := (width - padding) / perRune
	if n > 0 {
		most = width / perSmall
	}
	if utf8.RuneCountInString(s) <= most {
		return s
	}
	return string([]rune(s)[:most-1]) + "…"
}

type box struct{ x, y, w int }

// layout returns the positions of the steps and the size of the picture. The column of a step depends on the
// longest path from the start. Its row is near the rows of its predecessors.
func layout(g plan.Graph) (boxes []box, width, height int) {
	at := map[string]int{}
	for i, s := range g.Steps {
		at[s.Name] = i
	}
	column := make([]int, len(g.Steps))
	for range g.Steps { // as often as the longest possible path; there are no cycles
		for i, s := range g.Steps {
			for _, a := range s.After {
				column[i] = max(column[i], column[at[a]]+1)
			}
		}
	}
	columns := make([][]int, slices.Max(append(column, 0))+1)
	for i, c := range column {
		columns[c] = append(columns[c], i)
	}
	boxes = make([]box, len(g.Steps))
	x := margin
	for _, steps := range columns {
		slices.SortStableFunc(steps,
			func(a, b int) int { return level(g, boxes, at, a) - level(g, boxes, at, b) })
		w, y := minWidth, margin
		for _, i := range steps {
			for _, text := range append(words(g.Steps[i]), g.Steps[i].Name,
				strings.Join(words(g.Steps[i]), ", ")) {
				w = min(maxWidth, max(w, perRune*utf8.RuneCountInString(text)+2*padding))
			}
		}
		for _, i := range steps {
			y = max(y, level(g, boxes, at, i))
			boxes[i] = box{x, y, w}
			y += boxHeight + gapY
			height = max(height, y-gapY+margin)
		}
		x += w + gapX
	}
	return boxes, x - gapX + margin, height
}

// turnBoxes returns a layout in which each column is a centred row.
func turnBoxes(boxes []box, _, _ int) (turned []box, width, height int) {
	columns := map[int][]int{} // indexes of boxes, by x
	for i, b := range boxes {
		columns[b.x] = append(columns[b.x], i)
	}
	turned = make([]box, len(boxes))
	ends := map[int]int{} // by x; the end of the row
	for x, column := range columns {
		slices.SortFunc(column, func(a, b int) int { return boxes[a].y - boxes[b].y })
		ends[x] = margin
		for _, i := range column {
			turned[i] = box{x: ends[x], w: boxes[i].w}
			ends[x] += boxes[i].w + gapY
		}
		width = max(width, ends[x]-gapY+margin)
	}
	y := margin
	for _, x := range slices.Sorted(maps.Keys(columns)) {
		for _, i := range columns[x] {
			turned[i].x += (width - (ends[x] - gapY + margin)) / 2
			turned[i].y = y
		}
		y += boxHeight + gapDown
	}
	return turned, width, y - gapDown + margin
}

// level returns the mean y of the predecessors of a step.
func level(g plan.Graph, boxes []box, at map[string]int, i int) int {
	sum := 0
	for _, a := range g.Steps[i].After {
		sum += boxes[at[a]].y
	}
	if n := len(g.Steps[i].After); n > 0 {
		return sum / n
	}
	return margin
}
