package place_test

import (
	"context"
	"crypto/rand"
	"flag"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/examples/shop/event"
	"github.com/skald-go/skald/internal/need"
)

var (
	soakFor = flag.Duration("soak.for", 12*time.Second,
		"how long the soak goes on; an hour shows what grows slowly")
	soakBatch = flag.Int("soak.batch", 20, "orders placed at once")
)

// level is what must not grow with time.
type level struct {
	heap, goroutines, connections int64
	hot                           int64 // bytes of the tables with updates in place, with indexes
	perRow                        int64 // bytes of one outbox row, with indexes
	rows                          int64
}

func (l level) String() string {
	return fmt.Sprintf(
		"heap %d KiB, %d goroutines, %d connections, rewritten tables %d KiB, %d outbox rows of %d bytes",
		l.heap>>10, l.goroutines, l.connections, l.hot>>10, l.rows, l.perRow)
}

// measure reads the level, of this process and of its database.
func measure(t *testing.T, conn *pgx.Conn, prefix string) (l level) {
	t.Helper()
	runtime.GC()
	runtime.GC() // free memory released by finalizers
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	l.heap, l.goroutines = int64(m.HeapAlloc), int64(runtime.NumGoroutine())
	const query = `SELECT (SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()),
		sum(pg_total_relation_size(c.oid)) FILTER (WHERE relname IN ('skald_shard', 'skald_relay', 'skald_setting', 'skald_retention_run', 'skald_deferred')),
		coalesce(sum(pg_total_relation_size(c.oid)) FILTER (WHERE relname ~ '^skald_outbox_[0-9]+$'), 0)
		FROM pg_class AS c WHERE relkind = 'r'`
	var bytes int64
	if err := conn.QueryRow(t.Context(), query).Scan(&l.connections, &l.hot, &bytes); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"order", "payment", "inventory", "fulfilment"} {
		var n int64
		if err := conn.QueryRow(t.Context(), "SELECT count(*) FROM "+
			pgx.Identifier{prefix + "_" + name, "skald_outbox"}.Sanitize()).Scan(&n); err != nil {
			t.Fatal(err)
		}
		l.rows += n
	}
	l.perRow = bytes / max(l.rows, 1)
	return l
}

// The shop under a steady load on PostgreSQL and Kafka: memory, goroutines, connections and the size of what
// is rewritten stay as they are, and every promise is kept.
func TestSoak(t *testing.T) {
	need.Nightly(t, "TestTwoInstancesOnPostgresAndKafka stays; what grows slowly shows in an hour")
	kafka, at := need.Kafka(t), database(t)
	prefix := "soak" + strings.ToLower(rand.Text()[:10])
	s := open(t, at, "kafka://"+kafka, prefix, "1")
	removeTopics(t, kafka, event.New(prefix).Topics())
	conn, err := pgx.Connect(t.Context(), at)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close(context.Background()) })
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	ended := make(chan error, 1)
	go func() { ended <- skald.Run(ctx, s.runners...) }()
	seed := uint64(0)
	load := func(d time.Duration) level {
		// Workers and connections start under load: wait for at least a few batches on a slow machine.
		for end, n := time.Now().Add(d), 0; n < 8 || time.Now().Before(end); n++ {
			seed++
			s.order(seed, *soakBatch)
		}
		s.calm()
		return measure(t, conn, prefix)
	}
	first := load(*soakFor / 4)
	t.Logf("at first: %v", first)
	last := load(*soakFor * 3 / 4)
	t.Logf("at last:  %v", last)
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	s.allHold()
	flat(t, "bytes of heap", first.heap, last.heap, first.heap/2+8<<20)
	flat(t, "goroutines", first.goroutines, last.goroutines, 20)
	flat(t, "connections", first.connections, last.connections, 8)
	flat(t, "bytes of the tables that are rewritten", first.hot, last.hot, first.hot+1<<20)
	flat(t, "bytes of an outbox row", first.perRow, last.perRow, first.perRow/4)
}

func flat(t *testing.T, what string, first, last, more int64) {
	t.Helper()
	if last > first+more {
		t.Errorf("%s grew from %d to %d", what, first, last)
	}
}

// calm waits until every order has ended.
func (s *shop) calm() {
	s.t.Helper()
	for end := time.Now().Add(most); !s.ended(); {
		if time.Now().After(end) {
			s.t.Fatal("orders do not end")
		}
		select {
		case <-s.t.Context().Done():
		case <-time.After(50 * time.Millisecond):
		}
	}
}
