package rediscache_test

import (
	"context"
	"crypto/rand"
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/redis/go-redis/v9"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/broker/membroker"
	"github.com/skald-go/skald/inbox"
	"github.com/skald-go/skald/internal/need"
	"github.com/skald-go/skald/rediscache"
	"github.com/skald-go/skald/rediscmd"
	"github.com/skald-go/skald/rediscmd/goredis"
	"github.com/skald-go/skald/store/pgstore"
)

// shop is a consumer on PostgreSQL with a cache in a real Redis.
type shop struct {
	t      *testing.T
	pool   *pgxpool.Pool
	schema string
	bus    *membroker.Broker
	asked  traced
}

// traced counts the statements that read or write marks.
type traced struct{ marks int }

func (q *traced) TraceQueryStart(ctx context.Context, _ *pgx.Conn,
	d pgx.TraceQueryStartData) context.Context {
	q.saw(d.SQL)
	return ctx
}
func (q *traced) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}
func (q *traced) TraceBatchStart(ctx context.Context, _ *pgx.Conn,
	d pgx.TraceBatchStartData) context.Context {
	for _, queued := range d.Batch.QueuedQueries {
		q.saw(queued.SQL)
	}
	return ctx
}
func (q *traced) TraceBatchQuery(context.Context, *pgx.Conn, pgx.TraceBatchQueryData) {}
func (q *traced) TraceBatchEnd(context.Context, *pgx.Conn, pgx.TraceBatchEndData)     {}
func (q *traced) saw(statement string) {
	if strings.Contains(statement, "skald_mark") || strings.HasPrefix(statement, "BEGIN") {
		q.marks++
	}
}

func newShop(t *testing.T) *shop {
	t.Helper()
	s := &shop{t: t, schema: "cache_" + strings.ToLower(rand.Text()[:10]), bus: membroker.New(nil)}
	config, err := pgxpool.ParseConfig(need.Postgres(t))
	if err != nil {
		t.Fatal(err)
	}
	config.ConnConfig.Tracer = &s.asked
	if s.pool, err = pgxpool.NewWithConfig(t.Context(), config); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_, err := s.pool.Exec(context.Background(), "DROP SCHEMA "+s.schema+" CASCADE")
		if s.pool.Close(); err != nil {
			t.Error(err)
		}
	})
	if _, err := pgstore.Migrate(t.Context(), s.pool, &pgstore.MigrateOptions{Schema: s.schema}); err != nil {
		t.Fatal(err)
	}
	if _, err := s.pool.Exec(t.Context(), "CREATE TABLE "+s.schema+".done (id text)"); err != nil {
		t.Fatal(err)
	}
	if err := s.bus.MakeTopics(t.Context(), 1, said.Topic); err != nil {
		t.Fatal(err)
	}
	return s
}

// consumer starts a new process of the consumer.
func (s *shop) consumer(c rediscmd.Client,
	guard rediscmd.GuardOptions) (*inbox.Inbox[pgx.Tx], *rediscache.Cache) {
	s.t.Helper()
	guard.Logger = quiet()
	cache, err := rediscache.New(c, &rediscache.Options{Guard: guard, Prefix: s.schema + ":"})
	if err != nil {
		s.t.Fatal(err)
	}
	in := inbox.New(pgstore.New(s.pool, &pgstore.Options{Schema: s.schema}), s.bus, "stock",
		&inbox.Options{Cache: inbox.Cache{Finished: cache}, Logger: quiet()})
	inbox.On(in, said, func(ctx context.Context, tx pgx.Tx, m skald.Received[string]) error {
		_, err := tx.Exec(ctx, "INSERT INTO "+s.schema+".done VALUES ($1)", m.ID)
		return err
	})
	return in, cache
}

// hear publishes n messages, and calls Step until the consumer has no work.
func (s *shop) hear(in *inbox.Inbox[pgx.Tx], n int) {
	s.t.Helper()
	var ms []skald.Message
	for i := range n {
		ms = append(ms, message(fmt.Sprint(i), "x"))
	}
	if err := s.bus.Publish(s.t.Context(), ms).Wait(s.t.Context()); err != nil {
		s.t.Fatal(err)
	}
	for busy := true; busy; {
		var err error
		if busy, err = in.Step(s.t.Context()); err != nil {
			s.t.Fatal(err)
		}
	}
}

// expect checks that each of n messages took effect once.
func (s *shop) expect(when string, n int) {
	s.t.Helper()
	var rows, ids int
	err := s.pool.QueryRow(s.t.Context(), "SELECT count(*), count(DISTINCT id) FROM "+s.schema+
		".done").Scan(&rows, &ids)
	if err != nil || rows != n || ids != n {
		s.t.Errorf("%s: %d effects of %d messages, want %d, %v", when, rows, ids, n, err)
	}
}

