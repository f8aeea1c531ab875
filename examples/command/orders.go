package main

import (
	"context"
	"database/sql"
	"errors"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/broker"
	"github.com/skald-go/skald/inbox"
	"github.com/skald-go/skald/relay"
	"github.com/skald-go/skald/saga"
	"github.com/skald-go/skald/store/sqlitestore"
)

const ordersTables = `
CREATE TABLE orders (id TEXT PRIMARY KEY, state TEXT NOT NULL);
CREATE TABLE account (cents INTEGER NOT NULL);
INSERT INTO account VALUES (1000);`

type Order struct {
	ID, SKU         string
	Quantity, Cents int
}

// The service that has the saga.
type orders struct {
	db      *sql.DB
	sagas   *saga.Sagas[*sql.Tx, Order]
	runners []skald.Runner
}

func newOrders(db *sql.DB, bus broker.Broker) (*orders, error) {
	store, process := sqlitestore.New(db, nil), define()
	engine, err := saga.NewEngine(store, nil, process)
	if err != nil {
		return nil, err
	}
	replies := inbox.New(store, bus, "orders-replies", nil) // a consumer of its own, over the same database
	engine.Answers(replies)                                 // has it handle all of engine.Replies()
	commands := relay.New(store, bus, nil)
	return &orders{db, saga.Bind(engine, process), []skald.Runner{engine, replies, commands}}, nil
}

func define() *saga.Definition[Order] {
	pick := func(r saga.Run[Order]) Pick { return Pick{r.ID, r.In.SKU, r.In.Quantity} }
	why := func(r Refusal) string { return r.Why }

	open := saga.Exec("open", insert, cancel) // owns the row of the order
	reserve := saga.Command("reserve", ReserveStock, pick,
		saga.Reply(StockReserved, saga.RefusedBy(StockShort, why)),
		saga.UndoBy(ReleaseStock, pick, saga.Reply(StockReleased)))
	pay := saga.Exec("pay", pay, nil, saga.Pivot())
	return saga.New("order", &saga.Options[Order]{Key: func(o Order) string { return o.ID }},
		open, reserve, pay)
}

func (s *orders) place(ctx context.Context, o Order) error {
	tx, err := s.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }()
	if _, err := s.sagas.Start(ctx, tx, o); err != nil {
		return err
	}
	return tx.Commit()
}

func insert(ctx context.Context, tx *sql.Tx, r saga.Run[Order]) error {
	_, err := tx.ExecContext(ctx, `INSERT INTO orders (id, state) VALUES (?, 'open')`, r.Key)
	return err
}

func cancel(ctx context.Context, tx *sql.Tx, r saga.Run[Order]) error {
	_, err := tx.ExecContext(ctx, `UPDATE orders SET state = 'cancelled' WHERE id = ?`, r.Key)
	return err
}

func pay(ctx context.Context, tx *sql.Tx, r saga.Run[Order]) error {
	done, err := tx.ExecContext(ctx, `UPDATE account SET cents = cents - ? WHERE cents >= ?`, r.In.Cents,
		r.In.Cents)
	if err != nil {
		return err
	}
	if n, err := done.RowsAffected(); err != nil || n == 0 {
		return errors.Join(err, skald.Reject(errors.New("not enough money")))
	}
	_, err = tx.ExecContext(ctx, `UPDATE orders SET state = 'paid' WHERE id = ?`, r.Key)
	return err
}
