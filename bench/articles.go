package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
)

const (
	articleKeys  = 1000
	articlePause = time.Second
	// articleRows are rows whose keys come in no order, ten of each time.
	articleRows = `insert into by_update (topic, key, payload, at)
		select 'orders', 'order-' || (i * 7919 % 1009) % $2::bigint, '{"order":' || i || '}', now() + i / 10 * interval '1 microsecond'
		from generate_series(0::bigint, $1::bigint - 1) as i`
)

// readers are the articles' pollers on one table, and what came out of them in which order.
type readers struct {
	y *yard

	mu       sync.Mutex
	last     map[string]int64 // the newest row of each key that is published
	inverted int
	rows     int
}

// publish notes what a poller publishes: rows that come behind a newer one of their key are inverted.
func (r *readers) publish(keys []string, ids []int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i, key := range keys {
		if ids[i] < r.last[key] {
			r.inverted++
		}
		r.last[key] = max(r.last[key], ids[i])
	}
	r.rows += len(ids)
}

// poll is the article's: 100 rows in the order of their times, those that another one has are skipped, and
// each is marked by a statement of its own behind its publication.
func (r *readers) poll(ctx context.Context, tx pgx.Tx) (int, error) {
	rows, err := tx.Query(ctx,
		`select id, key from by_update where published_at is null order by at limit 100 for update skip locked`)
	if err != nil {
		return 0, err
	}
	var ids []int64
	var keys []string
	var id int64
	var key string
	_, err = pgx.ForEachRow(rows, []any{&id, &key}, func() error {
		ids, keys = append(ids, id), append(keys, key)
		return nil
	})
	if err != nil {
		return 0, err
	}
	for i, id := range ids {
		r.publish(keys[i:i+1], ids[i:i+1])
		if _, err := tx.Exec(ctx, "update by_update set published_at = now() where id = $1", id); err != nil {
			return 0, err
		}
	}
	return len(ids), nil
}

// article has n pollers take a backlog for the time of a measurement, with the article's pause between two
// polls or with none.
func (y *yard) article(name string, n int, pause time.Duration) contender {
	ready := func(ctx context.Context) error {
		if err := execAll(ctx, y.pool, "drop table if exists by_update", updateTable,
			"create index on by_update (at) where published_at is null"); err != nil {
			return err
		}
		if _, err := y.pool.Exec(ctx, articleRows, y.b.rows, articleKeys); err != nil {
			return fmt.Errorf("fill: %w", err)
		}
		return execAll(ctx, y.pool, "vacuum analyze by_update")
	}
	return contender{name, ready, func(ctx context.Context, m *meter) error {
		r := &readers{y: y, last: map[string]int64{}}
		m.r.Concurrency = n
		if err := m.begin(ctx); err != nil {
			return err
		}
		errs := make([]error, n)
		var wg sync.WaitGroup
		// A pause is part of what is measured: as many as eight of them.
		end := m.a.at.Add(max(m.b.dur, 8*pause))
		for i := range n {
			wg.Go(func() { errs[i] = r.work(ctx, end, pause) })
		}
		wg.Wait()
		m.end(ctx, r.rows)
		m.r.Extra = map[string]float64{"inverted %": 100 * float64(r.inverted) / float64(max(1, r.rows))}
		return errors.Join(slices.Concat(errs, []error{ctx.Err()})...)
	}}
}

func (r *readers) work(ctx context.Context, end time.Time, pause time.Duration) error {
	for time.Now().Before(end) && ctx.Err() == nil {
		n := 0
		err := pgx.BeginFunc(ctx, r.y.pool, func(tx pgx.Tx) (err error) {
			n, err = r.poll(ctx, tx)
			return err
		})
		if err != nil || n == 0 {
			return err
		}
		select {
		case <-time.After(min(pause, time.Until(end))):
		case <-ctx.Done():
		}
	}
	return nil
}

func articlePollers() comparison {
	c := comparison{
		name: "relay-articles",
		title: "a backlog through the articles' pollers (LIMIT 100, SKIP LOCKED, an UPDATE for each row, 1 s of sleep), 1 to 8 at a time, " +
			"and through one relay, to a publisher that answers at once; rows per second",
	}
	type kind struct {
		name  string
		n     int
		pause time.Duration
	}
	var kinds []kind
	for _, n := range []int{1, 2, 4, 8} {
		kinds = append(kinds, kind{fmt.Sprintf("article's poller × %d", n), n, articlePause},
			kind{fmt.Sprintf("without its sleep × %d", n), n, 0})
	}
	c.set = func(ctx context.Context, b *bench) ([]contender, error) {
		y, err := b.yard(ctx, "orders", b.rows)
		if err != nil {
			return nil, err
		}
		out := []contender{y.relay()}
		for _, k := range kinds {
			out = append(out, y.article(k.name, k.n, k.pause))
		}
		return out, nil
	}
	for _, k := range kinds {
		c.bars = append(c.bars, bar{what: k.name + ": rows that came behind a newer one of their key, %",
			of: k.name, value: extra("inverted %")},
			bar{what: "skald relay ÷ " + k.name, of: "skald relay", to: []string{k.name}, value: perSecond})
	}
	return c
}
