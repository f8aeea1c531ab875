package main_test

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/broker"
	"github.com/skald-go/skald/inbox"
	"github.com/skald-go/skald/store/pgstore"
)

// From the relay to Debezium and back, as docs/adopt.md has it, under writers that never stop: every row
// is on the topic, what is new of a key comes in order, and an inbox takes each once, in order.
func TestDebeziumSwitched(t *testing.T) {
	t.Parallel()
	b := connectBed(t, 3, "orders")
	at, conn, bus, topic := b.at, b.conn, b.bus, b.prefix+".orders"
	t.Cleanup(func() { dropSlots(t, conn) })
	w := writeSteadily(t, at, insertSteadily, topic)
	read := readTopic(t, bus, b.prefix, topic)
	r := start(t, []string{"SKALD_STORE=" + at}, "relay", "--broker", b.url)
	eventually(t, "the relay", func() bool { return read.newest() > 0 })

	slot := conn.Config().Database
	c := connector(t, conn, at, "--name", "s_"+slot, "--slot", slot, "--publication", "switched")
	do(t, conn, "SELECT pg_create_logical_replication_slot('"+slot+"', 'pgoutput')")
	var made time.Time
	must(t, conn.QueryRow(t.Context(), "SELECT clock_timestamp()").Scan(&made))
	// the database has stamped these rows, so the age of the oldest one can be trusted
	eventually(t, "what was before the slot", func() (past bool) {
		must(t,
			conn.QueryRow(t.Context(),
				"SELECT pending = 0 OR clock_timestamp() - oldest_seconds * interval '1 second' > $1 FROM skald_backlog", made).Scan(&past))
		return past
	})
	r.signal(syscall.SIGTERM)
	r.expect(0)
	relayed := w.last.Load()
	stop := runConnect(t, b.jars, b.seeds, c)
	eventually(t, "Debezium", func() bool { return read.newest() > relayed })

	back := start(t, []string{"SKALD_STORE=" + at}, "relay", "--broker", b.url)
	repeats := read.repeats()
	eventually(t, "the relay beside it", func() bool { return read.repeats() > repeats })
	stop()
	dropSlots(t, conn)
	stopped := w.last.Load()
	eventually(t, "the relay again", func() bool { return read.newest() > stopped })

	rows := w.end()
	eventually(t, "the last rows", func() bool { return read.distinct() == rows })
	back.signal(syscall.SIGTERM)
	back.expect(0)
	for _, what := range read.inverted() {
		t.Error(what)
	}
	t.Logf("%d rows, %d messages", rows, read.messages())
	takeSwitched(t, at, bus, topic, rows)
}

// takeSwitched has an inbox take the topic: each row once, those of a key in their order.
func takeSwitched(t *testing.T, at string, bus broker.Broker, topic string, rows int64) {
	t.Helper()
	pool, err := pgxpool.New(t.Context(), at)
	must(t, err)
	t.Cleanup(pool.Close)
	_, err = pool.Exec(t.Context(),
		"CREATE TABLE taken (at bigint GENERATED ALWAYS AS IDENTITY, key text, n bigint)")
	must(t, err)
	in := inbox.New(pgstore.New(pool, nil), bus, "reader", nil)
	in.Handle(topic, "order.changed", func(ctx context.Context, tx pgx.Tx, m skald.Message) error {
		_, err := tx.Exec(ctx, "INSERT INTO taken (key, n) VALUES ($1, $2::text::bigint)", string(m.Key),
			string(m.Data))
		return err
	})
	ctx, stop := context.WithTimeout(t.Context(), 5*time.Minute)
	defer stop()
	ended := make(chan error, 1)
	go func() { ended <- skald.Run(ctx, in) }()
	number := func(query string) (n int64) {
		must(t, pool.QueryRow(t.Context(), query).Scan(&n))
		return n
	}
	eventually(t, "the inbox", func() bool {
		lag, err := bus.Lag(ctx, "reader", topic)
		return err == nil && len(lag) == 1 && lag[topic] == 0 && number("SELECT count(*) FROM taken") >= rows
	})
	stop()
	must(t, <-ended)
	if n := number("SELECT count(*) FROM taken"); n != rows {
		t.Errorf("%d were taken of %d rows", n, rows)
	}
	if n := number("SELECT count(*) FROM (SELECT n < lag(n) OVER (PARTITION BY key ORDER BY at) AS back FROM taken) AS o WHERE back"); n != 0 {
		t.Errorf("%d rows were taken after later ones of their key", n)
	}
}

