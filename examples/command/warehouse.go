package main

import (
	"context"
	"database/sql"
	"errors"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/broker"
	"github.com/skald-go/skald/inbox"
	"github.com/skald-go/skald/relay"
	"github.com/skald-go/skald/store"
	"github.com/skald-go/skald/store/sqlitestore"
)

const warehouseTables = `
CREATE TABLE stock (sku TEXT PRIMARY KEY, free INTEGER NOT NULL);
INSERT INTO stock VALUES ('tea', 10);`

// The service that takes part: an inbox for the commands, and a relay for the replies.
func warehouse(db *sql.DB, bus broker.Broker) []skald.Runner {
	own := sqlitestore.New(db, nil)
	in := inbox.New(own, bus, "warehouse", nil)
	step := inbox.NewStep(in, "reserve", func(m skald.Received[Pick]) string { return m.Value.Saga })
	inbox.DoOn(step, ReserveStock, reserve)
	inbox.UndoOn(step, ReleaseStock, release, inbox.Reply(released))
	replies := relay.New(own, bus, nil)
	return []skald.Runner{in, replies}
}

func reserve(ctx context.Context, tx *sql.Tx, m skald.Received[Pick]) (inbox.Result, error) {
	done, err := tx.ExecContext(ctx, `UPDATE stock SET free = free - ? WHERE sku = ? AND free >= ?`,
		m.Value.Quantity, m.Value.SKU, m.Value.Quantity)
	if err != nil {
		return inbox.Result{}, err // tried again; the saga waits
	}
	key := string(m.Key)
	if n, err := done.RowsAffected(); err != nil {
		return inbox.Result{}, err
	} else if n == 0 { // rolls back, says no, and so the saga turns back
		return inbox.Result{}, skald.Reject(errors.New("out of stock"),
			StockShort.New(key, Refusal{"out of stock"}))
	}
	return inbox.Result{Publish: []skald.Draft{StockReserved.New(key, m.Value)}}, nil
}

// release is called only where reserve took effect, and once.
func release(ctx context.Context, tx *sql.Tx, m skald.Received[Pick],
	_ inbox.DoneStep) (inbox.Result, error) {
	_, err := tx.ExecContext(ctx, `UPDATE stock SET free = free + ? WHERE sku = ?`, m.Value.Quantity,
		m.Value.SKU)
	return inbox.Result{}, err
}

// released always replies, even if nothing was released: the saga waits for the reply.
func released(m skald.Received[Pick], _ store.StepState) []skald.Draft {
	return []skald.Draft{StockReleased.New(string(m.Key), m.Value)}
}
