package httpidem_test

import (
	"context"
	"fmt"
	"net/http"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"github.com/skald-go/skald/httpidem"
	"github.com/skald-go/skald/once"
	"github.com/skald-go/skald/rediscache"
	"github.com/skald-go/skald/rediscmd"
	"github.com/skald-go/skald/rediscmd/goredis"
	"github.com/skald-go/skald/store"
	"github.com/skald-go/skald/store/memstore"
)

// watched is a database that counts the queries of requests. Its field run is the run of its server.
type watched struct {
	*awayStore
	asked atomic.Int64
	run   string
}

func (w *watched) Seen(ctx context.Context, consumer string, ids []store.Identity) ([]store.Verdict, error) {
	w.asked.Add(1)
	return w.Driver.Seen(ctx, consumer, ids)
}

func (w *watched) Begin(ctx context.Context, in store.Intake) (store.Unit[mem], error) {
	w.asked.Add(1)
	return w.awayStore.Begin(ctx, in)
}

func (w *watched) Reserve(ctx context.Context, r store.Reservation) (store.Reserved, error) {
	w.asked.Add(1)
	return w.Driver.Reserve(ctx, r)
}

func (w *watched) SyncConsumer(ctx context.Context, a store.SyncRequest) (store.SyncResult, error) {
	got, err := w.Driver.SyncConsumer(ctx, a)
	got.Server = w.run
	return got, err
}

// counter is a shop with a cache in an in-memory Redis. Each endpoint of it represents another process.
type counter struct {
	*shop[mem]
	t     *testing.T
	db    *watched
	redis *miniredis.Miniredis
	cache *rediscache.Cache
	o     *httpidem.Options
	now   time.Time // of the database
}

func newCounter(t *testing.T, ttl time.Duration) *counter {
	t.Helper()
	c := &counter{t: t, redis: miniredis.RunT(t), now: time.Now()}
	client := redis.NewClient(&redis.Options{Addr: c.redis.Addr(), MaxRetries: -1})
	t.Cleanup(func() { _ = client.Close() })
	c.cache, c.o = cached(t, goredis.New(client),
		&rediscache.Options{TTL: ttl, Guard: rediscmd.GuardOptions{Timeout: time.Minute}})
	db := memstore.New(&memstore.Options{Now: func() time.Time { return c.now }})
	g := &ground[mem]{db, noteIn, func(list string) (string, error) { return db.User()[list], nil }}
	c.db = &watched{awayStore: &awayStore{Driver: db}, run: "1"}
	c.shop = &shop[mem]{ground: &ground[mem]{c.db, g.note, g.list}}
	return c
}

// cached returns options with a cache in front of the database.
func cached(t *testing.T, client rediscmd.Client,
	o *rediscache.Options) (*rediscache.Cache, *httpidem.Options) {
	t.Helper()
	o.Guard.Logger = quiet().Logger
	cache, err := rediscache.New(client, o)
	if err != nil {
		t.Fatal(err)
	}
	out := quiet()
	out.Cache = cache
	return cache, out
}

// settled waits until the cache has stored or dropped n entries since it was created.
func settled(cache *rediscache.Cache, n int64) {
	for s := cache.Status(); s.Stored+s.Dropped < n; s = cache.Status() {
		runtime.Gosched()
	}
}

// costs checks the answer of h to p, and how many queries of the database it needs.
func (c *counter) costs(h http.Handler, p post, code int, body string, asked int64) {
	c.t.Helper()
	c.db.asked.Store(0)
	w := p.to(h)
	answers(c.t, w, code, body)
	if got := c.db.asked.Load(); got != asked {
		c.t.Errorf("the database was asked %d times, want %d", got, asked)
	}
}

// alter changes the only value in Redis.
func (c *counter) alter(f func(string) string) {
	c.t.Helper()
	keys := c.redis.Keys()
	if len(keys) != 1 {
		c.t.Fatalf("redis has %q", keys)
	}
	was, err := c.redis.Get(keys[0])
	if err == nil {
		err = c.redis.Set(keys[0], f(was))
	}
	if err != nil {
		c.t.Fatal(err)
	}
}

var tea, salt = post{key: "k", body: `{"SKU":"tea"}`}, post{key: "k", body: `{"SKU":"salt"}`}

