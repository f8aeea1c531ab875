package main

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/skald-go/skald/outbox"
	"github.com/skald-go/skald/store/pgstore"
)

// The tables of the hand-written drains: what research and tutorials show.
const (
	cursorTable = `create table by_cursor (id bigint generated always as identity, xid xid8 not null default pg_current_xact_id(),
		topic text not null, key text, payload text, at timestamptz not null default now(), primary key (xid, id))`
	positionTable = `create table position (name text primary key, xid xid8 not null, id bigint not null)`
	deleteTable   = `create table by_delete (id bigint generated always as identity primary key, topic text not null, key text,
		payload text, at timestamptz not null default now())`
	updateTable = `create table by_update (id bigint generated always as identity primary key, topic text not null, key text,
		payload text, at timestamptz not null default now(), published_at timestamptz)`
	updateIndex = `create index on by_update (id) where published_at is null`
)

// A yard has our outbox, filled once, and tables beside it that hold the same rows.
type yard struct {
	b    *bench
	pool *pgxpool.Pool
	db   *pgstore.Store
}

func (b *bench) yard(ctx context.Context, topic string, rows int) (*yard, error) {
	pool, db, err := b.skald(ctx)
	if err != nil {
		return nil, err
	}
	y := &yard{b: b, pool: pool, db: db}
	return y, fill(ctx, pool, outbox.New[pgx.Tx](db, nil), topic, rows, nil)
}

// refill makes a table anew with rows of the outbox.
func (y *yard) refill(rows int, table string, statements ...string) func(context.Context) error {
	return func(ctx context.Context) error {
		if err := execAll(ctx, y.pool, append([]string{"drop table if exists " + table},
			statements...)...); err != nil {
			return err
		}
		if err := copyRows(ctx, y.pool, "insert into "+table+" (topic, key, payload) select topic, key, data",
			rows); err != nil {
			return err
		}
		return execAll(ctx, y.pool, "vacuum analyze "+table)
	}
}

func (y *yard) relay() contender {
	return contender{name: "skald relay", turn: func(ctx context.Context, m *meter) error {
		return m.carry(ctx, y.db, newSink(nil, y.b.rows), plainRelay())
	}}
}

// steps drains by one connection with a statement that reads a page and one that finishes it.
func (y *yard) steps(name string, ready func(context.Context) error, read, finish string) contender {
	return contender{name, ready, func(ctx context.Context, m *meter) error {
		conn, err := y.pool.Acquire(ctx)
		if err != nil {
			return err
		}
		defer conn.Release()
		return m.drain(ctx, func(ctx context.Context) (int, error) {
			b := &pgx.Batch{}
			b.Queue("begin")
			b.Queue(read)
			br := conn.SendBatch(ctx, b)
			if _, err := br.Exec(); err != nil {
				return 0, err
			}
			ids, err := readPayloads(br.Query())
			if err := br.Close(); err != nil {
				return 0, err
			}
			if err != nil {
				return 0, err
			}
			b = &pgx.Batch{}
			b.Queue(finish, ids)
			b.Queue("commit")
			return len(ids), conn.SendBatch(ctx, b).Close()
		})
	}}
}

func readPayloads(rows pgx.Rows, err error) ([]int64, error) {
	if err != nil {
		return nil, err
	}
	var ids []int64
	var id int64
	var key string
	var payload []byte
	_, err = pgx.ForEachRow(rows, []any{&id, &key, &payload},
		func() error { ids = append(ids, id); return nil })
	return ids, err
}

