package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/inbox"
	"github.com/skald-go/skald/internal/uuid7"
	"github.com/skald-go/skald/outbox"
	"github.com/skald-go/skald/store/pgstore"
)

const (
	workers = 16
	group   = "payment"

	paymentTable = `create table payment (id bigint generated always as identity primary key, msg_id text not null, amount bigint not null,
		at timestamptz not null default now())`
	insertPayment = `insert into payment (msg_id, amount) values ($1, 100)`
	inboxTable    = `create table inbox (consumer text not null, source text not null, id text not null, status text not null default 'done',
		at timestamptz not null default now(), primary key (consumer, source, id))`
	takeIn = `insert into inbox (consumer, source, id) values ('payment', '/shop', $1) on conflict do nothing`
)

// A till is what the consumers work in.
type till struct {
	pool *pgxpool.Pool
	db   *pgstore.Store
	n    atomic.Int64
	data []byte

	// How Skald's inbox runs.
	in      inbox.Options
	say     *outbox.Options
	parents *parents // of the messages
}

func (b *bench) till(ctx context.Context) (*till, error) {
	pool, db, err := b.skald(ctx)
	if err != nil {
		return nil, err
	}
	return &till{pool: pool, db: db, data: []byte(encoded(1))},
		execAll(ctx, pool, paymentTable, inboxTable, "create table plain"+plainTable)
}

func (t *till) empty(ctx context.Context) error {
	return execAll(ctx, t.pool, "truncate payment, inbox, plain, skald_outbox, skald_mark, skald_parked")
}

// consume is Skald's inbox, with a transaction for each message: the handler inserts one row and says one
// event.
func (t *till) consume(f *feed) *inbox.Inbox[pgx.Tx] {
	o := t.in
	o.Workers, o.Logger, o.Batch = workers, quietly(), 1
	in := inbox.New[pgx.Tx](t.db, f, group, &o)
	out := outbox.New[pgx.Tx](t.db, t.say)
	value := newOrder(1)
	in.Handle("orders", "order.placed", func(ctx context.Context, tx pgx.Tx, m skald.Message) error {
		if _, err := tx.Exec(ctx, insertPayment, m.ID); err != nil {
			return err
		}
		return out.Write(ctx, tx, taken.New(string(m.Key), value))
	})
	return in
}

