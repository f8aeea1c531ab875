package orm

import (
	"context"

	"github.com/jmoiron/sqlx"
)

// PlaceWithSQLX places orders in one transaction of sqlx, and says so.
func PlaceWithSQLX(ctx context.Context, db *sqlx.DB, out Outbox, orders ...Order) error {
	tx, err := db.BeginTxx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }() // nothing, once it is committed
	for _, o := range orders {
		if _, err := tx.NamedExecContext(ctx, "INSERT INTO orders (id, cents) VALUES (:id, :cents)",
			o); err != nil {
			return err
		}
		if err := out.Write(ctx, tx.Tx, OrderPlaced.New(o.ID, o)); err != nil {
			return err
		}
	}
	return tx.Commit()
}
