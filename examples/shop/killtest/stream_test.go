package killtest

import (
	"context"
	crand "crypto/rand"
	"errors"
	"flag"
	"fmt"
	"hash/fnv"
	"log/slog"
	"math/rand/v2"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/skald-go/skald"
	"github.com/skald-go/skald/inbox"
	"github.com/skald-go/skald/internal/need"
	"github.com/skald-go/skald/relay"
	"github.com/skald-go/skald/store/pgstore"
)

var streamMessages = flag.Int("stream.messages", 2000,
	"how many messages TestStream takes through processes that are killed")

// workerEnv, if set, makes this program a worker: "name schema postgres broker"; or Payment, with the
// arguments of pay.
const workerEnv = "SKALD_TEST_WORKER"

func TestMain(m *testing.M) {
	var run func() error
	switch with := strings.Fields(os.Getenv(workerEnv)); len(with) {
	case 4:
		run = func() error { return work(with[0], with[1], with[2], with[3]) }
	case 5:
		run = func() error { return pay(with[0], with[1], with[2], with[3], with[4]) }
	}
	if run != nil {
		if err := run(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// work is a process with a relay and an inbox of one database, until it is told to stop. One message in
// twenty fails at first; one with key "killer" ends the process.
func work(name, schema, postgres, at string) error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	cfg, err := pgxpool.ParseConfig(postgres)
	if err != nil {
		return err
	}
	cfg.MaxConns, cfg.ConnConfig.RuntimeParams["application_name"] = 12, schema+"-"+name
	pool, err := pgxpool.NewWithConfig(ctx, cfg)
	if err != nil {
		return err
	}
	defer pool.Close()
	bus, err := connect(at)
	if err != nil {
		return err
	}
	defer func() { _ = bus.Close() }()
	db, quiet := pgstore.New(pool, &pgstore.Options{Schema: schema}), slog.New(slog.DiscardHandler)
	in := inbox.New(db, bus, schema, &inbox.Options{
		Workers: 8, Instance: inbox.Instance{Member: name}, Timeouts: inbox.Timeouts{Handle: time.Second,
			Wait: time.Second}, Retry: inbox.Retry{InitialInterval: 20 * time.Millisecond,
			MaxInterval: 500 * time.Millisecond, Attempts: 1000}, Logger: quiet,
	})
	insert := "INSERT INTO " + schema + ".effects (worker, key, n) VALUES ($1, $2, $3)"
	inbox.On(in, skald.Event[int]{Topic: schema, Type: "counted"},
		func(ctx context.Context, tx pgx.Tx, m skald.Received[int]) error {
			if _, err := tx.Exec(ctx, insert, name, string(m.Key), m.Value); err != nil {
				return err
			}
			switch string(m.Key) {
			case "killer":
				return die()
			case "calm":
				return nil
			}
			hash := fnv.New32a()
			_, _ = hash.Write([]byte(m.ID))
			if hash.Sum32()%10 == 0 && rand.IntN(2) == 0 { // some of them several times
				return errors.New("one in twenty fails at first, as a coin falls")
			}
			return nil
		})
	return skald.Run(ctx, in, relay.New(db, bus, &relay.Options{Owner: name, Logger: quiet}))
}

// stream is a database, a topic and workers.
type stream struct {
	t       *testing.T
	pool    *pgxpool.Pool
	schema  string
	with    string // arguments of each worker, after its name
	workers []*exec.Cmd
	written int
}

func newStream(t *testing.T, workers int) *stream { return newStreamAt(t, need.Kafka, workers) }

func newStreamAt(t *testing.T, of func(testing.TB) string, workers int) *stream {
	t.Helper()
	if testing.Short() {
		t.Skip("starts processes: not with -short")
	}
	postgres, at := need.Postgres(t), of(t)
	ctx := context.Background()
	s := &stream{t: t, schema: "stream_" + strings.ToLower(crand.Text()[:10]),
		workers: make([]*exec.Cmd, workers)}
	s.with = strings.Join([]string{s.schema, postgres, at}, " ")
	var err error
	if s.pool, err = pgxpool.New(ctx, postgres); err != nil {
		t.Fatal(err)
	}
	bus, err := connect(at)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		for i := range s.workers {
			s.kill(i)
		}
		s.until("the sessions of killed workers to end", func() bool {
			// DROP would deadlock with their transactions
			return s.number("SELECT count(*) FROM pg_stat_activity WHERE starts_with(application_name, $1)",
				s.schema+"-") == 0
		})
		if _, err := s.pool.Exec(ctx, "DROP SCHEMA "+s.schema+" CASCADE"); err != nil {
			t.Error(err)
		}
		if err := errors.Join(remove(ctx, bus, at, s.schema), bus.Close()); err != nil {
			t.Error(err)
		}
		s.pool.Close()
	})
	if _, err := pgstore.Migrate(ctx, s.pool,
		&pgstore.MigrateOptions{Schema: s.schema, Source: "/stream"}); err != nil {
		t.Fatal(err)
	}
	s.exec(`CREATE TABLE $.effects (place bigserial PRIMARY KEY, worker text NOT NULL, key text NOT NULL, n integer NOT NULL)`)
	s.exec(`CREATE INDEX ON $.effects (n)`)
	if err := bus.MakeTopics(ctx, 6, s.schema); err != nil {
		t.Fatal(err)
	}
	for i := range s.workers {
		if err := s.start(i); err != nil {
			t.Fatal(err)
		}
	}
	return s
}

