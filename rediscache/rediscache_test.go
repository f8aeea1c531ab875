package rediscache_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/broker/membroker"
	"github.com/skald-go/skald/inbox"
	"github.com/skald-go/skald/internal/fingerprint"
	"github.com/skald-go/skald/once"
	"github.com/skald-go/skald/rediscache"
	"github.com/skald-go/skald/rediscmd"
	"github.com/skald-go/skald/rediscmd/goredis"
	"github.com/skald-go/skald/store"
	"github.com/skald-go/skald/store/memstore"
)

type tx = *memstore.Tx

var said = skald.Event[string]{Topic: "orders", Type: "said"}

func quiet() *slog.Logger { return slog.New(slog.DiscardHandler) }

// counted counts the calls of the database for messages.
type counted struct {
	store.Driver[tx]
	looks, begins atomic.Int64
}

func (c *counted) Seen(ctx context.Context, consumer string, ids []store.Identity) ([]store.Verdict, error) {
	c.looks.Add(1)
	return c.Driver.Seen(ctx, consumer, ids)
}

func (c *counted) Begin(ctx context.Context, in store.Intake) (store.Unit[tx], error) {
	c.begins.Add(1)
	return c.Driver.Begin(ctx, in)
}

// world is a consumer with a cache, in one process.
type world struct {
	t     *testing.T
	db    *memstore.Store
	asked *counted
	bus   *membroker.Broker
	cache *rediscache.Cache
	in    *inbox.Inbox[tx]
	fail  error
}

func newWorld(t *testing.T, c rediscmd.Client, o *rediscache.Options) *world {
	t.Helper()
	if o == nil {
		o = &rediscache.Options{}
	}
	// not by how fast a machine is
	o.Guard.Logger, o.Guard.Timeout = quiet(), cmp.Or(o.Guard.Timeout, time.Minute)
	w := &world{t: t, db: memstore.New(nil), bus: membroker.New(nil)}
	w.asked = &counted{Driver: w.db}
	if err := w.bus.MakeTopics(t.Context(), 1, said.Topic); err != nil {
		t.Fatal(err)
	}
	var err error
	if w.cache, err = rediscache.New(c, o); err != nil {
		t.Fatal(err)
	}
	w.in = inbox.New[tx](w.asked, w.bus, "stock", &inbox.Options{Cache: inbox.Cache{Finished: w.cache},
		Logger: quiet(), Retry: inbox.Retry{InitialInterval: time.Hour}})
	inbox.On(w.in, said, func(_ context.Context, t tx, m skald.Received[string]) error {
		old, _ := t.Get("done")
		if err := t.Put("done", strings.TrimPrefix(old+" "+m.Value, " ")); err != nil {
			return err
		}
		return w.fail
	})
	return w
}

func message(id, data string) skald.Message {
	return skald.Message{ID: id, Source: "/other", Type: said.Type, Topic: said.Topic, Key: []byte(id),
		Data: fmt.Appendf(nil, "%q", data)}
}

// hear publishes messages, and waits until they are handled and the cache has stored its entries.
func (w *world) hear(ms ...skald.Message) {
	w.t.Helper()
	if err := w.bus.Publish(w.t.Context(), ms).Wait(w.t.Context()); err != nil {
		w.t.Fatal(err)
	}
	for busy := true; busy; {
		var err error
		if busy, err = w.in.Step(w.t.Context()); err != nil {
			w.t.Fatal(err)
		}
	}
	rediscache.Wait(w.cache)
}

func (w *world) expect(done string, cached int64) {
	w.t.Helper()
	if got := w.db.User()["done"]; got != done {
		w.t.Errorf("done: %q, want %q", got, done)
	}
	if h := w.in.Health(); h.Cached != cached {
		w.t.Errorf("%d were cached, want %d: %+v", h.Cached, cached, w.cache.Status())
	}
}

func mini(t *testing.T) (*miniredis.Miniredis, rediscmd.Client) {
	t.Helper()
	s := miniredis.RunT(t)
	c := redis.NewClient(&redis.Options{Addr: s.Addr(), MaxRetries: -1})
	t.Cleanup(func() { _ = c.Close() })
	return s, goredis.New(c)
}

// A repeat costs the database nothing, is counted as one, and goes for what it is.
func TestRepeatCostsNoStatement(t *testing.T) {
	s, c := mini(t)
	w := newWorld(t, c, nil)
	w.hear(message("a", "1"), message("b", "2"))
	w.asked.looks.Store(0)
	w.asked.begins.Store(0)
	w.hear(message("a", "1"), message("b", "2"), message("a", "1"))
	if looks, begins := w.asked.looks.Load(), w.asked.begins.Load(); looks+begins != 0 {
		t.Errorf("three repeats cost %d looks and %d transactions", looks, begins)
	}
	if h := w.in.Health(); h.Duplicates != 3 || h.Unacknowledged != 0 {
		t.Errorf("%+v", h)
	}
	w.expect("1 2", 3)
	if keys := s.Keys(); len(keys) != 2 || !strings.HasPrefix(keys[0], "skald:seen:") ||
		s.TTL(keys[0]) != 24*time.Hour {
		t.Errorf("keys %v, the first for %v", keys, s.TTL(keys[0]))
	}
}

