package flow

import (
	"bytes"
	"fmt"
	"io"
	"slices"
	"strings"
)

// Write prints the flow as text, and then as a flowchart of Mermaid.
func Write(w io.Writer, f *Flow) error {
	var b bytes.Buffer
	fmt.Fprintf(&b, "flow %s\n", f.name)
	for _, r := range f.rules {
		limit := ""
		if r.within > 0 {
			limit = fmt.Sprintf(" within %v", r.within)
		}
		switch r.kind {
		case from:
			fmt.Fprintf(&b, "  begins with %s\n", either(r.events))
		case then:
			fmt.Fprintf(&b, "  %s: then %s%s\n", r.cause, either(r.events), limit)
		case fail:
			fmt.Fprintf(&b, "  fails by %s\n", either(r.events))
		case undo:
			byHand := ""
			if r.ask != nil {
				byHand = ", also by hand"
			}
			fmt.Fprintf(&b, "  %s is undone by %s%s%s\n", r.cause, either(r.events), limit, byHand)
		case end:
			fmt.Fprintf(&b, "  ends with %s\n", either(r.events))
		}
	}
	f.mermaid(&b)
	_, err := b.WriteTo(w)
	return err
}

func either(events []Name) string {
	var out []string
	for _, n := range events {
		out = append(out, n.Type)
	}
	return strings.Join(out, " or ")
}

func (f *Flow) mermaid(b *bytes.Buffer) {
	all := f.Events()
	node := func(n Name) string { return fmt.Sprintf("e%d", slices.Index(all, n)) }
	b.WriteString("\nflowchart TD\n")
	for _, n := range all {
		left, right := "[", "]"
		if slices.Contains(f.eventsOf(end), n) || slices.Contains(f.eventsOf(from), n) {
			left, right = "([", "])"
		} else if slices.Contains(f.eventsOf(fail), n) {
			left, right = "{{", "}}"
		}
		fmt.Fprintf(b, "  %s%s\"%s\"%s\n", node(n), left, strings.ReplaceAll(n.Type, `"`, "#quot;"), right)
	}
	for _, r := range f.rules {
		arrow := " --> "
		if r.kind == undo {
			arrow = " -. undone by .-> "
		} else if r.kind != then {
			continue
		}
		for _, n := range r.events {
			fmt.Fprintf(b, "  %s%s%s\n", node(r.cause), arrow, node(n))
		}
	}
}