// steadyWriters write until end. Each has keys of its own, and numbers the rows of each key.
type steadyWriters struct {
	last atomic.Int64 // number that is committed
	rows atomic.Int64
	stop context.CancelFunc
	done sync.WaitGroup
}

const insertSteadily = `INSERT INTO skald_outbox (topic, key, type, data)
	SELECT $1, $2, 'order.changed', ($3::bigint * 10 + i)::text FROM generate_series(0, $3::bigint % 3) AS i`

func writeSteadily(t *testing.T, at, insert, topic string) *steadyWriters {
	t.Helper()
	w := &steadyWriters{}
	var ctx context.Context
	ctx, w.stop = context.WithCancel(context.Background())
	for i := range 3 {
		conn, err := pgx.Connect(t.Context(), at)
		must(t, err)
		w.done.Go(func() {
			defer conn.Close(context.Background())
			each := time.NewTicker(4 * time.Millisecond)
			defer each.Stop()
			for n := int64(1); ctx.Err() == nil; n++ {
				_, err := conn.Exec(context.Background(), insert, topic, fmt.Sprint(i, "-", n%5), n)
				if err != nil {
					t.Error(err)
					return
				}
				w.rows.Add(n%3 + 1)
				for was := w.last.Load(); n*10 > was &&
					!w.last.CompareAndSwap(was, n*10); was = w.last.Load() {
				}
				<-each.C
			}
		})
	}
	t.Cleanup(func() { w.end() })
	return w
}

// end is how many rows were written.
func (w *steadyWriters) end() int64 {
	w.stop()
	w.done.Wait()
	return w.rows.Load()
}

// A topicReader reads a topic, and notes the messages of each key.
type topicReader struct {
	mu   sync.Mutex
	came map[string][]int64
	seen map[string]int
	top  int64
	all  int
}

func readTopic(t *testing.T, bus broker.Broker, group, topic string) *topicReader {
	t.Helper()
	sub, err := bus.Subscribe(t.Context(), broker.Group{Name: group, Topics: []string{topic}})
	must(t, err)
	a := &topicReader{came: map[string][]int64{}, seen: map[string]int{}}
	ctx, stop := context.WithCancel(t.Context())
	var done sync.WaitGroup
	done.Go(func() {
		for {
			select {
			case <-ctx.Done():
				return
			case <-sub.Ready():
			}
			batch, err := sub.Receive(ctx, 1000)
			if err != nil && ctx.Err() == nil {
				t.Error(err)
				return
			}
			for i := range batch.Deliveries {
				a.take(t, &batch.Deliveries[i].Message)
			}
			if err := sub.Ack(ctx, batch.Deliveries); err != nil && ctx.Err() == nil {
				t.Error(err)
			}
		}
	})
	t.Cleanup(func() {
		stop()
		done.Wait()
		_ = sub.Close(context.Background())
	})
	return a
}

func (a *topicReader) take(t *testing.T, m *skald.Message) {
	n, err := strconv.ParseInt(string(m.Data), 10, 64)
	if err != nil {
		t.Error(err)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.all++
	a.seen[m.ID]++
	a.top = max(a.top, n)
	if a.seen[m.ID] == 1 {
		a.came[string(m.Key)] = append(a.came[string(m.Key)], n)
	}
}

func (a *topicReader) newest() int64 {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.top
}

func (a *topicReader) distinct() int64 {
	a.mu.Lock()
	defer a.mu.Unlock()
	return int64(len(a.seen))
}

func (a *topicReader) messages() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.all
}

func (a *topicReader) repeats() int { return a.messages() - int(a.distinct()) }

// inverted tells of each row that came for the first time after a later one of its key.
func (a *topicReader) inverted() (what []string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for key, came := range a.came {
		for i := 1; i < len(came); i++ {
			if came[i] < came[i-1] {
				what = append(what, fmt.Sprintf("%s: %d came after %d", key, came[i], came[i-1]))
			}
		}
	}
	return what
}
