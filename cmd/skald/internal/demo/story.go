package demo

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/skald-go/skald/examples/shop/audit"
	"github.com/skald-go/skald/examples/shop/table"
)

// story tells of one order: each row and mark that the databases have, each repeat that was seen on the way.
func (c *crew) story(ctx context.Context, dbs map[string]table.DB) ([]string, error) {
	id, title, err := c.hero(ctx, dbs["order"])
	if err != nil || id == "" {
		return nil, err
	}
	chapters, err := audit.Story(ctx, dbs, id)
	if err != nil || len(chapters) == 0 {
		return nil, err
	}
	repeats := map[[2]string][]time.Time{} // by message and service
	for _, a := range c.watch.of(id) {
		if at := [2]string{a.id, strings.TrimPrefix(a.group, c.o.Prefix+".")}; a.again {
			repeats[at] = append(repeats[at], a.at)
		}
	}
	lines := []string{title}
	for _, ch := range chapters {
		lines = append(lines, chapter(ch, repeats)...)
	}
	return lines, nil
}

// chapter is one message: its row, and what became of it where.
func chapter(ch audit.Chapter, repeats map[[2]string][]time.Time) []string {
	indent := strings.Repeat("  ", ch.Depth)
	lines := []string{line(ch.At, "%s%s says %s: row %d of its outbox, message %s", indent, ch.Service, ch.Type, ch.Row, ch.ID)}
	slices.SortFunc(ch.Taken, func(a, b audit.Taken) int { return a.At.Compare(b.At) })
	for _, t := range ch.Taken {
		reason := ""
		if t.Reason != "" {
			reason = ": " + t.Reason
		}
		lines = append(lines, line(t.At, "%s  %s marks it %s%s", indent, t.Service, t.Outcome, reason))
		for _, at := range repeats[[2]string{ch.ID, t.Service}] {
			lines = append(lines, line(at, "%s  %s gets it again", indent, t.Service))
		}
	}
	return lines
}

func line(at time.Time, format string, args ...any) string {
	return "  " + at.UTC().Format("15:04:05.000") + "  " + fmt.Sprintf(format, args...)
}

// hero is the order whose story is told: one that was watched, of which much had to be undone, with repeats.
func (c *crew) hero(ctx context.Context, db table.DB) (id, title string, err error) {
	best := 0
	err = table.All(ctx, db, c.book.sql["Interesting"], nil, func(row table.Row) error {
		var one, state, reason string
		if err := row.Scan(&one, &state, &reason); err != nil {
			return err
		}
		score := 1
		for _, a := range c.watch.of(one) {
			score = max(score, 2)
			if a.again {
				score = 3
			}
		}
		if score > best {
			best, id = score, one
			title = strings.TrimSuffix(fmt.Sprintf("order %s, %s: %s", one, state, strings.ReplaceAll(reason, "_", " ")), ": ")
		}
		return nil
	})
	if err != nil {
		return "", "", fmt.Errorf("look for a story: %w", err)
	}
	return id, title, nil
}
