package pgstore

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/store"
)

const workers = 16

// wide returns a store whose pool has a connection for each worker.
func (b *bed) wide(t testing.TB) *Store {
	t.Helper()
	config, err := pgxpool.ParseConfig(b.url)
	if err != nil {
		t.Fatal(err)
	}
	config.MaxConns, config.MinConns = 2*workers, 2*workers
	config.ConnConfig.RuntimeParams["application_name"] = b.name()
	pool, err := pgxpool.NewWithConfig(context.Background(), config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	return New(pool, &Options{Schema: b.schema})
}

// side runs f b.N times on all workers.
func side(b *testing.B, f func(i int64) error) {
	var n atomic.Int64
	var wg sync.WaitGroup
	b.ResetTimer()
	for range workers {
		wg.Go(func() {
			for {
				i := n.Add(1)
				if i > int64(b.N) {
					return
				}
				if err := f(i); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "ops/s")
}

// BenchmarkMessage measures messages with 16 workers: with Skald, and by hand with the same tables.
func BenchmarkMessage(b *testing.B) {
	bed := newBed(b)
	s := bed.wide(b)
	ctx := context.Background()
	bed.exec(b,
		`CREATE TABLE {payment} (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, msg text NOT NULL, amount bigint NOT NULL)`)
	pay := bed.q(`INSERT INTO {payment} (msg, amount) VALUES ($1, 100)`)
	b.Run("skald", func(b *testing.B) {
		side(b, func(int64) error {
			m := aMark()
			u, err := s.Begin(ctx, store.Intake{Marks: []store.Mark{m}})
			if err != nil {
				return err
			}
			if _, err := u.Tx().Exec(ctx, pay, m.ID); err != nil {
				return err
			}
			if err := s.Write(ctx, u.Tx(), store.Effect{Rows: []skald.Message{aMessage(m.ID)}}); err != nil {
				return err
			}
			return u.Commit(ctx)
		})
	})
	b.Run("byhand", func(b *testing.B) {
		side(b, func(int64) error { return byHand(ctx, s.pool, bed, pay) })
	})
}

// byHand does the same work on plain tables with the same columns, in three round trips.
func byHand(ctx context.Context, pool *pgxpool.Pool, bed *bed, pay string) error {
	m := aMark()
	conn, err := pool.Acquire(ctx)
	if err != nil {
		return err
	}
	defer conn.Release()
	first := &pgx.Batch{}
	first.Queue("begin")
	first.Queue(
		bed.q(`INSERT INTO {skald_mark} (consumer, source, id, outcome) VALUES ($1, $2, $3, 1) ON CONFLICT DO NOTHING`), m.Consumer, m.Source, m.ID)
	if err := conn.SendBatch(ctx, first).Close(); err != nil {
		return err
	}
	if _, err := conn.Exec(ctx, pay, m.ID); err != nil {
		return err
	}
	e := aMessage(m.ID)
	last := &pgx.Batch{}
	last.Queue(
		bed.q(
			`INSERT INTO {skald_outbox} (topic, key, type, data, time, id) VALUES ($1, $2, $3, $4, $5, $6)`),
		e.Topic, string(e.Key), e.Type, string(e.Data), e.Time, e.ID)
	last.Queue("commit")
	return conn.SendBatch(ctx, last).Close()
}

// BenchmarkSeen measures look-ups of a hundred repeats.
func BenchmarkSeen(b *testing.B) {
	bed := newBed(b)
	s := bed.wide(b)
	ctx := context.Background()
	var ids []store.Identity
	var es []store.Mark
	for range 100 {
		m := aMark()
		ids, es = append(ids, m.Identity), append(es, m)
	}
	u, err := s.Begin(ctx, store.Intake{Marks: es})
	if err == nil {
		err = u.Commit(ctx)
	}
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		if _, err := s.Seen(ctx, "stock", ids); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(100*float64(b.N)/b.Elapsed().Seconds(), "ids/s")
}

// fillOutbox writes n rows, in transactions of a thousand.
func (b *bed) fillOutbox(t testing.TB, n int) {
	t.Helper()
	for range n / 1000 {
		b.exec(t, `INSERT INTO {skald_outbox} (topic, key, type, data, bucket)
			SELECT 'orders', 'k' || g % 997, 'order.placed', '{"order_id":"0000000000","pad":"' || repeat('x', 220) || '"}', g % 1024
			FROM generate_series(1, 1000) AS g`)
	}
}

// BenchmarkPull measures one window of 10⁶ rows, in pages.
func BenchmarkPull(b *testing.B) {
	bed := newBed(b)
	s := bed.wide(b)
	ctx := context.Background()
	if _, err := store.Snapshot(ctx, s, ""); err != nil { // plans are made for empty tables
		b.Fatal(err)
	}
	const rows = 1_000_000
	bed.fillOutbox(b, rows)
	tip, err := store.Snapshot(ctx, s, "")
	if err != nil {
		b.Fatal(err)
	}
	for _, page := range []int{1000, 5000} {
		for _, buckets := range [][][2]int{nil, {{0, 63}}} {
			b.Run(fmt.Sprintf("page=%d/some=%v", page, buckets != nil), func(b *testing.B) {
				got := 0
				for b.Loop() {
					w := store.Window{Tip: tip, Buckets: buckets}
					for {
						p, err := s.Pull(ctx, w, page)
						if err != nil {
							b.Fatal(err)
						}
						if got += len(p.Rows); p.Done {
							break
						}
						w.After = p.Rows[len(p.Rows)-1].Seq
					}
				}
				b.ReportMetric(float64(got)/b.Elapsed().Seconds(), "rows/s")
			})
		}
	}
}
