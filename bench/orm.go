package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5/stdlib"
	"gorm.io/driver/postgres"
	"gorm.io/gorm"
	"gorm.io/gorm/logger"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/internal/uuid7"
	"github.com/skald-go/skald/outbox"
	"github.com/skald-go/skald/store/pgstore"
)

// plainRow is a row of the plain table, as GORM has it.
type plainRow struct {
	Seq                                 int64 `gorm:"->"`
	Topic, Key, Type, Data, ContentType string
	DataBytes, KeyBytes                 []byte
	Schema, Subject, CausationID        *string
	CorrelationID                       string
	TraceParent                         *string `gorm:"column:traceparent"`
	Headers                             *string
	Time                                time.Time
	ID                                  string
	Bucket                              int16
}

func (plainRow) TableName() string { return "plain" }

func (w *writing) plainRow(data string) *plainRow {
	n, now := w.n.Add(1), time.Now()
	id := uuid7.New(now)
	return &plainRow{Topic: "orders", Key: orderKey(n), Type: "order.placed", Data: data,
		ContentType:   "application/json",
		CorrelationID: id, Time: now, ID: id, Bucket: int16(n % 1024)}
}

// ormWrites are writes of one event in a transaction of database/sql and of GORM, each against an INSERT of
// its own.
func ormWrites() comparison {
	return comparison{
		name:  "outbox-write-orm",
		title: "one event in a transaction of database/sql over pgx, and of GORM, 16 clients",
		set: func(ctx context.Context, b *bench) ([]contender, error) {
			w, err := b.writing(ctx)
			if err != nil {
				return nil, err
			}
			db := stdlib.OpenDBFromPool(w.pool)
			db.SetMaxIdleConns(clients)
			b.later(db.Close)
			g, err := gorm.Open(postgres.New(postgres.Config{Conn: db}), &gorm.Config{Logger: logger.Discard})
			if err != nil {
				return nil, fmt.Errorf("open GORM: %w", err)
			}
			return w.ormContenders(db, g), nil
		},
		bars: []bar{
			{what: "skald ÷ bare INSERT, database/sql", of: "skald, database/sql",
				to: []string{"bare INSERT, database/sql"}, value: perSecond, least: 0.9},
			{what: "skald ÷ bare INSERT, GORM", of: "skald, GORM", to: []string{"bare INSERT, GORM"},
				value: perSecond, least: 0.9},
		},
	}
}

func (w *writing) ormContenders(db *sql.DB, g *gorm.DB) []contender {
	data, event := encoded(1), skald.Event[order]{Topic: "orders", Type: "order.placed"}
	out, value := outbox.New(pgstore.NewSQL(db, nil), nil), newOrder(1)
	say := func(ctx context.Context, tx *sql.Tx) error {
		return out.Write(ctx, tx, event.New(orderKey(w.n.Add(1)), value))
	}
	return []contender{
		{"bare INSERT, database/sql", w.empty, sqlTurn(db, func(ctx context.Context, tx *sql.Tx) error {
			_, err := tx.ExecContext(ctx, insertPlain, plainArgs(w.n.Add(1), data)...)
			return err
		})},
		{"skald, database/sql", w.empty, sqlTurn(db, say)},
		{"bare INSERT, GORM", w.empty, gormTurn(g, func(_ context.Context, tx *gorm.DB) error {
			return tx.Create(w.plainRow(data)).Error
		})},
		{"skald, GORM", w.empty, gormTurn(g, func(ctx context.Context, tx *gorm.DB) error {
			under, ok := tx.Statement.ConnPool.(*sql.Tx)
			if !ok {
				return fmt.Errorf("GORM is in %T", tx.Statement.ConnPool)
			}
			return say(ctx, under)
		})},
	}
}

func sqlTurn(db *sql.DB, op func(context.Context, *sql.Tx) error) func(context.Context, *meter) error {
	return func(ctx context.Context, m *meter) error {
		return m.loop(ctx, clients, 1, func(ctx context.Context, _ int) error {
			tx, err := db.BeginTx(ctx, nil)
			if err != nil {
				return err
			}
			if err := op(ctx, tx); err != nil {
				return errors.Join(err, tx.Rollback())
			}
			return tx.Commit()
		})
	}
}

func gormTurn(g *gorm.DB, op func(context.Context, *gorm.DB) error) func(context.Context, *meter) error {
	return func(ctx context.Context, m *meter) error {
		return m.loop(ctx, clients, 1, func(ctx context.Context, _ int) error {
			return g.WithContext(ctx).Transaction(func(tx *gorm.DB) error { return op(ctx, tx) })
		})
	}
}