func (s *stream) exec(sql string, args ...any) {
	s.t.Helper()
	if _, err := s.pool.Exec(context.Background(), strings.ReplaceAll(sql, "$.", s.schema+"."),
		args...); err != nil {
		s.t.Fatalf("%s: %v", sql, err)
	}
}

func (s *stream) number(sql string, args ...any) (n int) {
	s.t.Helper()
	if err := s.pool.QueryRow(context.Background(), strings.ReplaceAll(sql, "$.", s.schema+"."),
		args...).Scan(&n); err != nil {
		s.t.Fatalf("%s: %v", sql, err)
	}
	return n
}

func worker(i int) string { return fmt.Sprint("worker-", i+1) }

func (s *stream) start(i int) error {
	s.workers[i] = s.command(worker(i))
	return s.workers[i].Start()
}

func (s *stream) command(name string) *exec.Cmd {
	cmd := exec.Command(os.Args[0])
	cmd.Env, cmd.Stderr = append(os.Environ(), workerEnv+"="+name+" "+s.with), os.Stderr
	return cmd
}

func (s *stream) kill(i int) {
	if w := s.workers[i]; w != nil && w.Process != nil {
		_ = w.Process.Kill()
		_ = w.Wait()
	}
}

func (s *stream) signal(i int, sig os.Signal) {
	s.t.Helper()
	if err := s.workers[i].Process.Signal(sig); err != nil {
		s.t.Fatalf("signal %s: %v", worker(i), err)
	}
}

// write publishes the next n messages, with 200 keys, one in ten of them twice.
func (s *stream) write(n int) {
	s.t.Helper()
	const page = 10_000
	for end := s.written + n; s.written < end; {
		to := min(s.written+page, end)
		s.exec(`INSERT INTO $.skald_outbox (topic, key, type, data) SELECT $1, 'k' || g % 200, 'counted', g::text FROM generate_series($2::int, $3::int) AS g`,
			s.schema, s.written+1, to)
		s.exec(`INSERT INTO $.skald_outbox (id, time, topic, key, type, data) SELECT id, time, topic, key, type, data FROM $.skald_outbox
			WHERE data::int BETWEEN $1 AND $2 AND data::int % 10 = 0`, s.written+1, to)
		s.written = to
	}
}

func (s *stream) until(what string, ok func() bool) {
	s.t.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	most := most + time.Duration(s.written)*10*time.Millisecond
	for deadline := time.Now().Add(most); !ok(); <-tick.C {
		if time.Now().After(deadline) {
			s.t.Fatalf("waited %v for %s: %d of %d messages have their effect, %d are kept", most, what,
				s.done(), s.written, s.number("SELECT count(*) FROM $.skald_parked"))
		}
	}
}

func (s *stream) done() int { return s.number("SELECT count(*) FROM $.effects") }

// judge requires that each message had one effect, in the order of its key, and that nothing is parked.
func (s *stream) judge() {
	s.t.Helper()
	s.until("nothing to be kept", func() bool { return s.number("SELECT count(*) FROM $.skald_parked") == 0 })
	distinct := s.number("SELECT count(DISTINCT n) FROM $.effects")
	lost, repeated := s.written-distinct, s.done()-distinct
	inverted := s.number("SELECT count(*) FROM (SELECT n, lag(n) OVER (PARTITION BY key ORDER BY place) AS before FROM $.effects) AS e WHERE n < before")
	if lost+repeated+inverted > 0 {
		s.t.Errorf("of %d messages %d are lost, %d repeated, %d out of order", s.written, lost,
			repeated, inverted)
	}
	s.t.Logf("%d messages: %d lost, %d repeated, %d out of order", s.written, lost, repeated, inverted)
}

// killAgainAndAgain kills a worker every three seconds and starts it again. If none has made progress since
// the last kill, it waits: on a slow machine there would never be any.
func (s *stream) killAgainAndAgain(stop <-chan struct{}, kills *atomic.Int64) {
	tick := time.NewTicker(3 * time.Second)
	defer tick.Stop()
	last := -1
	for {
		select {
		case <-stop:
			return
		case <-tick.C:
		}
		var done int
		err := s.pool.QueryRow(context.Background(), "SELECT count(*) FROM "+s.schema+".effects").Scan(&done)
		if err == nil && done == last {
			continue
		}
		last = done
		i := rand.IntN(len(s.workers))
		s.kill(i)
		kills.Add(1)
		if err = errors.Join(err, s.start(i)); err != nil {
			s.t.Error(err)
			return
		}
	}
}