// Only what is committed is stored. What is found in the database is, too, so that an empty cache fills.
func TestOnlyWhatIsCommittedIsStored(t *testing.T) {
	s, c := mini(t)
	w := newWorld(t, c, nil)
	w.fail = fmt.Errorf("no")
	w.hear(message("a", "1"))
	if keys := s.Keys(); len(keys) != 0 {
		t.Errorf("a failed message has %v", keys)
	}
	w.fail = skald.Reject(fmt.Errorf("sold out"))
	w.hear(message("b", "2"))
	if keys := s.Keys(); len(keys) != 1 {
		t.Errorf("a rejected one has %v", keys)
	}
	s.FlushAll()
	w.hear(message("b", "2"))
	w.expect("", 0)
	if keys := s.Keys(); len(keys) != 1 {
		t.Errorf("a repeat that the database knew has %v", keys)
	}
	w.hear(message("b", "2"))
	w.expect("", 1)
}

// Another payload under a known identity goes to quarantine, with the cache as without it.
func TestOtherPayloadIsNoHit(t *testing.T) {
	_, c := mini(t)
	w := newWorld(t, c, nil)
	w.hear(message("a", "1"))
	w.hear(message("a", "2"))
	if h := w.in.Health(); h.Conflicts != 1 || h.Cached != 0 {
		t.Errorf("%+v", h)
	}
	w.expect("1", 0)
}

// lying is a client that returns wrong answers to GET.
type lying struct {
	rediscmd.Client
	lie func(key string) rediscmd.Reply
}

func (l lying) Do(ctx context.Context, commands [][]string) ([]rediscmd.Reply, error) {
	if commands[0][0] != "GET" {
		return l.Client.Do(ctx, commands)
	}
	out := make([]rediscmd.Reply, len(commands))
	for i, words := range commands {
		out[i] = l.lie(words[1])
	}
	return out, nil
}

// Whatever Redis answers, no message is lost and none is taken twice: its word for one is no word for
// another, nor for another database.
func TestWrongAnswersChangeNothing(t *testing.T) {
	s, c := mini(t)
	other := newWorld(t, c, &rediscache.Options{Prefix: "other:"})
	for i := range 20 {
		other.hear(message(fmt.Sprint(i), "x")) // the same identities, elsewhere
	}
	any := func() string {
		v, err := s.Get(s.Keys()[0])
		if err != nil {
			t.Error(err)
		}
		return v
	}
	for name, lie := range map[string]func(key string) rediscmd.Reply{
		"everything is known": func(string) rediscmd.Reply { return rediscmd.Reply{Text: "completed"} },
		"one for another":     func(string) rediscmd.Reply { return rediscmd.Reply{Text: any()} },
		"another database's": func(key string) rediscmd.Reply {
			v, _ := s.Get("other:" + strings.TrimPrefix(key, "skald:seen:"))
			return rediscmd.Reply{Text: v}
		},
		"refused": func(string) rediscmd.Reply { return rediscmd.Reply{Err: fmt.Errorf("LOADING")} },
	} {
		w := newWorld(t, lying{c, lie}, nil)
		want := []string{}
		for i := range 20 {
			w.hear(message(fmt.Sprint(i), fmt.Sprint(i)), message(fmt.Sprint(i), fmt.Sprint(i)))
			want = append(want, fmt.Sprint(i))
		}
		t.Log(name)
		w.expect(strings.Join(want, " "), 0)
	}
}

