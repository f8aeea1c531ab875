package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/inbox"
	"github.com/skald-go/skald/store"
)

const (
	fewMarks = 10_000
	// timedMarks are marks of ids that were made, and finished, at times between $2 and $3 (seconds), evenly.
	timedMarks = `insert into skald_mark (consumer, source, id, outcome, fingerprint, at)
	select 'payment', '/shop', (lpad(to_hex(at), 12, '0') || '7' || substr(h, 1, 3) || '8' || substr(h, 4, 15))::uuid::text, 1, i, to_timestamp(at / 1000.0)
	from (select i, md5(i::text) as h, ($2::bigint * 1000 + ($3::bigint - $2::bigint) * 1000 * i / $1::bigint)::bigint as at
		from generate_series(0::bigint, $1::bigint - 1) as i) as m`
	// timelessMarks are marks of ids that tell no time, finished at $2 (seconds).
	timelessMarks = `insert into skald_mark (consumer, source, id, outcome, fingerprint, at)
	select 'payment', '/shop', gen_random_uuid()::text, 1, i, to_timestamp($2::bigint) from generate_series(0::bigint, $1::bigint - 1) as i`
)

func day(n int) time.Duration { return time.Duration(n) * 24 * time.Hour }

// stocked is a till whose consumer has finished n messages of either kind of id in the last four weeks.
func (b *bench) stocked(ctx context.Context, n int) (*till, error) {
	t, err := b.till(ctx)
	if err != nil {
		return nil, err
	}
	now := time.Now()
	if _, err := t.pool.Exec(ctx, timedMarks, n, now.Add(-day(28)).Unix(), now.Unix()); err != nil {
		return nil, fmt.Errorf("fill marks: %w", err)
	}
	if _, err := t.pool.Exec(ctx, timelessMarks, n, now.Unix()); err != nil {
		return nil, fmt.Errorf("fill marks: %w", err)
	}
	return t, execAll(ctx, t.pool, "vacuum analyze skald_mark")
}

// kept measures messages beside the marks that are there.
func (t *till) kept(name string, id func() string) contender {
	ready := func(ctx context.Context) error { return execAll(ctx, t.pool, "truncate payment, skald_outbox") }
	message := func() skald.Message {
		m := newMessage(t.n.Add(1), t.data)
		m.ID = id()
		return m
	}
	return contender{name, ready, func(ctx context.Context, m *meter) error {
		h, err := t.finishing(ctx, m, t.consume, message, func(h inbox.Health) int64 { return h.Handled })
		if err != nil {
			return err
		}
		var payments int64
		if err := t.pool.QueryRow(ctx, "select count(*) from payment").Scan(&payments); err != nil ||
			payments != h.Handled {
			return fmt.Errorf("%d messages were handled and left %d payments: %w", h.Handled, payments, err)
		}
		return nil
	}}
}

// timeless is an id that tells no time: a UUID of version 4, for the most part.
func timeless() string {
	id := []byte(fresh())
	id[14] = '4'
	return string(id[24:]) + string(id[:24]) // random first, as in a UUID of version 4
}

func marksKept() comparison {
	c := comparison{
		name: "marks-kept",
		title: fmt.Sprintf(
			"what a message costs beside -marks marks of either kind of id, and beside %d; 16 workers",
			fewMarks),
		set: func(ctx context.Context, b *bench) ([]contender, error) {
			few, err := b.stocked(ctx, fewMarks)
			if err != nil {
				return nil, err
			}
			many, err := b.stocked(ctx, b.marks)
			if err != nil {
				return nil, err
			}
			return []contender{few.kept("timed, few", fresh), many.kept("timed, many", fresh),
				few.kept("timeless, few", timeless), many.kept("timeless, many", timeless)}, nil
		},
	}
	for _, kind := range []string{"timed", "timeless"} {
		c.bars = append(c.bars,
			bar{what: kind + " ids, time of a message, many ÷ few", of: kind + ", many",
				to: []string{kind + ", few"}, value: cost, most: 1.2},
			bar{what: kind + " ids, processor time, many ÷ few", of: kind + ", many",
				to: []string{kind + ", few"}, value: cpu, most: 1.2})
	}
	return c
}

const (
	pruning  = "pruning marks"
	aMessage = "a message, "
	calm     = "before"
)

func emptied() comparison {
	during := func(what string) bar {
		return bar{what: "the longest message, ms, while " + what, of: aMessage + "while " + what,
			value: extra("longest")}
	}
	return comparison{
		name:   "marks-emptied",
		title:  "-marks marks of two days, and as many of ids that tell no time, are pruned, while 800 messages/s are taken",
		script: emptyAndPrune,
		bars: []bar{
			during(pruning), {what: "the longest message, ms, before", of: aMessage + calm,
				value: extra("longest")},
			{what: "a message, p99, while " + pruning + " ÷ before", of: aMessage + "while " + pruning,
				to: []string{aMessage + calm}, value: p99},
		},
	}
}