func connect(t *testing.T, url string) *redis.Client {
	t.Helper()
	o, err := redis.ParseURL(url)
	if err != nil {
		t.Fatal(err)
	}
	o.MaxRetries = -1
	c := redis.NewClient(o)
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// A repeat costs PostgreSQL no statement, also in another process; a Redis that is flushed, or fails over to
// an empty one, costs some, and nothing else.
func TestRealRedis(t *testing.T) {
	s := newShop(t)
	patient := rediscmd.GuardOptions{Timeout: time.Minute}
	at, _ := need.OwnRedis(t)
	c := connect(t, at)
	first, cache := s.consumer(goredis.New(c), patient)
	s.hear(first, 100)
	if rediscache.Wait(cache); s.asked.marks == 0 {
		t.Error("no statement is seen")
	}
	if err := first.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	second, cache := s.consumer(goredis.New(c), patient)
	s.hear(second, 1) // it has looked at the database
	s.asked.marks = 0
	s.hear(second, 100)
	if h := second.Health(); h.Cached < 100 || h.Duplicates != 101 || s.asked.marks != 0 {
		t.Errorf("%d statements, %+v, %+v", s.asked.marks, h, cache.Status())
	}
	s.expect("repeated in another process", 100)

	if err := c.FlushAll(t.Context()).Err(); err != nil {
		t.Fatal(err)
	}
	s.hear(second, 150)
	s.expect("flushed", 150)
	rediscache.Wait(cache)
	before := second.Health().Cached
	s.hear(second, 150)
	if got := second.Health().Cached - before; got != 150 {
		t.Errorf("%d of 150 were cached again", got)
	}
	if err := second.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	empty, _ := need.OwnRedis(t)
	third, _ := s.consumer(goredis.New(connect(t, empty)), patient)
	s.hear(third, 200)
	s.expect("failed over to an empty one", 200)
}

// A replica that has what its server had serves as well, and one that refuses writes changes nothing.
func TestFailoverToAReplica(t *testing.T) {
	s := newShop(t)
	patient := rediscmd.GuardOptions{Timeout: time.Minute}
	at, _ := need.OwnRedis(t)
	host, port, _ := strings.Cut(strings.TrimPrefix(at, "redis://"), ":")
	replica, _ := need.OwnRedis(t, "--replicaof", host, port, "--repl-diskless-sync-delay", "0")
	c, r := connect(t, at), connect(t, replica)
	for r.Info(t.Context(), "replication").Val() == "" ||
		!strings.Contains(r.Info(t.Context(), "replication").Val(), "master_link_status:up") {
		time.Sleep(time.Millisecond)
	}
	in, cache := s.consumer(goredis.New(c), patient)
	s.hear(in, 50)
	s.hear(in, 50) // by now it knows the run of the database
	rediscache.Wait(cache)
	if err := c.Wait(t.Context(), 1, time.Minute).Err(); err != nil {
		t.Fatal(err)
	}
	if err := in.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	in, cache = s.consumer(goredis.New(r), patient)
	s.hear(in, 1)
	s.hear(in, 60)
	rediscache.Wait(cache)
	if h := in.Health(); h.Cached < 50 || cache.Status().Dropped < 10 {
		t.Errorf("%+v, %+v", h, cache.Status())
	}
	s.expect("on a replica", 60)
}

// A server that is paused holds nobody up for longer than its time-out, and not again for a while. One that
// is killed changes nothing.
func TestPausedAndKilledRedis(t *testing.T) {
	s := newShop(t)
	at, server := need.OwnRedis(t)
	o, err := redis.ParseURL(at)
	if err != nil {
		t.Fatal(err)
	}
	o.MaxRetries, o.ReadTimeout = -1, -1 // a client that waits for ever
	c := redis.NewClient(o)
	t.Cleanup(func() { _ = c.Close() })
	in, cache := s.consumer(goredis.New(c), rediscmd.GuardOptions{Rest: time.Hour})
	if err := server.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	s.hear(in, 50)
	s.hear(in, 50)
	rediscache.Wait(cache)
	if got := cache.Status(); !got.Unavailable || got.Hits != 0 || got.Unasked != 100 {
		t.Errorf("%+v", got)
	}
	s.expect("paused", 50)
	if err := in.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := server.Signal(os.Kill); err != nil {
		t.Fatal(err)
	}
	in, cache = s.consumer(goredis.New(c), rediscmd.GuardOptions{Rest: time.Nanosecond})
	s.hear(in, 70)
	rediscache.Wait(cache)
	if got := cache.Status(); !got.Unavailable || got.Stored != 0 {
		t.Errorf("%+v", got)
	}
	s.expect("killed", 70)
}