// What another process seems to have in hand waits, without a statement, until that one is done, or for as
// long as for a rival at the database, which decides.
func TestClaimsAreAHint(t *testing.T) {
	_, c := mini(t)
	guard := rediscmd.GuardOptions{Timeout: time.Minute, Logger: quiet()}
	ours, err1 := rediscache.NewClaims(c, &rediscache.ClaimOptions{Guard: guard})
	rivals, err2 := rediscache.NewClaims(c, &rediscache.ClaimOptions{Guard: guard})
	if err := errors.Join(err1, err2); err != nil {
		t.Fatal(err)
	}
	w, now := newWorld(t, c, nil), time.Now()
	w.in = inbox.New[tx](w.asked, w.bus, "stock", &inbox.Options{Cache: inbox.Cache{InProgress: ours},
		Logger: quiet(), Now: func() time.Time { return now }})
	inbox.On(w.in, said, func(_ context.Context, t tx, m skald.Received[string]) error {
		old, _ := t.Get("done")
		return t.Put("done", old+m.Value)
	})
	secret, err := w.db.Secret(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	key := func(id string) string {
		return once.Seal(fingerprint.New(secret), "", "stock", store.Identity{Source: "/other", ID: id},
			0).Key
	}
	if !rivals.Claim(t.Context(), key("a")) || !rivals.Claim(t.Context(), key("b")) {
		t.Fatal("not claimed")
	}
	w.hear(message("a", "1"), message("b", "2"), message("c", "3"))
	if w.expect("3", 0); w.asked.begins.Load() != 1 {
		t.Errorf("%d transactions", w.asked.begins.Load())
	}
	rivals.Release(key("a"))
	for !ours.Claim(t.Context(), key("a")) { // it is released by and by
		time.Sleep(time.Millisecond)
	}
	ours.Release(key("a"))
	for rounds := 0; w.db.User()["done"] != "312"; rounds++ {
		if now = now.Add(50 * time.Millisecond); rounds > 200 {
			t.Fatalf("done %q", w.db.User()["done"])
		}
		w.hear()
	}
	for end := time.Now().Add(time.Minute); !rivals.Claim(t.Context(),
		key("c")); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("a claim outlives its message")
		}
	}
}

// A cache that remembers for longer than marks, or for no time, is refused at the start, by name and with
// what to do.
func TestTTLBeyondTheWindowIsRefused(t *testing.T) {
	_, c := mini(t)
	w := newWorld(t, c, &rediscache.Options{TTL: 31 * 24 * time.Hour})
	_, err := w.in.Step(t.Context())
	if err == nil || !strings.Contains(err.Error(),
		"inbox.Options.Cache.Finished remembers for 744h0m0s, marks are kept for 720h0m0s: give the cache a TTL") {
		t.Error(err)
	}
	if _, err := rediscache.New(c, &rediscache.Options{TTL: -1}); err == nil {
		t.Error("a TTL below 0 is taken")
	}
}

// What is to be stored waits for nobody, and no more of it than is bounded; the rest is counted as dropped.
func TestPutNeverWaits(t *testing.T) {
	hang := make(chan struct{})
	cache, err := rediscache.New(client(
		func(_ context.Context, commands [][]string) ([]rediscmd.Reply, error) {
			<-hang
			return make([]rediscmd.Reply, len(commands)), nil
		}), &rediscache.Options{Guard: rediscmd.GuardOptions{Timeout: time.Hour, Logger: quiet()}})
	if err != nil {
		t.Fatal(err)
	}
	for range 30_000 {
		cache.Put(once.Entry{Key: "k", Value: "v"})
	}
	close(hang)
	rediscache.Wait(cache)
	if s := cache.Status(); s.Stored+s.Dropped != 30_000 || s.Stored < 10_000 || s.Dropped < 19_000 {
		t.Errorf("%+v", s)
	}
}

type client func(ctx context.Context, commands [][]string) ([]rediscmd.Reply, error)

func (c client) Do(ctx context.Context, commands [][]string) ([]rediscmd.Reply, error) {
	return c(ctx, commands)
}

// A claim whose reply is lost is this process's, and one that nobody waited for is taken back: neither makes
// others wait for nobody.
func TestNoClaimIsLeft(t *testing.T) {
	s, c := mini(t)
	gone := make(chan struct{})
	var calls, ended atomic.Int64
	claims, err := rediscache.NewClaims(
		client(func(ctx context.Context, commands [][]string) ([]rediscmd.Reply, error) {
			defer ended.Add(1)
			if calls.Add(1) == 1 {
				<-gone
				// all others are sent twice, the first reply is lost
			} else if _, err := c.Do(ctx, commands); err != nil {
				return nil, err
			}
			return c.Do(ctx, commands)
		}), &rediscache.ClaimOptions{Guard: rediscmd.GuardOptions{Timeout: time.Minute, Logger: quiet()}})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if !claims.Claim(ctx, "k") {
		t.Error("a hint that does not answer holds work up")
	}
	close(gone)
	for ended.Load() < 2 { // the claim, and its end
		runtime.Gosched()
	}
	if s.Exists("skald:claim:k") {
		t.Error("a claim that nobody waited for is left")
	}
	if !claims.Claim(t.Context(), "k") {
		t.Error("it takes its own claim for a rival's")
	}
	if claims.Claim(t.Context(), "k") {
		t.Error("two goroutines are at it")
	}
	claims.Release("k")
	for s.Exists("skald:claim:k") {
		runtime.Gosched()
	}
}
