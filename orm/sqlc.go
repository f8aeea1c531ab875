package orm

import (
	"context"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/skald-go/skald/orm/orders"
	"github.com/skald-go/skald/outbox"
)

// PlaceWithSQLC places orders by what sqlc generated, in one transaction of pgx, and says so.
func PlaceWithSQLC(ctx context.Context, pool *pgxpool.Pool, out *outbox.Outbox[pgx.Tx],
	placed ...Order) error {
	return pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
		queries := orders.New(pool).WithTx(tx)
		for _, o := range placed {
			if err := queries.Place(ctx, orders.PlaceParams{ID: o.ID, Cents: o.Cents}); err != nil {
				return err
			}
			if err := out.Write(ctx, tx, OrderPlaced.New(o.ID, o)); err != nil {
				return err
			}
		}
		return nil
	})
}
