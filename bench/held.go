package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/outbox"
	"github.com/skald-go/skald/relay"
)

const (
	heldWriters = 4
	heldPause   = 5 * time.Millisecond // of each writer: 800 transactions in a second
	heldSlice   = 10 * time.Second
	heldKey     = "held"
)

func held() comparison {
	figure := func(what, of string, value func(Result) float64, most float64) bar {
		return bar{what: what + ", during ÷ before", of: of + ", during", to: []string{of + ", before"},
			value: value, most: most}
	}
	return comparison{
		name: "held",
		title: fmt.Sprintf("a transaction with an outbox row is held open while %d transactions/s are written and relayed, in slices of %v",
			heldWriters*int(time.Second/heldPause), heldSlice),
		script: script,
		bars: []bar{
			figure("a write, p50", "write", p50, 1.2),
			figure("write to publisher, p50", "delivery", p50, 1.2),
			figure("processor time of a message, client + PostgreSQL", "write", cpu, 1.2),
			figure("a write, p99", "write", p99, 0),
			figure("write to publisher, p99", "delivery", p99, 0),
		},
	}
}

// A street is a steady load: writers at a fixed rate, and a relay.
type street struct {
	pool *pgxpool.Pool
	out  *outbox.Outbox[pgx.Tx]

	mu       sync.Mutex
	writes   []time.Duration
	arrivals []time.Duration
	late     bool // the held row has come
}

// script is before, during and after, in slices.
func script(ctx context.Context, b *bench, each func(Result)) error {
	pool, db, err := b.skald(ctx)
	if err != nil {
		return err
	}
	s := &street{pool: pool, out: outbox.New[pgx.Tx](db, nil)}
	to := newSink(nil, 0)
	to.on = s.arrived
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	_, relayed := start(ctx, relay.New(db, to, &relay.Options{Logger: quietly()}))
	wrote := make(chan error, heldWriters)
	for w := range heldWriters {
		go func() { wrote <- s.write(ctx, int64(w)) }()
	}
	if err := s.slices(ctx, b, each); err != nil {
		return err
	}
	stop()
	var errs []error
	for range heldWriters {
		errs = append(errs, <-wrote)
	}
	return errors.Join(append(errs, <-relayed)...)
}

func (s *street) slices(ctx context.Context, b *bench, each func(Result)) error {
	phase := func(name string, n int) error {
		for i := range n {
			if err := s.slice(ctx, b, name, i, each); err != nil {
				return err
			}
		}
		return nil
	}
	if err := s.slice(ctx, b, "warming", 0, func(Result) {}); err != nil {
		return err
	}
	if err := phase("before", 3); err != nil {
		return err
	}
	tx, err := s.pool.Begin(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback(context.WithoutCancel(ctx)) }()
	if err := s.out.Write(ctx, tx, skald.Draft{Topic: "orders", Type: "order.placed", Key: []byte(heldKey),
		Value: 1}); err != nil {
		return err
	}
	if err := phase("during", max(1, int(b.hold/heldSlice))); err != nil {
		return err
	}
	if s.came() {
		return errors.New("the held row was published before its commit")
	}
	if err := tx.Commit(ctx); err != nil {
		return err
	}
	if err := phase("after", 2); err != nil {
		return err
	}
	if !s.came() {
		return errors.New("the held row was not published within 20 s of its commit")
	}
	return nil
}

// slice measures for a while what goes on.
func (s *street) slice(ctx context.Context, b *bench, phase string, i int, each func(Result)) error {
	s.mu.Lock()
	s.writes, s.arrivals = nil, nil
	s.mu.Unlock()
	m := meter{b: b, r: Result{Comparison: "held", Name: "write, " + phase, Rep: i, Concurrency: heldWriters},
		a: b.probe.snap(ctx)}
	select {
	case <-time.After(heldSlice):
	case <-ctx.Done():
		return ctx.Err()
	}
	s.mu.Lock()
	writes, arrivals := s.writes, s.arrivals
	s.mu.Unlock()
	m.lat = writes
	m.end(ctx, len(writes))
	each(m.r)
	d := Result{Comparison: "held", Name: "delivery, " + phase, Rep: i, Concurrency: 1, N: len(arrivals),
		Seconds: m.r.Seconds, Foreign: m.r.Foreign, Idle: m.r.Idle}
	d.PerSecond = float64(d.N) / d.Seconds
	d.latencies(arrivals)
	each(d)
	return nil
}

func (s *street) write(ctx context.Context, n int64) error {
	event, value := skald.Event[order]{Topic: "orders", Type: "order.placed"}, newOrder(n)
	tick := time.NewTicker(heldPause)
	defer tick.Stop()
	for ; ; n += heldWriters {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
		t := time.Now()
		err := pgx.BeginFunc(ctx, s.pool,
			func(tx pgx.Tx) error { return s.out.Write(ctx, tx, event.New(orderKey(n), value)) })
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return err
		}
		d := time.Since(t)
		s.mu.Lock()
		s.writes = append(s.writes, d)
		s.mu.Unlock()
	}
}

// arrived takes the time from the stamp that the outbox gave the message.
func (s *street) arrived(m skald.Message) {
	d := time.Since(m.Time)
	s.mu.Lock()
	defer s.mu.Unlock()
	if string(m.Key) == heldKey {
		s.late = true
		return
	}
	s.arrivals = append(s.arrivals, d)
}

func (s *street) came() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.late
}
