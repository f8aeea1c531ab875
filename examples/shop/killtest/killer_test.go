package killtest

import (
	"bytes"
	"context"
	crand "crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	mrand "math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/examples/shop/audit"
	shopevent "github.com/skald-go/skald/examples/shop/event"
	"github.com/skald-go/skald/examples/shop/place"
	"github.com/skald-go/skald/examples/shop/sample"
	"github.com/skald-go/skald/examples/shop/service"
	"github.com/skald-go/skald/internal/need"
	"github.com/skald-go/skald/store"
)

// die ends this process at once, as an out-of-memory kill does.
func die() error { return syscall.Kill(os.Getpid(), syscall.SIGKILL) }

// crew is processes that are restarted when they die. All end with the test.
type crew struct {
	t     *testing.T
	start func(i int) *exec.Cmd
	died  chan int

	cmds map[int]*exec.Cmd
}

func newCrew(t *testing.T, start func(i int) *exec.Cmd) *crew {
	return &crew{t: t, start: start, died: make(chan int, 100), cmds: map[int]*exec.Cmd{}}
}

func (c *crew) begin(i int) {
	c.t.Helper()
	cmd := c.start(i)
	if err := cmd.Start(); err != nil {
		c.t.Fatal(err)
	}
	c.cmds[i] = cmd
	go func() {
		_ = cmd.Wait()
		c.died <- i
	}()
}

// next waits for the next death and returns the process.
func (c *crew) next(most time.Duration) int {
	c.t.Helper()
	select {
	case i := <-c.died:
		delete(c.cmds, i)
		return i
	case <-time.After(most):
		c.t.Fatalf("none died in %v", most)
		return -1
	}
}

func (c *crew) end() {
	for _, cmd := range c.cmds {
		_ = cmd.Process.Kill()
	}
	for range c.cmds {
		<-c.died
	}
	clear(c.cmds)
}

// raise restarts dead processes until done, and counts the deaths.
func (c *crew) raise(what string, done func() bool) (deaths int) {
	c.t.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(most); !done(); {
		select {
		case i := <-c.died:
			deaths++
			c.begin(i)
		case <-tick.C:
		}
		if deaths > 20 || time.Now().After(end) {
			c.t.Fatalf("waited in vain: %s; %d more deaths", what, deaths)
		}
	}
	return deaths
}

// A message kills its process, and each process that inherits its shard, until it is a dead letter. All
// other messages have their effect once, in order, and none of them is charged an attempt.
func TestKillerIsInherited(t *testing.T) {
	t.Parallel()
	s := newStream(t, 0)
	c := newCrew(t, func(i int) *exec.Cmd { return s.command(worker(i)) })
	defer c.end()
	c.begin(0)
	c.begin(1)
	say := func(n int) {
		s.exec(`INSERT INTO $.skald_outbox (topic, key, type, data) SELECT $1, 'calm', 'counted', g::text FROM generate_series($2::int, $3::int) AS g`, s.schema, s.written+1, s.written+n)
		s.written += n
	}
	say(100)
	s.until("work", func() bool { return s.done() == s.written })
	s.exec(`INSERT INTO $.skald_outbox (topic, key, type, data) VALUES ($1, 'killer', 'counted', '-1'), ($1, 'killer', 'counted', '-2')`, s.schema)
	say(100)
	first := c.next(most)
	if second := c.next(most); second == first {
		t.Fatal("nobody had started it again")
	}
	c.begin(0)
	c.begin(1)
	deaths := 2 + c.raise("a dead letter",
		func() bool { return s.number("SELECT count(*) FROM $.skald_parked WHERE dead_at IS NOT NULL") > 0 })
	say(100)
	deaths += c.raise("all effects", func() bool { return s.done() == s.written })
	if deaths != 6 {
		t.Errorf("%d deaths, 6 are promised", deaths)
	}
	if n := s.number("SELECT count(*) FROM $.skald_parked WHERE key = 'killer' AND data = '-1' AND kind = 'crash' AND crash_count = 3 AND attempts = 0"); n != 1 {
		t.Errorf("%d dead letters of kind crash", n)
	}
	if n := s.number("SELECT count(*) FROM $.skald_parked WHERE key <> 'killer' OR data <> '-1' AND (crash_count > 0 OR attempts > 0 OR dead_at IS NOT NULL)"); n != 0 {
		t.Errorf("%d others are kept, or charged", n)
	}
	if n := s.number("SELECT count(*) FROM (SELECT n, lag(n) OVER (ORDER BY place) AS before FROM $.effects) AS e WHERE n <= before"); n != 0 {
		t.Errorf("%d effects are out of order, or there again", n)
	}
}

