package demo

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/skald-go/skald/examples/shop/audit"
	"github.com/skald-go/skald/examples/shop/table"
)

// story tells of one order: each row and mark that the databases have, each repeat that was seen on the way,
// each fault that was injected.
func (c *crew) story(ctx context.Context, dbs map[string]table.DB,
	found []audit.Invariant) ([]string, error) {
	id, title, err := c.hero(ctx, dbs["order"], victim(found))
	if err != nil || id == "" {
		return nil, err
	}
	chapters, err := audit.Story(ctx, dbs, id)
	if err != nil || len(chapters) == 0 {
		return nil, err
	}
	moves, err := c.site.moves(ctx, id)
	if err != nil {
		return nil, err
	}
	return slices.Concat([]string{title}, tellAll(chapters, c.watch.repeats(c.o.Prefix)[id],
		c.watch.struckOrders()[id], c.o.orchestrated()), tellMoves(moves)), nil
}

func tellAll(chapters []audit.Chapter, repeats []Repeat, faults []Fault, orchestrated bool) (lines []string) {
	for _, ch := range chapters {
		lines = append(lines, chapter(ch, repeats, faults, orchestrated)...)
	}
	return lines
}

// chapter is one message: its row, and what became of it where.
func chapter(ch audit.Chapter, repeats []Repeat, faults []Fault, orchestrated bool) []string {
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
	for _, f := range faults {
		if f.Message == ch.ID {
			behind = append(behind, line(f.At, "%s  %s   # injected: %s; %s", indent, f.words(ch.Type),
				f.Kind, f.file()))
		}
	}
	if at, who := again(repeats, ch.ID); who != "" {
		behind = append(behind, line(at, "%s  again: %s", indent, who))
	}
	slices.SortStableFunc(behind,
		func(a, b string) int { return strings.Compare(a[:len(clock)], b[:len(clock)]) })
	lines = append(lines, behind...)
	for _, name := range audit.Subscribers(ch.Type, orchestrated) {
		if !slices.ContainsFunc(ch.Taken, func(t audit.Taken) bool { return t.Service == name }) {
			lines = append(lines, fmt.Sprintf("                %s  %s has no mark of it   # %s", indent, name,
				handler(name)))
		}
	}
	return lines
}

// again is which services received a message once more, "order, payment ×2", and when the first of them did.
func again(repeats []Repeat, message string) (first time.Time, who string) {
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

// victim is the first order that the auditor blames a broken promise with; "" if none is broken.
func victim(found []audit.Invariant) string {
	named := regexp.MustCompile(`order ([A-Z2-7]{26})\b`)
	for _, one := range found {
		if m := named.FindStringSubmatch(one.Detail); m != nil && !one.OK {
			return m[1]
		}
	}
	return ""
}

// hero is the order whose story is told: the victim, or one that was watched, of which much had to be undone,
// with repeats.
func (c *crew) hero(ctx context.Context, db table.DB, victim string) (id, title string, err error) {
	best := 0
	err = table.All(ctx, db, c.book.sql["Interesting"], nil, func(row table.Row) error {
		var one, state, reason string
		if err := row.Scan(&one, &state, &reason); err != nil {
			return err
		}
		if score := c.score(one, victim); score > best {
			best, id = score, one
			title = strings.TrimSuffix(fmt.Sprintf("order %s, %s: %s", one, state,
				strings.ReplaceAll(reason, "_", " ")), ": ")
		}
		return nil
	})
	if err != nil {
		return "", "", fmt.Errorf("look for a story: %w", err)
	}
	return id, title, nil
}

func (c *crew) score(order, victim string) int {
	seen := c.watch.of(order)
	switch {
	case order == victim:
		return 4
	case slices.ContainsFunc(seen, func(a arrival) bool { return a.again }):
		return 3
	case len(seen) > 0:
		return 2
	}
	return 1
}
