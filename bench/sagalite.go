package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/skald-go/skald/saga"
	"github.com/skald-go/skald/store/sqlitestore"
)

// inFile starts sagas that do nothing in a new SQLite file, by n clients, each so many when its last ones have
// ended: several in a transaction, one without.
func (b *bench) inFile(name string, n, each int) contender {
	return contender{name: name, turn: func(ctx context.Context, m *meter) (err error) {
		dir, err := os.MkdirTemp("", prefix)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
		db, err := sqlitestore.Open(filepath.Join(dir, "sagas.db"))
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, db.Close()) }()
		if _, err := sqlitestore.Migrate(ctx, db, nil); err != nil {
			return err
		}
		var full int
		if err := db.QueryRowContext(ctx, "pragma synchronous").Scan(&full); err != nil || full != 2 {
			return fmt.Errorf("synchronous is %d, not FULL: %w", full, err)
		}
		d := idling()
		e, err := saga.NewEngine[*sql.Tx](sqlitestore.New(db, nil), &saga.EngineOptions{Logger: quietly()}, d)
		if err != nil {
			return err
		}
		stop, ended := start(ctx, e)
		defer stop()
		err = m.loop(ctx, n, each,
			func(ctx context.Context, _ int) error { return someInFile(ctx, db, e, d, each) })
		stop()
		return errors.Join(err, <-ended)
	}}
}

func someInFile(ctx context.Context, db *sql.DB, e *saga.Engine[*sql.Tx], d *saga.Definition[trip],
	n int) error {
	ts := make([]trip, n)
	for i := range ts {
		ts[i] = newTrip()
	}
	if n == 1 {
		if _, err := saga.Bind(e, d).StartNow(ctx, ts[0]); err != nil {
			return err
		}
		return succeeded(ctx, e, d, ts...)
	}
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	if _, err := saga.Bind(e, d).StartAll(ctx, tx, ts); err != nil {
		return errors.Join(fmt.Errorf("start: %w", err), tx.Rollback())
	}
	if err := tx.Commit(); err != nil {
		return err
	}
	return succeeded(ctx, e, d, ts...)
}

func engineInFile() comparison {
	const few, more, many = "32 in flight", "256 in flight",
		"16 times 64 in flight, 64 start in one transaction"
	return comparison{
		name:  "saga-engine-sqlite",
		title: "sagas of three steps that do nothing, from start to end, in an SQLite file with synchronous=FULL",
		set: func(_ context.Context, b *bench) ([]contender, error) {
			return []contender{b.inFile("1 in flight", 1, 1), b.inFile(few, 32, 1), b.inFile(more, 256, 1),
				b.inFile(many, 16, 64)}, nil
		},
		bars: []bar{
			{what: "32 in flight, per second", of: few, value: perSecond, least: 5000},
			{what: "256 in flight, per second", of: more, value: perSecond, least: 5000},
			{what: "16 times 64 in flight, per second", of: many, value: perSecond, least: 5000},
		},
	}
}
