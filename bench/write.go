package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/internal/uuid7"
	"github.com/skald-go/skald/outbox"
)

const clients = 16

// The plain table has the columns that Skald's INSERT names, and a key.
const (
	plainColumns = `topic, key, type, data, data_bytes, key_bytes, content_type, schema, subject,
	correlation_id, causation_id, traceparent, headers, time, id, bucket`
	plainTable = `(seq bigint generated always as identity primary key, topic text not null, key text, type text not null, data text,
	data_bytes bytea, key_bytes bytea, content_type text not null, schema text, subject text, correlation_id text, causation_id text,
	traceparent text, headers jsonb, time timestamptz not null, id uuid not null, bucket smallint)`
	insertPlain = `insert into plain (` + plainColumns +
		`) values ($1,$2,$3,$4,$5,$6,$7,$8,$9,$10,$11,$12,$13,$14,$15,$16)`
)

// What the schema costs: the same row by hand into Skald's own table.
const insertOwn = `insert into skald_outbox (topic, key, type, data, correlation_id, causation_id, traceparent, time, id, bucket)
	values ($1,$2,$3,$4,$5,$6,$7,$8,$9,$10)`

// ownArgs are those of plainArgs that are not always null.
func ownArgs(plain []any) []any {
	return append(slices.Clone(plain[:4]), plain[9], plain[10], plain[11], plain[13], plain[14], plain[15])
}

// plainArgs are one row of the plain table; the payload was encoded before.
func plainArgs(n int64, data string) []any {
	now := time.Now()
	id := uuid7.New(now)
	return []any{"orders", orderKey(n), "order.placed", data, nil, nil, "application/json", nil, nil, id, nil,
		nil, nil, now, id, int16(n % 1024)}
}

func encoded(n int64) string {
	o := newOrder(n)
	return fmt.Sprintf(`{"order_id":%q,"pad":%q}`, o.ID, o.Pad)
}

type writing struct {
	pool *pgxpool.Pool
	out  *outbox.Outbox[pgx.Tx]
	n    atomic.Int64
}

func (b *bench) writing(ctx context.Context) (*writing, error) {
	pool, db, err := b.skald(ctx)
	if err != nil {
		return nil, err
	}
	if err := execAll(ctx, pool, "create table plain"+plainTable); err != nil {
		return nil, err
	}
	return &writing{pool: pool, out: outbox.New[pgx.Tx](db, nil)}, nil
}

// empty makes both sides start on empty tables.
func (w *writing) empty(ctx context.Context) error {
	return execAll(ctx, w.pool, "truncate plain", "truncate skald_outbox")
}

// turn measures op in a transaction of the caller: BEGIN, op, COMMIT, as a user of pgx writes it.
func (w *writing) turn(unit int, op func(ctx context.Context, tx pgx.Tx) error) func(context.Context,
	*meter) error {
	return func(ctx context.Context, m *meter) error {
		return m.loop(ctx, clients, unit, func(ctx context.Context, _ int) error {
			return pgx.BeginFunc(ctx, w.pool, func(tx pgx.Tx) error { return op(ctx, tx) })
		})
	}
}

func writes() comparison {
	return comparison{
		name:  "outbox-write",
		title: "one event in the caller's transaction (BEGIN, write, COMMIT), 16 clients",
		set: func(ctx context.Context, b *bench) ([]contender, error) {
			w, err := b.writing(ctx)
			if err != nil {
				return nil, err
			}
			data, event := encoded(1), skald.Event[order]{Topic: "orders", Type: "order.placed"}
			value := newOrder(1)
			return []contender{
				{"bare INSERT", w.empty, w.turn(1, func(ctx context.Context, tx pgx.Tx) error {
					_, err := tx.Exec(ctx, insertPlain, plainArgs(w.n.Add(1), data)...)
					return err
				})},
				{"by hand into Skald's table", w.empty, w.turn(1, func(ctx context.Context, tx pgx.Tx) error {
					_, err := tx.Exec(ctx, insertOwn, ownArgs(plainArgs(w.n.Add(1), data))...)
					return err
				})},
				{"skald", w.empty, w.turn(1, func(ctx context.Context, tx pgx.Tx) error {
					return w.out.Write(ctx, tx, event.New(orderKey(w.n.Add(1)), value))
				})},
			}, nil
		},
		bars: []bar{
			{what: "skald ÷ bare INSERT", of: "skald", to: []string{"bare INSERT"}, value: perSecond,
				least: 0.9},
			{what: "skald ÷ by hand into Skald's table", of: "skald",
				to: []string{"by hand into Skald's table"}, value: perSecond},
		},
	}
}

const batchOf = 10

func batchWrites() comparison {
	return comparison{
		name:  "outbox-write-batch",
		title: "ten events in the caller's transaction, 16 clients; rows per second",
		set: func(ctx context.Context, b *bench) ([]contender, error) {
			w, err := b.writing(ctx)
			if err != nil {
				return nil, err
			}
			data, event := encoded(1), skald.Event[order]{Topic: "orders", Type: "order.placed"}
			value, rows := newOrder(1), insertMany(batchOf)
			return []contender{
				{"bare INSERT of ten rows", w.empty,
					w.turn(batchOf, func(ctx context.Context, tx pgx.Tx) error {
						var args []any
						for range batchOf {
							args = append(args, plainArgs(w.n.Add(1), data)...)
						}
						_, err := tx.Exec(ctx, rows, args...)
						return err
					})},
				{"skald", w.empty, w.turn(batchOf, func(ctx context.Context, tx pgx.Tx) error {
					drafts := make([]skald.Draft, batchOf)
					for i := range drafts {
						drafts[i] = event.New(orderKey(w.n.Add(1)), value)
					}
					return w.out.Write(ctx, tx, drafts...)
				})},
			}, nil
		},
		bars: []bar{{what: "skald ÷ bare INSERT", of: "skald", to: []string{"bare INSERT of ten rows"},
			value: perSecond, least: 0.9}},
	}
}

// insertMany is insertPlain for n rows.
func insertMany(n int) string {
	const columns = 16
	var s strings.Builder
	s.WriteString("insert into plain (" + plainColumns + ") values ")
	for i := range n {
		if i > 0 {
			s.WriteByte(',')
		}
		s.WriteByte('(')
		for c := range columns {
			if c > 0 {
				s.WriteByte(',')
			}
			fmt.Fprintf(&s, "$%d", i*columns+c+1)
		}
		s.WriteByte(')')
	}
	return s.String()
}