// Messages of which one in twenty fails and one in ten is sent twice, through three processes that are
// killed repeatedly: none is lost, none has two effects, none overtakes another of its key. Use
// -stream.messages=1000000 for a long run.
func TestStream(t *testing.T) {
	t.Parallel()
	streamUnderKills(newStream(t, 3), *streamMessages)
}

// The same through NATS and RabbitMQ, with fewer messages.
func TestStreamOnNATS(t *testing.T) {
	need.Nightly(t, "TestStream and the brokers' contracts stay")
	t.Parallel()
	streamUnderKills(newStreamAt(t, need.NATS, 3), *streamMessages/5)
}

func TestStreamOnRabbitMQ(t *testing.T) {
	need.Nightly(t, "TestStream and the brokers' contracts stay")
	t.Parallel()
	streamUnderKills(newStreamAt(t, need.RabbitMQ, 3), *streamMessages/5)
}

func streamUnderKills(s *stream, total int) {
	t, kills, began := s.t, atomic.Int64{}, time.Now()
	stop, killed := make(chan struct{}), make(chan struct{})
	end := sync.OnceFunc(func() { close(stop); <-killed })
	defer end() // ends before the workers
	go func() {
		defer close(killed)
		s.killAgainAndAgain(stop, &kills)
	}()
	for part := range 5 {
		s.write(min(total/5, total-s.written))
		s.until("the work to go on, and one to be killed",
			func() bool { return s.done() > total/5*part && kills.Load() > int64(part) })
	}
	s.write(total - s.written)
	s.until("all effects", func() bool { return s.done() >= total })
	took := time.Since(began)
	end()
	s.judge()
	t.Logf("%d kills, %.1f s, %.0f messages/s", kills.Load(), took.Seconds(), float64(total)/took.Seconds())
}

// pause stops a worker, and returns when the server has answered everything the worker sent.
func (s *stream) pause(i int) {
	s.t.Helper()
	s.signal(i, syscall.SIGSTOP)
	var status syscall.WaitStatus
	if _, err := syscall.Wait4(s.workers[i].Process.Pid, &status, syscall.WUNTRACED, nil); err != nil ||
		!status.Stopped() {
		s.t.Fatalf("%s has not stopped: %v, %v", worker(i), status, err)
	}
	s.until("the server to answer it", func() bool {
		return s.number("SELECT count(*) FROM pg_stat_activity WHERE application_name = $1 AND state = 'active'",
			s.schema+"-"+worker(i)) == 0
	})
}

// idle counts the open transactions of a worker in which the server waits for the client. Aborted
// transactions are not counted: they hold no locks, and PostgreSQL does not end them. See pgstore's
// TestAnAbortedTransactionHoldsNothing.
func (s *stream) idle(i int) int {
	s.t.Helper()
	return s.number("SELECT count(*) FROM pg_stat_activity WHERE application_name = $1 AND state = 'idle in transaction'",
		s.schema+"-"+worker(i))
}

// Two instances work; a third is stopped during a transaction, for longer than its lease, its session and
// its transaction timeout. The two take over its work; then it resumes. Each message has one effect, in the
// order of its key. Interleaving 11.
func TestPausedThird(t *testing.T) {
	t.Parallel()
	const third = 2
	s := newStream(t, 3)
	s.write(300)
	s.until("the third to have work", func() bool {
		if s.done() >= s.written {
			s.write(300)
		}
		return s.number("SELECT count(*) FROM $.effects WHERE worker = $1", worker(third)) > 0
	})
	s.write(2000)
	s.until("the third to be stopped in a transaction", func() bool {
		s.pause(third)
		if s.idle(third) > 0 {
			return true
		}
		s.signal(third, syscall.SIGCONT)
		if s.number("SELECT count(*) FROM $.effects WHERE n > $1", s.written-1000) > 0 {
			s.write(1000)
		}
		return false
	})
	s.write(1000)
	s.until("the other two to do its work", func() bool { return s.done() == s.written })
	s.until("none of the third's transactions to be open", func() bool {
		return s.idle(third) == 0
	})
	s.until("its shards to be others'", func() bool {
		return s.number("SELECT count(*) FROM $.skald_shard WHERE owner = $1", worker(third)) == 0
	})
	before := s.written
	s.signal(third, syscall.SIGCONT)
	s.until("the third to go on", func() bool {
		if s.done() >= s.written {
			s.write(300)
		}
		return s.number("SELECT count(*) FROM $.effects WHERE worker = $1 AND n > $2",
			worker(third), before) > 0
	})
	s.until("all effects", func() bool { return s.done() >= s.written })
	s.judge()
}
