// Package draw shows the definition of a saga, and the progress of one saga, as text, as Mermaid and as SVG.
// All three have the same content.
package draw

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/skald-go/skald/internal/saga/plan"
)

// Mark is the progress of a step.
type Mark struct {
	Text  string // such as "done" or "2 of 3 done, 1 stuck"
	Class Class
}

// Class determines the colour of a step.
type Class string

// The classes of steps.
const (
	None   Class = ""
	Done   Class = "done"
	Active Class = "active"
	Stuck  Class = "stuck"
	Failed Class = "failed"
	Undone Class = "undone"
)

// Marks returns the progress of a saga's steps, by the names of the steps.
func Marks(s plan.State) map[string]Mark {
	out, counts := map[string]Mark{}, map[string]map[string]int{}
	for _, r := range s.Runs {
		if counts[r.Step] == nil {
			counts[r.Step] = map[string]int{}
		}
		phase := string(r.Phase)
		if r.Stuck {
			phase = "stuck"
		}
		counts[r.Step][phase]++
		m := out[r.Step]
		m.Class = worse(m.Class, classOf(r))
		out[r.Step] = m
	}
	for step, by := range counts {
		var parts []string
		sum := 0
		for _, n := range by {
			sum += n
		}
		for _, phase := range slices.Sorted(maps.Keys(by)) {
			switch {
			case sum == 1:
				parts = append(parts, phase)
			default:
				parts = append(parts, fmt.Sprintf("%d of %d %s", by[phase], sum, phase))
			}
		}
		m := out[step]
		m.Text = strings.Join(parts, ", ")
		out[step] = m
	}
	return out
}

func classOf(r plan.Run) Class {
	switch r.Phase {
	case plan.IsDone, plan.Skipped:
		return Done
	case plan.Refused:
		return Failed
	case plan.Undone, plan.Dropped:
		return Undone
	}
	if r.Stuck {
		return Stuck
	}
	return Active
}

// worse returns the class that a step with several runs gets: the more urgent one.
func worse(a, b Class) Class {
	order := []Class{None, Undone, Done, Active, Failed, Stuck}
	if slices.Index(order, a) > slices.Index(order, b) {
		return a
	}
	return b
}

// words returns the kind and the options of a step, for its second line.
func words(s plan.Step) (out []string) {
	if out = append(out, string(s.Kind)); s.Signal != "" {
		out = append(out, "for "+s.Signal)
	}
	if s.Child != "" {
		out = append(out, "of "+s.Child)
	}
	for _, w := range []struct {
		is   bool
		word string
	}{{s.Pivot, "pivot"}, {s.Undo && s.Kind != plan.Lock, "undo"}, {s.NoEffect && s.Kind != plan.Wait, "no effect"},
		{s.When, "when"}, {s.Each, "each"}, {s.Lapses, "lapses"}} {
		if w.is {
			out = append(out, w.word)
		}
	}
	return out
}

// Text returns a table with a line for each step. The map marks may be nil if there is no saga.
func Text(g plan.Graph, marks map[string]Mark) string {
	var b strings.Builder
	fmt.Fprintf(&b, "saga %s", g.Name)
	if g.Deadline > 0 {
		fmt.Fprintf(&b, ", deadline %v", g.Deadline)
	}
	b.WriteByte('\n')
	t := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	for i, s := range g.Steps {
		after := "at the start"
		switch {
		case len(s.After) > 0 && (i == 0 || len(s.After) > 1 || s.After[0] != g.Steps[i-1].Name):
			after = "after " + strings.Join(s.After, ", ")
		case len(s.After) > 0 || i == 0:
			after = ""
		}
		fmt.Fprintf(t, "  %d\t%s\t%s\t%s\t%s\n", i+1, line(s.Name), line(strings.Join(words(s), ", ")),
			line(after), marks[s.Name].Text)
	}
	_ = t.Flush() // writes to memory, so it cannot fail
	var out strings.Builder
	for l := range strings.Lines(b.String()) {
		out.WriteString(strings.TrimRight(l, " \n") + "\n")
	}
	return out.String()
}

// line replaces control characters, so that a name cannot break a line of a terminal.
func line(s string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return '?'
		}
		return r
	}, s)
}

// Mermaid returns a flow chart. The map marks may be nil if there is no saga.
func Mermaid(g plan.Graph, marks map[string]Mark) string {
	var b strings.Builder
	b.WriteString("flowchart LR\n")
	at := map[string]int{}
	for i, s := range g.Steps {
		at[s.Name] = i
		label := []string{quoted(s.Name), quoted(strings.Join(words(s), ", "))}
		if m := marks[s.Name]; m.Text != "" {
			label = append(label, quoted(m.Text))
		}
		open, end := "[", "]"
		if s.Pivot {
			open, end = "{{", "}}"
		}
		fmt.Fprintf(&b, "  s%d%s\"%s\"%s\n", i, open, strings.Join(label, "<br/>"), end)
		if m := marks[s.Name]; m.Class != None {
			fmt.Fprintf(&b, "  class s%d %s\n", i, m.Class)
		}
	}
	for i, s := range g.Steps {
		for _, a := range s.After {
			fmt.Fprintf(&b, "  s%d --> s%d\n", at[a], i)
		}
	}
	if len(marks) > 0 {
		for _, c := range []Class{Done, Active, Stuck, Failed, Undone} {
			fill, stroke := colours(c)
			fmt.Fprintf(&b, "  classDef %s fill:%s,stroke:%s\n", c, fill, stroke)
		}
	}
	return b.String()
}

func quoted(s string) string {
	return strings.NewReplacer(`"`, "#quot;", "<", "#lt;", ">", "#gt;", "#", "#35;", "`",
		"#96;").Replace(line(s))
}

func colours(c Class) (fill, stroke string) {
	switch c {
	case Done:
		return "#d9f2e0", "#2f855a"
	case Active:
		return "#dbeafe", "#2b6cb0"
	case Stuck:
		return "#fde2e2", "#c53030"
	case Failed:
		return "#fdeeda", "#c05621"
	case Undone:
		return "#eeeeee", "#718096"
	}
	return "#ffffff", "#4a5568"
}
