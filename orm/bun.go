package orm

import (
	"context"

	"github.com/uptrace/bun"
)

// PlaceWithBun places orders in one transaction of bun, and says so.
func PlaceWithBun(ctx context.Context, db *bun.DB, out Outbox, orders ...Order) error {
	return db.RunInTx(ctx, nil, func(ctx context.Context, tx bun.Tx) error {
		for _, o := range orders {
			if _, err := tx.NewInsert().Model(&o).Exec(ctx); err != nil {
				return err
			}
			if err := out.Write(ctx, tx.Tx, OrderPlaced.New(o.ID, o)); err != nil {
				return err
			}
		}
		return nil
	})
}