// pay is a process with the shop's Payment, which one message kills: "instance prefix postgres kafka id".
func pay(instance, prefix, postgres, kafka, id string) error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	shop, err := place.Postgres(postgres, prefix)
	if err != nil {
		return err
	}
	shop.Wrap = func(_ string, s store.Driver[pgx.Tx]) store.Driver[pgx.Tx] { return &deadly{s, id} }
	bus, err := place.OpenBus("kafka://" + kafka)
	if err != nil {
		return err
	}
	defer func() { _ = errors.Join(shop.Close(), bus.Close()) }()
	client, err := bus.Connect("payment")
	if err != nil {
		return err
	}
	one, err := shop.Service(ctx, "payment", client, quietly(prefix, instance))
	if err != nil {
		return err
	}
	return skald.Run(ctx, one.Runners()...)
}

func quietly(prefix, instance string) *service.Options {
	o := &service.Options{Prefix: prefix, Instance: instance}
	o.Inbox.Logger, o.Relay.Logger = slog.New(slog.DiscardHandler), slog.New(slog.DiscardHandler)
	return o
}

// deadly is a store in whose transactions the handler of one message ends the process.
type deadly struct {
	store.Driver[pgx.Tx]
	id string
}

func (d *deadly) Begin(ctx context.Context, in store.Intake) (store.Unit[pgx.Tx], error) {
	u, err := d.Driver.Begin(ctx, in)
	if err == nil && slices.ContainsFunc(in.Marks, func(m store.Mark) bool { return m.ID == d.id }) {
		return &fatal{u}, nil
	}
	return u, err
}

type fatal struct{ store.Unit[pgx.Tx] }

// Tx is the transaction of a handler.
func (f *fatal) Tx() pgx.Tx {
	_ = die()
	return f.Unit.Tx()
}

// Both instances of the shop's Payment are a build that one order kills. The order's message becomes a dead
// letter, and all other orders end. A build without the bug takes it after a redrive, and every invariant
// holds.
func TestOrderThatKillsPayment(t *testing.T) {
	if testing.Short() {
		t.Skip("starts processes: not with -short")
	}
	t.Parallel()
	b := newBench(t)
	for _, name := range service.Names() {
		if one := b.open(name); name != "payment" {
			b.run(one)
		}
	}
	b.place(12)
	home, err := b.shop.Home(t.Context(), "payment")
	if err != nil {
		t.Fatal(err)
	}
	killer := b.one("order",
		`SELECT id::text FROM /*schema*/skald_outbox WHERE type = 'order.placed' ORDER BY seq LIMIT 1 OFFSET 6`)
	c := newCrew(t, func(i int) *exec.Cmd {
		cmd := exec.Command(os.Args[0])
		cmd.Env, cmd.Stderr = append(os.Environ(), fmt.Sprintf("%s=%d %s %s %s %s", workerEnv, i+1, b.prefix,
			b.postgres, b.kafka, killer)), os.Stderr
		return cmd
	})
	defer c.end()
	c.begin(0)
	c.begin(1)
	deaths := c.raise("all others to end, and a dead letter", func() bool {
		return b.one("order",
			`SELECT count(*)::text FROM /*schema*/orders WHERE state NOT IN ('confirmed', 'cancelled')`) == "1" &&
			b.one("payment",
				`SELECT count(*)::text FROM /*schema*/skald_parked WHERE dead_at IS NOT NULL`) == "1"
	})
	if deaths != 6 {
		t.Errorf("%d deaths, 6 are promised", deaths)
	}
	if is := b.one("payment",
		`SELECT string_agg(id || ' ' || kind || ' ' || crash_count, ',') FROM /*schema*/skald_parked`); is != killer+" crash 3" {
		t.Errorf("Payment keeps %s", is)
	}
	c.end()
	b.run(b.open("payment"))
	identity := store.Identity{Source: b.one("payment", `SELECT source FROM /*schema*/skald_parked`),
		ID: killer}
	stood, err := home.Store.Apply(t.Context(),
		store.Effect{Requeue: &store.Requeue{Consumer: shopevent.New(b.prefix).Group("payment"),
			Identity: identity},
			Audit: &store.Audit{Author: "test", Reason: "the build is mended", Action: "redrive",
				Consumer: shopevent.New(b.prefix).Group("payment"), Identity: identity}})
	if err != nil || !stood[0] {
		t.Fatalf("redrive: %v %v", stood, err)
	}
	b.judge()
}