// over measures how far count goes in the time of a measurement, once it is under way.
func (m *meter) over(ctx context.Context, ended <-chan error, count func() int64) error {
	tick := time.NewTicker(waitStep)
	defer tick.Stop()
	warmed := time.Now().Add(m.b.limit)
	for count() < 2000 && time.Now().Before(warmed) {
		select {
		case <-tick.C:
		case err := <-ended:
			return fmt.Errorf("the inbox ended: %w", err)
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	if err := m.begin(ctx); err != nil {
		return err
	}
	from := count()
	m.a.at = time.Now()
	select {
	case <-time.After(m.b.dur):
	case err := <-ended:
		return fmt.Errorf("the inbox ended: %w", err)
	case <-ctx.Done():
		return ctx.Err()
	}
	n, at := count(), time.Now()
	m.endAt(ctx, int(n-from), at)
	return nil
}

// check counts effects in the database: one of each kind for each message.
func (t *till) check(ctx context.Context, h inbox.Health) error {
	var payments, events, marks int64
	err := t.pool.QueryRow(ctx,
		`select (select count(*) from payment), (select count(*) from skald_outbox), (select count(*) from skald_mark)`).Scan(&payments, &events, &marks)
	if err != nil {
		return fmt.Errorf("count effects: %w", err)
	}
	if payments != h.Handled || events != h.Handled || marks != h.Handled+h.Rejected {
		return fmt.Errorf("%d messages handled and %d rejected left %d payments, %d events and %d marks",
			h.Handled, h.Rejected, payments, events, marks)
	}
	return nil
}

// event is what the handler by hand says.
func (t *till) event(value order) ([]any, error) {
	data, err := json.Marshal(value)
	if err != nil {
		return nil, err
	}
	return plainArgs(t.n.Load(), string(data)), nil
}

// threeTrips is the floor of a library that calls a user's handler: BEGIN and the inbox row in one round
// trip, the handler's own statement, the event and COMMIT in one.
func (t *till) threeTrips(ctx context.Context, c *pgx.Conn, id string, value order) error {
	b := &pgx.Batch{}
	b.Queue("begin")
	b.Queue(takeIn, id)
	br := c.SendBatch(ctx, b)
	if _, err := br.Exec(); err != nil {
		return errors.Join(err, br.Close())
	}
	tag, err := br.Exec()
	if err = errors.Join(err, br.Close()); err != nil {
		return err
	}
	return t.finish(ctx, c, tag, id, value, insertPlain, func(row []any) []any { return row })
}

// finish is what a message by hand does behind its mark.
func (t *till) finish(ctx context.Context, c *pgx.Conn, marked pgconn.CommandTag, id string, value order,
	insert string, args func([]any) []any) error {
	if marked.RowsAffected() == 0 {
		_, err := c.Exec(ctx, "rollback")
		return err
	}
	if _, err := c.Exec(ctx, insertPayment, id); err != nil {
		return err
	}
	row, err := t.event(value)
	if err != nil {
		return err
	}
	b := &pgx.Batch{}
	b.Queue(insert, args(row)...)
	b.Queue("commit")
	return c.SendBatch(ctx, b).Close()
}

// tutorial is the form of the tutorials: a look-up, the key as "processing", the work, the key as
// "completed".
func (t *till) tutorial(ctx context.Context, c *pgx.Conn, level pgx.TxIsoLevel, id string,
	value order) error {
	for {
		err := t.tutorialOnce(ctx, c, level, id, value)
		if pe := new(pgconn.PgError); !errors.As(err, &pe) || pe.Code != "40001" {
			return err
		}
	}
}

func (t *till) tutorialOnce(ctx context.Context, c *pgx.Conn, level pgx.TxIsoLevel, id string,
	value order) error {
	return pgx.BeginTxFunc(ctx, c, pgx.TxOptions{IsoLevel: level}, func(tx pgx.Tx) error {
		var status string
		err := tx.QueryRow(ctx,
			"select status from inbox where consumer = 'payment' and source = '/shop' and id = $1 for update",
			id).Scan(&status)
		if !errors.Is(err, pgx.ErrNoRows) {
			return err
		}
		args, err := t.event(value)
		if err != nil {
			return err
		}
		b := []struct {
			sql  string
			args []any
		}{
			{"insert into inbox (consumer, source, id, status) values ('payment', '/shop', $1, 'processing')",
				[]any{id}},
			{insertPayment, []any{id}},
			{insertPlain, args},
			{"update inbox set status = 'completed' where consumer = 'payment' and source = '/shop' and id = $1", []any{id}},
		}
		for _, s := range b {
			if _, err := tx.Exec(ctx, s.sql, s.args...); err != nil {
				return err
			}
		}
		return nil
	})
}

// byHand gives each worker a connection and a message after the other.
func (t *till) byHand(name string, op func(ctx context.Context, c *pgx.Conn, id string, value order) error,
	id func() string) contender {
	return contender{name, t.empty, func(ctx context.Context, m *meter) error {
		conns := make([]*pgxpool.Conn, workers)
		for i := range conns {
			c, err := t.pool.Acquire(ctx)
			if err != nil {
				return err
			}
			defer c.Release()
			conns[i] = c
		}
		value := newOrder(1)
		return m.loop(ctx, workers, 1,
			func(ctx context.Context, w int) error { return op(ctx, conns[w].Conn(), id(), value) })
	}}
}

func fresh() string { return uuid7.New(time.Now()) }

func messages() comparison {
	return comparison{
		name:  "idempotent-message",
		title: "an idempotent message, its handler one INSERT and one event, 16 workers",
		set: func(ctx context.Context, b *bench) ([]contender, error) {
			t, err := b.till(ctx)
			if err != nil {
				return nil, err
			}
			level := func(l pgx.TxIsoLevel) func(context.Context, *pgx.Conn, string, order) error {
				return func(ctx context.Context, c *pgx.Conn, id string, value order) error {
					return t.tutorial(ctx, c, l, id, value)
				}
			}
			return []contender{
				{"skald inbox", t.empty, t.inbox},
				t.byHand(threeTrips, t.threeTrips, fresh),
				t.byHand("by hand: the same tables and bounds", t.ownTables, fresh),
				t.byHand("by hand: the same work", t.sameWork, fresh),
				t.byHand("tutorial: SERIALIZABLE", level(pgx.Serializable), fresh),
				t.byHand("tutorial: READ COMMITTED", level(pgx.ReadCommitted), fresh),
			}, nil
		},
		bars: []bar{
			{what: "skald inbox ÷ by hand", of: "skald inbox", to: []string{threeTrips},
				value: perSecond, least: 0.9},
			{what: "skald inbox ÷ tutorial, SERIALIZABLE", of: "skald inbox",
				to: []string{"tutorial: SERIALIZABLE"}, value: perSecond, least: 7},
			{what: "skald inbox ÷ by hand, the same tables and bounds", of: "skald inbox",
				to: []string{"by hand: the same tables and bounds"}, value: perSecond},
			{what: "skald inbox ÷ by hand, the same work", of: "skald inbox",
				to: []string{"by hand: the same work"}, value: perSecond, least: 0.9},
			{what: "skald inbox ÷ tutorial, READ COMMITTED", of: "skald inbox",
				to: []string{"tutorial: READ COMMITTED"}, value: perSecond},
		},
	}
}

const knownIDs = 20_000 // how many different messages are repeated

func duplicates() comparison {
	return comparison{
		name:  "duplicates",
		title: "messages that were handled before, dropped per second, 16 workers",
		set: func(ctx context.Context, b *bench) ([]contender, error) {
			t, err := b.till(ctx)
			if err != nil {
				return nil, err
			}
			known, err := t.handleAll(ctx, knownIDs)
			if err != nil {
				return nil, err
			}
			var n atomic.Int64
			again := func() skald.Message { return known[n.Add(1)%knownIDs] }
			hand := t.byHand(threeTrips, t.threeTrips, func() string { return again().ID })
			hand.ready = nil
			return []contender{t.drop("skald inbox", again), hand}, nil
		},
		bars: []bar{
			{what: "skald inbox, duplicates/s", of: "skald inbox", value: perSecond, least: 35_000},
			{what: "skald inbox ÷ by hand", of: "skald inbox", to: []string{threeTrips},
				value: perSecond},
		},
	}
}

// drop measures an inbox that gets what it has handled before.
func (t *till) drop(name string, again func() skald.Message) contender {
	return contender{name: name, turn: func(ctx context.Context, m *meter) error {
		in := t.consume(newFeed(func() (skald.Message, bool) { return again(), true }))
		m.r.Concurrency = workers
		stop, ended := start(ctx, in)
		defer stop()
		if err := m.over(ctx, ended, func() int64 { return in.Health().Duplicates }); err != nil {
			return err
		}
		stop()
		if err := <-ended; err != nil {
			return err
		}
		return t.check(ctx, inbox.Health{Handled: knownIDs})
	}}
}

// inbox measures Skald's, with messages that are new to it.
func (t *till) inbox(ctx context.Context, m *meter) error {
	return t.finished(ctx, m, t.consume, func(h inbox.Health) int64 { return h.Handled })
}

// finished measures how many messages an inbox finishes, and that those which it handled left one effect of
// each kind.
func (t *till) finished(ctx context.Context, m *meter, consume func(*feed) *inbox.Inbox[pgx.Tx],
	count func(inbox.Health) int64) error {
	h, err := t.finishing(ctx, m, consume, func() skald.Message {
		msg := newMessage(t.n.Add(1), t.data)
		msg.TraceParent = t.parents.next()
		return msg
	}, count)
	if err != nil {
		return err
	}
	return t.check(ctx, h)
}

// finishing measures how many of such messages an inbox finishes.
func (t *till) finishing(ctx context.Context, m *meter, consume func(*feed) *inbox.Inbox[pgx.Tx],
	message func() skald.Message,
	count func(inbox.Health) int64) (inbox.Health, error) {
	var over atomic.Bool
	in := consume(newFeed(func() (skald.Message, bool) { return message(), !over.Load() }))
	m.r.Concurrency = workers
	stop, ended := start(ctx, in)
	defer stop()
	if err := m.over(ctx, ended, func() int64 { return count(in.Health()) }); err != nil {
		return inbox.Health{}, err
	}
	over.Store(true)
	stop()
	err := <-ended
	return in.Health(), err
}

// handleAll has n new messages handled, here and in the table of the form by hand.
func (t *till) handleAll(ctx context.Context, n int) ([]skald.Message, error) {
	known, at := make([]skald.Message, n), 0
	for i := range known {
		known[i] = newMessage(int64(i), t.data)
	}
	f := newFeed(func() (skald.Message, bool) {
		if at == n {
			return skald.Message{}, false
		}
		at++
		return known[at-1], true
	})
	stop, ended := start(ctx, t.consume(f))
	defer stop()
	select {
	case <-f.drained:
	case err := <-ended:
		return nil, fmt.Errorf("the inbox ended: %w", err)
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	stop()
	if err := <-ended; err != nil {
		return nil, err
	}
	return known,
		execAll(ctx, t.pool,
			"insert into inbox (consumer, source, id) select consumer, source, id::text from skald_mark",
			"vacuum analyze inbox", "vacuum analyze skald_mark")
}