// emptyAndPrune lets a steady load tell what the retention does to it.
func emptyAndPrune(ctx context.Context, b *bench, each func(Result)) error {
	t, err := b.till(ctx)
	if err != nil {
		return err
	}
	then := time.Now().Add(-day(33)).Truncate(2 * day(1)) // as the leaves are cut
	if _, err := t.pool.Exec(ctx, timedMarks, b.marks, then.Unix(),
		then.Add(day(2)-time.Minute).Unix()); err != nil {
		return fmt.Errorf("fill marks: %w", err)
	}
	if _, err := t.pool.Exec(ctx, timelessMarks, b.marks, then.Unix()); err != nil {
		return fmt.Errorf("fill marks: %w", err)
	}
	if err := execAll(ctx, t.pool, "vacuum analyze skald_mark", "checkpoint"); err != nil {
		return err
	}
	l := &steady{t: t}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	ended := l.begin(ctx)
	if err := l.phase(ctx, b, each, calm, nil); err != nil {
		return err
	}
	if err := l.phase(ctx, b, each, "while "+pruning,
		func(ctx context.Context) error { return t.retire(ctx, b, each) }); err != nil {
		return err
	}
	stop()
	return ended()
}

// retire calls the retention until what it is to take away is gone.
func (t *till) retire(ctx context.Context, b *bench, each func(Result)) error {
	m := meter{b: b, r: Result{Comparison: "marks-emptied", Name: pruning, Concurrency: 1},
		a: b.probe.snap(ctx)}
	for more := true; more; {
		did, err := t.db.Maintain(ctx, store.Maintain{})
		if err != nil {
			return err
		}
		more = did.More
	}
	m.end(ctx, 2*b.marks)
	each(m.r)
	return nil
}

// A steady is a load at a fixed rate: an intake and its commit, with either kind of id.
type steady struct {
	t *till

	mu  sync.Mutex
	lat []time.Duration
}

func (l *steady) begin(ctx context.Context) (ended func() error) {
	errs := make(chan error, heldWriters)
	var n atomic.Int64
	for range heldWriters {
		go func() { errs <- l.take(ctx, &n) }()
	}
	return func() error {
		var all []error
		for range heldWriters {
			all = append(all, <-errs)
		}
		return errors.Join(all...)
	}
}

func (l *steady) take(ctx context.Context, n *atomic.Int64) error {
	tick := time.NewTicker(heldPause)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
		i, id := n.Add(1), fresh()
		if i%2 == 0 {
			id = timeless()
		}
		began := time.Now()
		switch err := l.t.one(ctx, id, i); {
		case ctx.Err() != nil:
			return nil
		case err != nil:
			return err
		}
		l.mu.Lock()
		l.lat = append(l.lat, time.Since(began))
		l.mu.Unlock()
	}
}

// one takes in a message, inserts its row and commits.
func (t *till) one(ctx context.Context, id string, n int64) error {
	u, err := t.db.Begin(ctx,
		store.Intake{Marks: []store.Mark{{Consumer: group, Identity: store.Identity{Source: "/shop", ID: id},
			Outcome:  store.Done,
			KeyOrder: store.Arriving, Key: []byte(orderKey(n))}}})
	if err != nil {
		return err
	}
	if _, err := u.Tx().Exec(ctx, insertPayment, id); err != nil {
		_, _ = u.Rollback(context.WithoutCancel(ctx))
		return err
	}
	return u.Commit(ctx)
}

// phase measures the load for a while, and for as long as work takes.
func (l *steady) phase(ctx context.Context, b *bench, each func(Result), name string,
	work func(context.Context) error) error {
	l.mu.Lock()
	l.lat = nil
	l.mu.Unlock()
	m := meter{b: b, r: Result{Comparison: "marks-emptied", Name: aMessage + name, Concurrency: heldWriters},
		a: b.probe.snap(ctx)}
	if work != nil {
		if err := work(ctx); err != nil {
			return err
		}
	}
	select {
	case <-time.After(b.dur - time.Since(m.a.at)):
	case <-ctx.Done():
		return ctx.Err()
	}
	l.mu.Lock()
	m.lat = l.lat
	l.lat = nil
	l.mu.Unlock()
	m.end(ctx, len(m.lat))
	m.r.Extra = map[string]float64{"longest": quantile(m.lat, 1)}
	each(m.r)
	return nil
}