// If Redis has an answer, a repeat needs no statement, in each process. The answer is equal byte for byte.
// Another payload is refused as without a cache. An endpoint fills an empty Redis from the database.
func TestCachedRepeat(t *testing.T) {
	c := newCounter(t, time.Hour)
	one, two := c.endpoint(c.o), c.endpoint(c.o)
	c.costs(one, tea, 201, `{"ID":"o-1"}`, 1)
	settled(c.cache, 1)
	c.alter(func(v string) string {
		if strings.Contains(v, "o-1") || strings.Contains(c.redis.Keys()[0], "orders") {
			t.Errorf("redis shows an answer: %q", v)
		}
		return v
	})
	if ttl := c.redis.TTL(c.redis.Keys()[0]); ttl != 0 { // set anew by alter, without one
		t.Fatal(ttl)
	}
	for _, h := range []http.Handler{one, two, two} {
		c.costs(h, tea, 201, `{"ID":"o-1"}`, 0)
		w := tea.to(h)
		if replayed(t, w, true); w.Header().Get("Location") != "/orders/o-1" ||
			w.Header().Get("Content-Type") != "application/json" {
			t.Errorf("%v", w.Header())
		}
	}
	c.costs(two, salt, 422, "reused", 1)
	c.redis.FlushAll()
	c.costs(two, tea, 201, `{"ID":"o-1"}`, 1)
	settled(c.cache, 2)
	if keys := c.redis.Keys(); len(keys) != 1 || c.redis.TTL(keys[0]) <= 0 ||
		c.redis.TTL(keys[0]) > time.Hour {
		t.Errorf("redis has %q", keys)
	}
	c.costs(c.endpoint(c.o), tea, 201, `{"ID":"o-1"}`, 0)
	c.wantList(t, "placed", "tea")
}

// Wrap caches its answers, too, after it has stored them.
func TestCachedWrap(t *testing.T) {
	c := newCounter(t, time.Hour)
	legacy := &old{do: func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusCreated)
		_, _ = w.Write([]byte("\xff\x00 made"))
	}}
	c.costs(wrapped(c.db, c.o, legacy), post{key: "k"}, 201, "\xff\x00 made", 1)
	settled(c.cache, 1)
	c.costs(wrapped(c.db, c.o, legacy), post{key: "k"}, 201, "\xff\x00 made", 0)
	if n := legacy.runs.Load(); n != 1 {
		t.Errorf("%d runs", n)
	}
}

// If Redis returns a value that is not this answer, the database decides.
func TestWrongAnswersOfTheCache(t *testing.T) {
	others := map[string]string{} // values that are right elsewhere
	value := func(c *counter) (v string) {
		settled(c.cache, 1)
		c.alter(func(was string) string { v = was; return was })
		return v
	}
	for name, p := range map[string]post{"another key's": {key: "other", body: tea.body},
		"another payload's": salt, "another database's": tea} {
		c := newCounter(t, time.Hour)
		p.to(c.endpoint(c.o))
		others[name] = value(c)
	}
	for name, alter := range map[string]func(string) string{
		"cut off":            func(v string) string { return v[:len(v)-1] },
		"cut to nothing":     func(string) string { return "" },
		"one bit":            func(v string) string { return v[:20] + string(v[20]^1) + v[21:] },
		"processing":         func(string) string { return "processing" },
		"an answer in clear": func(string) string { return `{"code":500,"body":"wrong"}` },
		"longer":             func(v string) string { return v + "x" },
	} {
		c := newCounter(t, time.Hour)
		tea.to(c.endpoint(c.o))
		value(c)
		c.alter(alter)
		t.Log(name)
		c.costs(c.endpoint(c.o), tea, 201, `{"ID":"o-1"}`, 1)
		c.wantList(t, "placed", "tea")
	}
	for name, other := range others {
		c := newCounter(t, time.Hour)
		tea.to(c.endpoint(c.o))
		value(c)
		c.alter(func(string) string { return other })
		t.Log(name)
		c.costs(c.endpoint(c.o), tea, 201, `{"ID":"o-1"}`, 1)
		c.wantList(t, "placed", "tea")
	}
	// The value of one key is copied to another key of the same database.
	c := newCounter(t, time.Hour)
	tea.to(c.endpoint(c.o))
	v := value(c)
	c.redis.FlushAll()
	second := post{key: "second", body: tea.body}
	second.to(c.endpoint(c.o))
	settled(c.cache, 2)
	c.alter(func(string) string { return v })
	c.costs(c.endpoint(c.o), second, 201, `{"ID":"o-2"}`, 1)
}

