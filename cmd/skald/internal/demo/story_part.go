// This file describes one order of a run, line by line: each message, mark, repeat and fault, and the
// transfers of the gateway.

package demo

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/skald-go/skald/examples/shop/audit"
	"github.com/skald-go/skald/examples/shop/gateway"
)

// storyBook has the data of one order.
type storyBook struct {
	Chapters     []audit.Chapter
	Repeats      []repeat
	Faults       []fault
	Moves        []gateway.Moved // by the payment gateway
	Orchestrated bool            // the shop's style
}

// Lines returns the story, in lines: each row and mark in the databases, each observed repeat, and each
// injected fault.
func (s *storyBook) Lines() (lines []string) {
	for _, ch := range s.Chapters {
		lines = append(lines, s.chapter(ch)...)
	}
	return append(lines, outside(s.Moves)...)
}

// chapter describes one message: its row, and its results at each subscriber.
func (s *storyBook) chapter(ch audit.Chapter) []string {
	indent := strings.Repeat("  ", ch.Depth)
	lines := []string{line(ch.At, "%s%s writes %s: row %d of its outbox, message %s", indent, ch.Service,
		ch.Type, ch.Row, ch.ID)}
	var behind []string // lines that begin with their time
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
	if at, services := receivers(s.Repeats, ch.ID); services != "" {
		behind = append(behind, line(at, "%s  again: %s", indent, services))
	}
	slices.SortStableFunc(behind,
		func(a, b string) int { return strings.Compare(a[:len(clock)], b[:len(clock)]) })
	lines = append(lines, behind...)
	for _, name := range audit.Subscribers(ch.Type, s.Orchestrated) {
		if !slices.ContainsFunc(ch.Taken, func(t audit.Taken) bool { return t.Service == name }) {
			lines = append(lines, fmt.Sprintf("                %s  %s stored no mark   # %s", indent, name,
				handler(name)))
		}
	}
	return lines
}

// receivers returns the services that received a message repeatedly, such as "order, payment ×2". The
// result first is the time of the first repeat.
func receivers(repeats []repeat, message string) (first time.Time, services string) {
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

// handler returns the file with the handlers of a service.
func handler(service string) string { return "examples/shop/" + service + "/" + service + ".go" }

// clock is the format of the time at the beginning of a line.
const clock = "  15:04:05.000"

func line(at time.Time, format string, args ...any) string {
	return at.UTC().Format(clock) + "  " + fmt.Sprintf(format, args...)
}

// outside returns the lines about the transfers of the payment gateway. The gateway does not use Skald.
func outside(moves []gateway.Moved) (lines []string) {
	for _, m := range moves {
		lines = append(lines,
			line(m.At, "gateway moves a %s of %d cents under the key %s   # examples/shop/gateway/ledger.go",
				m.Kind, m.Cents, m.Key))
	}
	return lines
}