// byCursor advances over (xid, id) below the oldest running transaction and touches no row.
func (y *yard) byCursor() contender {
	const page = 1000
	ready := y.refill(y.b.rows, "by_cursor", "drop table if exists position", cursorTable, positionTable,
		"insert into position values ('r', '0', 0)")
	return contender{"by hand: cursor, 1,000", ready, func(ctx context.Context, m *meter) error {
		conn, err := y.pool.Acquire(ctx)
		if err != nil {
			return err
		}
		defer conn.Release()
		xid, id := "0", int64(0)
		return m.drain(ctx, func(ctx context.Context) (int, error) {
			rows, err := conn.Query(ctx,
				fmt.Sprintf(`select xid::text as x, id, key, payload from by_cursor as o
				where (xid, id) > ($1::text::xid8, $2) and xid < pg_snapshot_xmin(pg_current_snapshot()) order by o.xid, o.id limit %d`, page), xid, id)
			if err != nil {
				return 0, err
			}
			var key string
			var payload []byte
			n := 0
			if _, err := pgx.ForEachRow(rows, []any{&xid, &id, &key, &payload},
				func() error { n++; return nil }); err != nil || n == 0 {
				return 0, err
			}
			_, err = conn.Exec(ctx, "update position set xid = $1::text::xid8, id = $2 where name = 'r'", xid,
				id)
			return n, err
		})
	}}
}

// poller is the form of the tutorials: LIMIT 100, SKIP LOCKED, one UPDATE per row. publish may be nil.
func (y *yard) poller(publish func(ctx context.Context, keys []string, payloads [][]byte) error) contender {
	ready := y.refill(min(y.b.rows, y.b.peerRows*5), "by_update", updateTable, updateIndex)
	return contender{"tutorial's poller", ready, func(ctx context.Context, m *meter) error {
		conn, err := y.pool.Acquire(ctx)
		if err != nil {
			return err
		}
		defer conn.Release()
		return m.drain(ctx, func(ctx context.Context) (n int, err error) {
			err = pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
				n, err = pollOnce(ctx, tx, publish)
				return err
			})
			return n, err
		})
	}}
}

func pollOnce(ctx context.Context, tx pgx.Tx,
	publish func(context.Context, []string, [][]byte) error) (int, error) {
	rows, err := tx.Query(ctx,
		`select id, key, payload from by_update where published_at is null order by id limit 100 for update skip locked`)
	if err != nil {
		return 0, err
	}
	var ids []int64
	var keys []string
	var payloads [][]byte
	var id int64
	var key string
	var payload []byte
	_, err = pgx.ForEachRow(rows, []any{&id, &key, &payload}, func() error {
		ids, keys, payloads = append(ids, id), append(keys, key), append(payloads, payload)
		return nil
	})
	if err != nil {
		return 0, err
	}
	if publish != nil && len(ids) > 0 {
		if err := publish(ctx, keys, payloads); err != nil {
			return 0, err
		}
	}
	for _, id := range ids {
		if _, err := tx.Exec(ctx, "update by_update set published_at = now() where id = $1", id); err != nil {
			return 0, err
		}
	}
	return len(ids), nil
}

func drains() comparison {
	peers := append([]string{"tutorial's poller"}, peerNames()...)
	return comparison{
		name:  "relay-drain",
		title: "a backlog through one relay to a publisher that answers at once, in key order; rows per second",
		set: func(ctx context.Context, b *bench) ([]contender, error) {
			y, err := b.yard(ctx, "orders", b.rows)
			if err != nil {
				return nil, err
			}
			others, err := b.peers(ctx)
			if err != nil {
				return nil, err
			}
			return append([]contender{
				y.relay(), y.byCursor(),
				y.steps("by hand: DELETE, 1,000", y.refill(b.rows, "by_delete", deleteTable),
					"select id, key, payload from by_delete order by id limit 1000 for update skip locked",
					"delete from by_delete where id = any($1)"),
				y.steps("by hand: UPDATE, 1,000", y.refill(b.rows, "by_update", updateTable, updateIndex),
					"select id, key, payload from by_update where published_at is null order by id limit 1000 for update skip locked",
					"update by_update set published_at = now() where id = any($1)"),
				y.poller(nil),
			}, others...), nil
		},
		bars: []bar{
			{what: "skald relay, rows/s", of: "skald relay", value: perSecond, least: 300_000},
			{what: "skald relay ÷ best peer", of: "skald relay", to: peers, value: perSecond, least: 8},
			{what: "skald relay ÷ tutorial's poller", of: "skald relay", to: []string{"tutorial's poller"},
				value: perSecond},
			{what: "skald relay ÷ by hand: cursor", of: "skald relay", to: []string{"by hand: cursor, 1,000"},
				value: perSecond},
		},
	}
}

const waitStep = time.Millisecond // between two looks at a peer's counter
