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
	one, err := storedStory(ctx, c.site, dbs, id)
	if err != nil || len(one.Chapters) == 0 {
		return nil, err
	}
	one.Repeats, one.Faults = c.watch.Repeats(c.o.Prefix)[id], c.watch.Faults()[id]
	one.Orchestrated = c.o.orchestrated()
	return append([]string{title}, one.Lines()...), nil
}

// storedStory returns the stored data of an order. Its Chapters are empty if the order does not exist.
func storedStory(ctx context.Context, s site, dbs map[string]table.DB,
	order string) (book storyBook, err error) {
	if book.Chapters, err = audit.Story(ctx, dbs, order); err == nil && len(book.Chapters) > 0 {
		book.Moves, err = s.transfers(ctx, order)
	}
	return book, err
}
