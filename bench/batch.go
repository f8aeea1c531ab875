package main

import (
	"context"
	"errors"
	"hash/fnv"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/inbox"
	"github.com/skald-go/skald/outbox"
)

var taken = skald.Event[order]{Topic: "payments", Type: "payment.taken"}

const (
	batch          = 100
	insertPayments = `insert into payment (msg_id, amount) select id, 100 from unnest($1::text[]) as id`
)

// each handles each message by itself; of a hundred, it rejects no, the same ones whenever they come.
func (t *till) each(size int, no uint32) func(*feed) *inbox.Inbox[pgx.Tx] {
	return func(f *feed) *inbox.Inbox[pgx.Tx] {
		in, out := t.batches(f, size)
		value := newOrder(1)
		in.Handle("orders", "order.placed", func(ctx context.Context, tx pgx.Tx, m skald.Message) error {
			if _, err := tx.Exec(ctx, insertPayment, m.ID); err != nil {
				return err
			}
			if chance(m.ID) < no {
				return skald.Reject(errors.New("declined"))
			}
			return out.Write(ctx, tx, taken.New(string(m.Key), value))
		})
		return in
	}
}

// chance is a number below a hundred that is always the same for id.
func chance(id string) uint32 {
	h := fnv.New32a()
	_, _ = h.Write([]byte(id))
	return h.Sum32() % 100
}

// atOnce handles a batch in one statement.
func (t *till) atOnce(f *feed) *inbox.Inbox[pgx.Tx] {
	in, out := t.batches(f, batch)
	value := newOrder(1)
	in.HandleBatch("orders", func(ctx context.Context, tx pgx.Tx, ms []skald.Message) error {
		ids := make([]string, len(ms))
		for i := range ms {
			ids[i] = ms[i].ID
			if err := out.Write(skald.WithCause(ctx, ms[i]), tx,
				taken.New(string(ms[i].Key), value)); err != nil {
				return err
			}
		}
		_, err := tx.Exec(ctx, insertPayments, ids)
		return err
	}, "order.placed")
	return in
}

func (t *till) batches(f *feed, size int) (*inbox.Inbox[pgx.Tx], *outbox.Outbox[pgx.Tx]) {
	o := t.in
	o.Workers, o.Logger, o.Batch = workers, quietly(), size
	return inbox.New[pgx.Tx](t.db, f, group, &o), outbox.New[pgx.Tx](t.db, t.say)
}

// byHandAtOnce is a hundred messages in one transaction of two round trips, each table one statement.
func (t *till) byHandAtOnce() contender {
	return contender{handAtOnce, t.empty, func(ctx context.Context, m *meter) error {
		conns := make([]*pgxpool.Conn, workers)
		for i := range conns {
			c, err := t.pool.Acquire(ctx)
			if err != nil {
				return err
			}
			defer c.Release()
			conns[i] = c
		}
		return m.loop(ctx, workers, batch,
			func(ctx context.Context, w int) error { return t.hundred(ctx, conns[w].Conn()) })
	}}
}

func (t *till) hundred(ctx context.Context, c *pgx.Conn) error {
	ids, rows := make([]string, batch), make([]any, 0, 16*batch)
	value := newOrder(1)
	for i := range ids {
		ids[i] = fresh()
		row, err := t.event(value)
		if err != nil {
			return err
		}
		rows = append(rows, row...)
	}
	b := &pgx.Batch{}
	b.Queue("begin")
	b.Queue(`insert into inbox (consumer, source, id) select 'payment', '/shop', id from unnest($1::text[]) as id on conflict do nothing returning id`, ids)
	if err := c.SendBatch(ctx, b).Close(); err != nil {
		return err
	}
	b = &pgx.Batch{}
	b.Queue(insertPayments, ids)
	b.Queue(insertMany(batch), rows...)
	b.Queue("commit")
	return c.SendBatch(ctx, b).Close()
}

// turn measures how many messages of those that are new to it an inbox finishes.
func (t *till) turn(name string, consume func(*feed) *inbox.Inbox[pgx.Tx]) contender {
	return contender{name, t.empty, func(ctx context.Context, m *meter) error {
		return t.finished(ctx, m, consume, func(h inbox.Health) int64 { return h.Handled + h.Rejected })
	}}
}

const (
	single     = "skald inbox"
	batched    = "skald inbox, batches"
	onceForAll = "skald inbox, OnBatch"
	handAtOnce = "by hand: 100 in a transaction"
	byDefault  = "skald inbox, default"
	singleNo   = "skald inbox, 5 % rejected"
	batchedNo  = "skald inbox, batches, 5 % rejected"
	defaultNo  = "skald inbox, default, 5 % rejected"
)

func batches() comparison {
	return comparison{
		name:  "batched-messages",
		title: "idempotent messages that share transactions of up to 100, handlers of one INSERT and one event, 16 workers",
		set: func(ctx context.Context, b *bench) ([]contender, error) {
			t, err := b.till(ctx)
			if err != nil {
				return nil, err
			}
			pays, err := t.riverPays(ctx, b, riverPays, 1000)
			if err != nil {
				return nil, err
			}
			later, err := t.riverPays(ctx, b, riverLater, 500)
			if err != nil {
				return nil, err
			}
			return []contender{
				t.byHand(threeTrips, t.threeTrips, fresh), t.turn(single, t.each(1, 0)),
				t.turn(byDefault, t.each(0, 0)),
				t.turn(batched, t.each(batch, 0)), t.turn(onceForAll, t.atOnce), t.byHandAtOnce(),
				t.turn(singleNo, t.each(1, 5)), t.turn(defaultNo, t.each(0, 5)),
				t.turn(batchedNo, t.each(batch, 5)), pays, later,
			}, nil
		},
		bars: []bar{
			{what: "OnBatch, messages/s", of: onceForAll, value: perSecond, least: 40_000},
			{what: "batches, messages/s", of: batched, value: perSecond},
			{what: "batches ÷ one by one", of: batched, to: []string{single}, value: perSecond},
			{what: "default ÷ one by one", of: byDefault, to: []string{single}, value: perSecond},
			{what: "default ÷ one by one by hand", of: byDefault, to: []string{threeTrips}, value: perSecond,
				least: 2.5},
			{what: "default, 5 % rejected ÷ one by one by hand", of: defaultNo, to: []string{threeTrips},
				value: perSecond, least: 1.5},
			{what: "default ÷ one by one, 5 % rejected", of: defaultNo, to: []string{singleNo},
				value: perSecond},
			{what: "OnBatch ÷ river", of: onceForAll, to: []string{riverPays}, value: perSecond, least: 5},
			{what: "OnBatch ÷ river's best", of: onceForAll, to: []string{riverPays, riverLater},
				value: perSecond, least: 5},
			{what: "batches ÷ river", of: batched, to: []string{riverPays}, value: perSecond},
			{what: "OnBatch ÷ by hand", of: onceForAll, to: []string{handAtOnce}, value: perSecond},
			{what: "batches ÷ one by one, 5 % rejected", of: batchedNo, to: []string{singleNo},
				value: perSecond},
		},
	}
}
