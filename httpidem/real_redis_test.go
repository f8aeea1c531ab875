package httpidem_test

import (
	"context"
	"net/http"
	"os"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/redis/go-redis/v9"

	"github.com/skald-go/skald/internal/need"
	"github.com/skald-go/skald/rediscache"
	"github.com/skald-go/skald/rediscmd"
	"github.com/skald-go/skald/rediscmd/goredis"
	"github.com/skald-go/skald/store/pgstore"
)

// traced counts transactions and statements about marks.
type traced struct{ statements atomic.Int64 }

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
		q.statements.Add(1)
	}
}

// onTraced returns a shop on PostgreSQL with a counter of its statements.
func onTraced(t *testing.T) (*shop[pgx.Tx], *traced) {
	t.Helper()
	plain, schema := postgres(t, 4)
	seen := &traced{}
	config := plain.Config()
	config.ConnConfig.Tracer = seen
	pool, err := pgxpool.NewWithConfig(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	g := &ground[pgx.Tx]{
		pgstore.New(pool, &pgstore.Options{Schema: schema}),
		func(tx pgx.Tx, list, what string) error {
			_, err := tx.Exec(context.Background(), "INSERT INTO "+schema+
				".own AS o VALUES ($1, $2) ON CONFLICT (list) DO UPDATE SET told = o.told || ' ' || excluded.told", list, what)
			return err
		},
		func(list string) (got string, err error) {
			err = pool.QueryRow(context.Background(), "SELECT coalesce(max(told), '') FROM "+schema+
				".own WHERE list = $1", list).Scan(&got)
			return got, err
		},
	}
	return &shop[pgx.Tx]{ground: g}, seen
}

// If a real Redis has an answer, a repeat needs no statement of PostgreSQL, also in another process. If Redis
// is flushed, paused or killed, only the number of statements changes.
func TestRealRedisInFront(t *testing.T) {
	s, seen := onTraced(t)
	at, server := need.OwnRedis(t)
	options, err := redis.ParseURL(at)
	if err != nil {
		t.Fatal(err)
	}
	options.MaxRetries, options.ReadTimeout = -1, -1 // a client that waits for ever
	client := redis.NewClient(options)
	t.Cleanup(func() { _ = client.Close() })
	cache, o := cached(t, goredis.New(client),
		&rediscache.Options{TTL: time.Hour, Guard: rediscmd.GuardOptions{Timeout: time.Minute}})
	same := func(when string, h http.Handler, none bool) {
		t.Helper()
		seen.statements.Store(0)
		w := tea.to(h)
		answers(t, w, 201, `{"ID":"o-1"}`)
		if n := seen.statements.Load(); (n == 0) != none {
			t.Errorf("%s: %d statements", when, n)
		}
	}
	same("the first", s.endpoint(o), false)
	settled(cache, 1)
	another := s.endpoint(o)
	answers(t, tea.to(another), 201, `{"ID":"o-1"}`) // it looks at which run of the server it is
	same("the repeat", another, true)
	same("and again", another, true)
	answers(t, salt.to(another), 422, "reused")
	if err := client.FlushAll(t.Context()).Err(); err != nil {
		t.Fatal(err)
	}
	same("flushed", another, false)
	settled(cache, 2)
	same("filled again", another, true)

	// With the default options the cache gives up after 25 ms, and sends no query for a while.
	hasty, o := cached(t, goredis.New(client),
		&rediscache.Options{TTL: time.Hour, Guard: rediscmd.GuardOptions{Rest: time.Hour}})
	if err := server.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	paused := s.endpoint(o)
	same("paused", paused, false)
	same("paused, and not asked", paused, false)
	answers(t, salt.to(paused), 422, "reused")
	if got := hasty.Status(); !got.Unavailable || got.Unasked != 3 || got.Hits != 0 {
		t.Errorf("%+v", got)
	}
	if err := server.Signal(os.Kill); err != nil {
		t.Fatal(err)
	}
	_, o = cached(t, goredis.New(client),
		&rediscache.Options{TTL: time.Hour, Guard: rediscmd.GuardOptions{Rest: time.Nanosecond}})
	same("killed", s.endpoint(o), false)
	s.wantList(t, "placed", "tea")
}