// bench is the shop on shared servers, in its own database and topics: services that are not started as
// processes run in this one.
type bench struct {
	t                       *testing.T
	ctx                     context.Context
	prefix, postgres, kafka string
	shop                    *place.Databases[pgx.Tx]
	bus                     *place.Bus
	orders                  http.Handler
	wg                      sync.WaitGroup
}

func newBench(t *testing.T) *bench {
	t.Helper()
	server := need.Postgres(t)
	b := &bench{t: t, prefix: "killer" + strings.ToLower(crand.Text()[:10]), kafka: need.Kafka(t)}
	admin, err := pgx.Connect(t.Context(), server)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := admin.Exec(t.Context(), "CREATE DATABASE "+b.prefix); err != nil {
		t.Fatal(err)
	}
	at, err := url.Parse(server)
	if err != nil {
		t.Fatal(err)
	}
	at.Path = "/" + b.prefix
	b.postgres = at.String()
	if b.shop, err = place.Postgres(b.postgres, b.prefix); err != nil {
		t.Fatal(err)
	}
	if b.bus, err = place.OpenBus("kafka://" + b.kafka); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	b.ctx = ctx
	t.Cleanup(func() {
		stop()
		b.wg.Wait()
		err := errors.Join(b.bus.Close(), b.shop.Close())
		_, dropped := admin.Exec(context.Background(), "DROP DATABASE "+b.prefix+" WITH (FORCE)")
		client, made := kgo.NewClient(kgo.SeedBrokers(b.kafka))
		if made == nil {
			_, made = kadm.NewClient(client).DeleteTopics(context.Background(),
				shopevent.New(b.prefix).Topics()...)
			client.Close()
		}
		if err := errors.Join(err, dropped, admin.Close(context.Background()), made); err != nil {
			t.Error(err)
		}
	})
	return b
}

func (b *bench) open(name string) place.Service {
	b.t.Helper()
	client, err := b.bus.Connect(name)
	if err == nil {
		err = place.MakeTopics(b.ctx, client, shopevent.New(b.prefix), 4)
	}
	if err == nil {
		err = b.shop.Prepare(b.ctx, name)
	}
	var one place.Service
	if err == nil {
		one, err = b.shop.Service(b.ctx, name, client, quietly(b.prefix, "0"))
	}
	if err != nil {
		b.t.Fatal(err)
	}
	if h := one.HTTP(); h != nil {
		b.orders = h
	}
	return one
}

func (b *bench) run(one place.Service) {
	b.wg.Go(func() {
		if err := skald.Run(b.ctx, one.Runners()...); err != nil {
			b.t.Error(err)
		}
	})
}

func (b *bench) place(n int) {
	b.t.Helper()
	for _, o := range sample.Orders(mrand.Uint64(), n) {
		body, err := json.Marshal(o.Request)
		if err != nil {
			b.t.Fatal(err)
		}
		r := httptest.NewRequest(http.MethodPost, "/orders", bytes.NewReader(body))
		r.Header.Set("Idempotency-Key", o.Key)
		w := httptest.NewRecorder()
		if b.orders.ServeHTTP(w, r); w.Code != http.StatusCreated {
			b.t.Fatalf("%d: %s", w.Code, w.Body)
		}
	}
}

// one returns the text that a query returns in a service's database.
func (b *bench) one(service, query string) (text string) {
	b.t.Helper()
	home, err := b.shop.Home(b.t.Context(), service)
	if err == nil {
		err = home.Read.QueryRow(b.t.Context(), query).Scan(&text)
	}
	if err != nil {
		b.t.Fatalf("%s: %v", query, err)
	}
	return text
}

// judge requires that the auditor finds every invariant kept.
func (b *bench) judge() {
	b.t.Helper()
	databases, err := b.shop.Read(b.t.Context())
	if err != nil {
		b.t.Fatal(err)
	}
	for end := time.Now().Add(most); ; <-time.After(50 * time.Millisecond) {
		found, err := audit.Run(b.t.Context(), databases)
		if err != nil {
			b.t.Fatal(err)
		}
		if audit.OK(found) {
			return
		}
		if time.Now().After(end) {
			b.t.Fatalf("the auditor finds %+v", found)
		}
	}
}
