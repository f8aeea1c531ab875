package sqlitestore

import (
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/internal/uuid7"
	"github.com/skald-go/skald/store"
	"time"
)

// BenchmarkStep measures a message of the inbox: mark, entity lock, one statement of the handler, one row.
func BenchmarkStep(b *testing.B) {
	for _, sync := range []string{"FULL", "OFF"} {
		for _, rivals := range []int{1, 16} {
			b.Run(fmt.Sprintf("sync=%s/rivals=%d", sync, rivals), func(b *testing.B) {
				s, db, _ := fresh(b)
				if sync == "OFF" {
					db.SetMaxOpenConns(1)
					if _, err := db.Exec("PRAGMA synchronous = OFF"); err != nil {
						b.Fatal(err)
					}
				}
				if _, err := db.Exec(
					"CREATE TABLE kv (k TEXT PRIMARY KEY, v INTEGER NOT NULL) STRICT"); err != nil {
					b.Fatal(err)
				}
				var n atomic.Int64
				b.SetParallelism((rivals + 1) / 2)
				b.ReportAllocs()
				b.ResetTimer()
				step := func() {
					key := fmt.Sprint(n.Add(1) % 100)
					u, err := s.Begin(b.Context(), store.Intake{
						Marks: []store.Mark{{Consumer: "c", Identity: store.Identity{Source: "/x",
							ID: uuid7.New(time.Now())}, Outcome: store.Done}},
						Locks: []store.Lock{{Space: "order", Key: key}},
						Wait:  time.Minute,
					})
					if err != nil {
						b.Error(err)
						return
					}
					if _, err := u.Tx().Exec(
						"INSERT INTO kv VALUES (?, 1) ON CONFLICT DO UPDATE SET v = v + 1", key); err != nil {
						b.Error(err)
					}
					if err := s.Write(b.Context(), u.Tx(),
						store.Effect{Rows: []skald.Message{message("orders", key)}}); err != nil {
						b.Error(err)
					}
					if err := u.Commit(b.Context()); err != nil {
						b.Error(err)
					}
				}
				if rivals == 1 {
					for b.Loop() {
						step()
					}
					return
				}
				b.RunParallel(func(pb *testing.PB) {
					for pb.Next() {
						step()
					}
				})
			})
		}
	}
}

func BenchmarkPull(b *testing.B) {
	s, _, _ := fresh(b)
	var rows []skald.Message
	for i := range 10_000 {
		rows = append(rows, message("orders", fmt.Sprint(i)))
	}
	if _, err := s.Apply(b.Context(), store.Effect{Rows: rows}); err != nil {
		b.Fatal(err)
	}
	tip, err := store.Snapshot(b.Context(), s, "")
	if err != nil {
		b.Fatal(err)
	}
	b.ResetTimer()
	n := 0
	for b.Loop() {
		page, err := s.Pull(b.Context(), store.Window{Tip: tip}, 1000)
		if err != nil {
			b.Fatal(err)
		}
		n += len(page.Rows)
	}
	b.ReportMetric(float64(n)/b.Elapsed().Seconds(), "rows/s")
}

func BenchmarkSeen(b *testing.B) {
	s, _, _ := fresh(b)
	var ids []store.Identity
	for range 100 {
		m := store.Mark{Consumer: "c", Identity: store.Identity{Source: "/x", ID: uuid7.New(time.Now())},
			Outcome: store.Done}
		if _, err := s.Apply(b.Context(), store.Effect{Mark: &m}); err != nil {
			b.Fatal(err)
		}
		ids = append(ids, m.Identity)
	}
	for b.Loop() {
		if _, err := s.Seen(b.Context(), "c", ids); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(100*b.N)/b.Elapsed().Seconds(), "ids/s")
}
