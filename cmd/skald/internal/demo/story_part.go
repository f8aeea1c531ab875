// This file tells of one order of a run, line by line: each message, each mark, each repeat and each
// fault, and what happened outside.

package demo

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/skald-go/skald/examples/shop/audit"
	"github.com/skald-go/skald/examples/shop/gateway"
)

// A storyBook is what is known of one order.
type storyBook struct {
	Chapters     []audit.Chapter
	Repeats      []repeat
	Faults       []fault
	Moves        []gateway.Moved // by the payment gateway
	Orchestrated bool            // the shop's style
}

// Lines tell the story: each row and mark that the databases have, each repeat that was seen on the way, each
// fault that was injected.
func (s *storyBook) Lines() (lines []string) {
	for _, ch := range s.Chapters {
		lines = append(lines, s.chapter(ch)...)
	}
	return append(lines, outside(s.Moves)...)
}

// chapter is one message: its row, and what became of it where.
func (s *storyBook) chapter(ch audit.Chapter) []string {
	indent := strings.Repeat("  ", ch.Depth)
	lines := []string{line(ch.At, "%s%s says %s: row %d of its outbox, message %s", indent, ch.Service,
		ch.Type, ch.Row, ch.ID)}
	var behind []string // each begins with its time
	for _, t := range ch.Taken {
		reason := ""
		if t.Reason != "" {
			reason = ": " + t.Reason
		}
		behind = append(behind, line(t.At, "%s  %s marks it %s%s   # %s", indent, t.Service, t.Outcome,
			reason, handler(t.Service)))
	}
	for _, f := range s.Faults {
		if f.Message == ch.ID {
			behind = append(behind, line(f.At, "%s  %s   # injected: %s; %s", indent, words(f, ch.Type),
				f.Kind, file(f)))
		}
	}
	if at, who := again(s.Repeats, ch.ID); who != "" {
		behind = append(behind, line(at, "%s  again: %s", indent, who))
	}
	slices.SortStableFunc(behind,
		func(a, b string) int { return strings.Compare(a[:len(clock)], b[:len(clock)]) })
	lines = append(lines, behind...)
	for _, name := range audit.Subscribers(ch.Type, s.Orchestrated) {
		if !slices.ContainsFunc(ch.Taken, func(t audit.Taken) bool { return t.Service == name }) {
			lines = append(lines, fmt.Sprintf("                %s  %s has no mark of it   # %s", indent, name,
				handler(name)))
		}
	}
	return lines
}

// again is which services received a message once more, "order, payment ×2", and when the first of them did.
func again(repeats []repeat, message string) (first time.Time, who string) {
	var names []string
	times := map[string]int{}
	for _, r := range repeats {
		if r.Message != message {
			continue
		}
		if first.IsZero() || r.At.Before(first) {
			first = r.At
		}
		if times[r.Service]++; times[r.Service] == 1 {
			names = append(names, r.Service)
		}
	}
	for i, name := range names {
		if n := times[name]; n > 1 {
			names[i] = fmt.Sprintf("%s ×%d", name, n)
		}
	}
	return first, strings.Join(names, ", ")
}

// handler is where a service has its handlers.
func handler(service string) string { return "examples/shop/" + service + "/" + service + ".go" }

// clock is how a line begins.
const clock = "  15:04:05.000"

func line(at time.Time, format string, args ...any) string {
	return at.UTC().Format(clock) + "  " + fmt.Sprintf(format, args...)
}

// outside is the end of an order's story: what happened outside, where Skald has no tables.
func outside(moves []gateway.Moved) (lines []string) {
	for _, m := range moves {
		lines = append(lines,
			line(m.At, "gateway moves a %s of %d cents under the key %s   # examples/shop/gateway/ledger.go",
				m.Kind, m.Cents, m.Key))
	}
	return lines
}
