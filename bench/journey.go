package main

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/inbox"
	"github.com/skald-go/skald/outbox"
	"github.com/skald-go/skald/relay"
)

// A journey is the whole way in one process: a writer's COMMIT, the relay, the broker, the inbox, a handler
// that inserts a row. It measures from sending COMMIT until the handler has run.
type journey struct {
	t     *till
	out   *outbox.Outbox[pgx.Tx]
	event skald.Event[order]

	limit time.Duration // of the patience
	next  atomic.Int64
	mu    sync.Mutex
	sent  map[string]chan<- time.Duration // by key, which is each message's own
	at    map[string]time.Time
}

const journeyWriters = 32

// journeys finds the highest rate first: writers that wait, each, until theirs is handled. The others send at
// a share of it, whatever is handled meanwhile.
func journeys(p product) comparison {
	shares := []struct {
		name  string
		share float64
	}{{"at 10 % of it", 0.1}, {"at 50 % of it", 0.5}, {"at 90 % of it", 0.9}}
	c := comparison{
		name:  "broker-latency-" + p.name,
		title: "from COMMIT until the handler has run, relay and inbox in the writers' process, 16 shards: the highest rate of 32 writers that wait, and shares of it",
		there: p.there,
	}
	for _, s := range shares {
		c.bars = append(c.bars, bar{what: s.name + ", p50 ms", of: s.name, value: p50},
			bar{what: s.name + ", p99 ms", of: s.name, value: p99})
	}
	c.script = func(ctx context.Context, b *bench, each func(Result)) error {
		w, err := p.wire(ctx, b)
		if err != nil {
			return err
		}
		j, stop, err := w.journey(ctx)
		if err != nil {
			return err
		}
		defer stop()
		for rep := range b.reps {
			highest := &meter{b: b, r: Result{Comparison: c.name, Name: "the highest rate", Rep: rep}}
			if err := highest.loop(ctx, journeyWriters, 1, j.once); err != nil {
				return err
			}
			each(highest.r)
			for _, s := range shares {
				m := &meter{b: b, r: Result{Comparison: c.name, Name: s.name, Rep: rep}}
				if err := j.paced(ctx, m, s.share*highest.r.PerSecond); err != nil {
					return fmt.Errorf("%s: %w", s.name, err)
				}
				each(m.r)
			}
		}
		return nil
	}
	return c
}

func (w *wire) journey(ctx context.Context) (*journey, func(), error) {
	t, err := w.b.till(ctx)
	if err != nil {
		return nil, nil, err
	}
	topic, err := w.topic(ctx, wirePartitions)
	if err != nil {
		return nil, nil, err
	}
	from, err := w.bus()
	if err != nil {
		return nil, nil, err
	}
	to, err := w.bus()
	if err != nil {
		return nil, nil, err
	}
	j := &journey{t: t, limit: w.b.limit, out: outbox.New[pgx.Tx](t.db, nil),
		event: skald.Event[order]{Topic: topic, Type: "order.placed"},
		sent:  map[string]chan<- time.Duration{}, at: map[string]time.Time{}}
	in := inbox.New[pgx.Tx](t.db, from, name(), &inbox.Options{Workers: workers, Logger: quietly()})
	in.Handle(topic, "order.placed", func(ctx context.Context, tx pgx.Tx, m skald.Message) error {
		_, err := tx.Exec(ctx, insertPayment, m.ID)
		j.handled(string(m.Key))
		return err
	})
	stopRelay, relayed := start(ctx, relay.New(t.db, to, &relay.Options{Logger: quietly()}))
	stopInbox, taken := start(ctx, in)
	return j, func() {
		stopRelay()
		stopInbox()
		<-relayed
		<-taken
	}, nil
}

// handled tells the writer, once: a handler may run again.
func (j *journey) handled(key string) {
	now := time.Now()
	j.mu.Lock()
	defer j.mu.Unlock()
	if c := j.sent[key]; c != nil {
		c <- now.Sub(j.at[key])
		delete(j.sent, key)
		delete(j.at, key)
	}
}

// write commits one message; done is told how long it took until it was handled, and has room.
func (j *journey) write(ctx context.Context, done chan<- time.Duration) error {
	n := j.next.Add(1)
	tx, err := j.t.pool.Begin(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback(context.WithoutCancel(ctx)) }()
	key := fmt.Sprint("order-", n)
	if err := j.out.Write(ctx, tx, j.event.New(key, newOrder(n))); err != nil {
		return err
	}
	j.mu.Lock()
	j.sent[key], j.at[key] = done, time.Now()
	j.mu.Unlock()
	return tx.Commit(ctx)
}

// once is a writer that waits.
func (j *journey) once(ctx context.Context, _ int) error {
	done := make(chan time.Duration, 1)
	if err := j.write(ctx, done); err != nil {
		return err
	}
	select {
	case <-done:
		return nil
	case <-time.After(j.limit):
		return fmt.Errorf("not handled within %v", j.limit)
	case <-ctx.Done():
		return ctx.Err()
	}
}

// paced sends at a rate, from as many writers as it takes.
func (j *journey) paced(ctx context.Context, m *meter, rate float64) error {
	total := max(20, int(rate*m.b.dur.Seconds()))
	done, errs := make(chan time.Duration, total), make(chan error, total)
	if err := m.begin(ctx); err != nil {
		return err
	}
	begun := time.Now()
	due := time.NewTimer(0)
	defer due.Stop()
	var wg sync.WaitGroup
	for i := range total {
		due.Reset(time.Until(begun.Add(time.Duration(float64(i) / rate * float64(time.Second)))))
		select {
		case <-due.C:
		case <-ctx.Done():
			return ctx.Err()
		}
		wg.Go(func() {
			if err := j.write(ctx, done); err != nil {
				errs <- err
			}
		})
	}
	wg.Wait()
	patience := time.After(j.limit)
	for range total {
		select {
		case d := <-done:
			m.lat = append(m.lat, d)
		case err := <-errs:
			return err
		case <-patience:
			return fmt.Errorf("%d of %d were handled within %v", len(m.lat), total, j.limit)
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	m.end(ctx, total)
	return nil
}