// After a restart or a restore the commit of a cached answer may be lost. So the entry does not count:
// neither in a new process, nor in a process that has noticed the outage.
func TestCacheOfAnotherRun(t *testing.T) {
	c := newCounter(t, time.Hour)
	h := c.endpoint(c.o)
	tea.to(h)
	settled(c.cache, 1)
	c.db.run = "2"
	c.costs(c.endpoint(c.o), tea, 201, `{"ID":"o-1"}`, 1)
	settled(c.cache, 2) // the entry of the new run stands where that of the old one did
	c.db.run = "3"
	c.db.begins = true
	answers(t, post{key: "new", body: "{}"}.to(h), 503, "send the same request again")
	c.db.begins = false
	c.costs(h, tea, 201, `{"ID":"o-1"}`, 1)
	c.wantList(t, "placed", "tea")
}

// The endpoint caches only committed answers, and only answers that are small enough.
func TestOnlyStoredAnswersAreCached(t *testing.T) {
	c := newCounter(t, time.Hour)
	h := c.endpoint(c.o)
	reply := func(code int, body string) func() (httpidem.Reply[view], error) {
		return func() (httpidem.Reply[view], error) {
			return httpidem.Reply[view]{Code: code, Body: view{body}}, nil
		}
	}
	for i, answer := range []func() (httpidem.Reply[view], error){
		reply(503, ""), reply(409, ""), reply(200, strings.Repeat("x", 8<<10)),
		func() (httpidem.Reply[view], error) { return httpidem.Reply[view]{}, fmt.Errorf("no") },
		func() (httpidem.Reply[view], error) { panic("no") },
	} {
		c.answer = answer
		post{key: fmt.Sprint("k-", i), body: "{}"}.to(h)
	}
	c.answer = func() (httpidem.Reply[view], error) {
		return httpidem.Reply[view]{}, httpidem.Refuse(402, "declined")
	}
	no := post{key: "no", body: "{}"}
	no.to(h)
	settled(c.cache, 1)
	if keys := c.redis.Keys(); len(keys) != 1 {
		t.Errorf("redis has %d keys", len(keys))
	}
	c.costs(c.endpoint(c.o), no, 402, "declined", 0)
	c.answer = reply(200, strings.Repeat("x", once.MaxResult)) // done, body not kept
	large := post{key: "large", body: "{}"}
	large.to(h)
	settled(c.cache, 2)
	c.costs(c.endpoint(c.o), large, 409, "not-kept", 0)
}

// If a key has expired by the database's clock, its request is done again. An answer that was read shortly
// before that time is not cached for longer.
func TestCacheKeepsNoLongerThanItsScope(t *testing.T) {
	c := newCounter(t, 24*time.Hour)
	c.o.Keep = 24 * time.Hour
	began := c.now
	tea.to(c.endpoint(c.o))
	settled(c.cache, 1)
	c.redis.FlushAll()
	c.now = began.Add(23*time.Hour + 30*time.Minute)
	c.costs(c.endpoint(c.o), tea, 201, `{"ID":"o-1"}`, 1)
	settled(c.cache, 2)
	if ttl := c.redis.TTL(c.redis.Keys()[0]); ttl <= 29*time.Minute || ttl > 30*time.Minute {
		t.Errorf("it is cached for %v more", ttl)
	}
	c.costs(c.endpoint(c.o), tea, 201, `{"ID":"o-1"}`, 0)
	c.now = began.Add(24*time.Hour + time.Second)
	c.redis.FastForward(30 * time.Minute)
	c.costs(c.endpoint(c.o), tea, 201, `{"ID":"o-2"}`, 1)
	c.wantList(t, "placed", "tea tea")
}

// A cache with a TTL longer than answers are stored is refused.
func TestCacheIsRefused(t *testing.T) {
	c := newCounter(t, 48*time.Hour)
	c.o.Keep = 24 * time.Hour
	if err := httpidem.Check(t.Context(), c.db, c.o); err == nil || !strings.Contains(err.Error(), "TTL") {
		t.Errorf("48 hours of 24: %v", err)
	}
	answers(t, tea.to(c.endpoint(c.o)), 500, "the service failed")
	c.wantList(t, "placed", "")
	c.o.Keep = 0
	if err := httpidem.Check(t.Context(), c.db, c.o); err != nil {
		t.Errorf("48 hours of 30 days: %v", err)
	}
	if err := httpidem.Check(t.Context(), c.db, &httpidem.Options{Keep: -1}); err == nil {
		t.Error("a Keep below 0 is taken")
	}
	if err := httpidem.Check(t.Context(), c.db, nil); err != nil {
		t.Error(err)
	}
	long := newCounter(t, 31*24*time.Hour)
	if err := httpidem.Check(t.Context(), long.db, long.o); err == nil {
		t.Error("31 days of 30 are taken")
	}
}
