package demo

import (
	"context"

	"github.com/skald-go/skald/examples/shop/audit"
	"github.com/skald-go/skald/examples/shop/table"
)

// story returns the story of one order of the finished run, or nil if the run has no orders.
func (c *crew) story(ctx context.Context, dbs map[string]table.DB,
	found []audit.Invariant) ([]string, error) {
	id, title, err := storyOrder(ctx, dbs["order"], found, c.watch)
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

// kept returns the stored data of an order. Its Chapters are empty if the order does not exist.
func kept(ctx context.Context, s site, dbs map[string]table.DB, order string) (one storyBook, err error) {
	if one.Chapters, err = audit.Story(ctx, dbs, order); err == nil && len(one.Chapters) > 0 {
		one.Moves, err = s.moves(ctx, order)
	}
	return one, err
}
