package demo

import (
	"context"

	"github.com/skald-go/skald/examples/shop/audit"
	"github.com/skald-go/skald/examples/shop/table"
)

// story tells of one order of the run that has just ended; nothing, where there is none to tell of.
func (c *crew) story(ctx context.Context, dbs map[string]table.DB,
	found []audit.Invariant) ([]string, error) {
	id, title, err := hero(ctx, dbs["order"], found, c.watch)
	if err != nil || id == "" {
		return nil, err
	}
	one, err := kept(ctx, c.site, dbs, id)
	if err != nil || len(one.Chapters) == 0 {
		return nil, err
	}
	one.Repeats, one.Faults = c.watch.Repeats(c.o.Prefix)[id], c.watch.Faults()[id]
	one.Orchestrated = c.o.orchestrated()
	return append([]string{title}, one.Lines()...), nil
}

// kept is what the databases keep of an order; no chapters, where they have none of it.
func kept(ctx context.Context, s site, dbs map[string]table.DB, order string) (one storyBook, err error) {
	if one.Chapters, err = audit.Story(ctx, dbs, order); err == nil && len(one.Chapters) > 0 {
		one.Moves, err = s.moves(ctx, order)
	}
	return one, err
}
