package health_test

import (
	"context"
	"crypto/rand"
	"log/slog"
	"net"
	"net/http/httptest"
	"net/url"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/broker"
	"github.com/skald-go/skald/broker/kafkabroker"
	"github.com/skald-go/skald/broker/membroker"
	"github.com/skald-go/skald/broker/natsbroker"
	"github.com/skald-go/skald/broker/rabbitbroker"
	"github.com/skald-go/skald/health"
	"github.com/skald-go/skald/inbox"
	"github.com/skald-go/skald/internal/need"
	"github.com/skald-go/skald/relay"
	"github.com/skald-go/skald/saga"
	"github.com/skald-go/skald/store"
	"github.com/skald-go/skald/store/memstore"
	"github.com/skald-go/skald/store/pgstore"
)

// soon limits the waits of the test. docs/operations.md promises 15 s, but this machine may be busy.
const soon = 3 * time.Minute

// The table of docs/operations.md: each server behind a proxy that swallows, refuses or answers wrongly. Each
// station stays live, is not ready, says why in one line, and is ready again once the server is.
func TestOutagesAreReported(t *testing.T) {
	type open func(t *testing.T, topic string, proxy func(string) *need.Proxy) stations
	servers := map[string]open{"PostgreSQL": onPostgres}
	for name, through := range openers() {
		servers[name] = func(t *testing.T, topic string, proxy func(string) *need.Proxy) stations {
			return onBroker(t, topic, through(t, proxy))
		}
	}
	for name, server := range servers {
		for fault, way := range map[string]need.Way{"swallowed": need.Swallow, "refused": need.Refuse,
			"answered wrongly": need.Garble} {
			if way != need.Swallow && os.Getenv("SKALD_EXPLORE") != "all" {
				continue
			}
			t.Run(name+" "+fault, func(t *testing.T) {
				t.Parallel()
				var p *need.Proxy
				s := server(t, "out"+strings.ToLower(rand.Text()[:10]), func(at string) *need.Proxy {
					p = need.NewProxy(t, at)
					return p
				})
				h := s.run(t)
				s.report(t, h, 200, "")
				p.Set(way)
				s.report(t, h, 503, s.what+" has not answered since")
				p.Set(need.Pass)
				s.report(t, h, 200, "")
			})
		}
	}
}

// stations has the parts of one process, with a server behind a proxy.
type stations struct {
	what string // the server, as Why has it
	run  func(t *testing.T) *health.Handler
}

// report waits until the handler returns code, with the text why in a line of each part that uses the server.
// All parts stay live.
func (s stations) report(t *testing.T, h *health.Handler, code int, why string) {
	t.Helper()
	for end := time.Now().Add(soon); ; time.Sleep(50 * time.Millisecond) {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest("GET", "/readyz", nil))
		all := true
		for line := range strings.Lines(w.Body.String()) {
			all = all && strings.Contains(line, why)
		}
		n := strings.Count(w.Body.String(), "\n")
		if w.Code == code && all && (code == 200 || n == s.lines()) {
			break
		}
		if time.Now().After(end) {
			t.Fatalf("waited for %d %q, and /readyz has %d:\n%s", code, why, w.Code, w.Body)
		}
	}
	w := httptest.NewRecorder()
	if h.ServeHTTP(w, httptest.NewRequest("GET", "/livez", nil)); w.Code != 200 {
		t.Errorf("it is not live: %s", w.Body)
	}
}

// lines returns the number of parts that use the server; an engine has no broker.
func (s stations) lines() int {
	if s.what == "the database" {
		return 3
	}
	return 2
}

// on returns an inbox, a relay and an engine that use db and bus.
func on[TTx any](what, topic string, db store.Driver[TTx], bus broker.Broker) stations {
	return stations{what, func(t *testing.T) *health.Handler {
		quiet := slog.New(slog.DiscardHandler)
		in := inbox.New(db, bus, topic+"-group", &inbox.Options{Logger: quiet,
			Timeouts: inbox.Timeouts{Drain: time.Second}})
		in.Handle(topic, "said", func(context.Context, TTx, skald.Message) error { return nil })
		r := relay.New(db, bus, &relay.Options{Logger: quiet, Drain: time.Second})
		e, err := saga.NewEngine(db, &saga.EngineOptions{Logger: quiet, Drain: time.Second})
		if err != nil {
			t.Fatal(err)
		}
		h := health.New(nil, in, r, e)
		ctx, cancel := context.WithCancel(context.Background())
		var wg sync.WaitGroup
		for _, one := range []skald.Runner{in, r, e} {
			wg.Go(func() {
				if err := one.Run(ctx); err != nil {
					t.Errorf("it ended: %v", err)
				}
			})
		}
		t.Cleanup(func() { cancel(); wg.Wait() })
		return h
	}}
}

func onPostgres(t *testing.T, topic string, proxy func(string) *need.Proxy) stations {
	at, err := url.Parse(need.Postgres(t))
	if err != nil {
		t.Fatal(err)
	}
	open := func(host string) *pgxpool.Pool {
		there := *at
		there.Host = host
		pool, err := pgxpool.New(t.Context(), there.String())
		if err != nil {
			t.Fatal(err)
		}
		return pool
	}
	direct := open(at.Host)
	t.Cleanup(func() {
		if _, err := direct.Exec(context.Background(), "DROP SCHEMA "+topic+" CASCADE"); err != nil {
			t.Error(err)
		}
		direct.Close()
	})
	if _, err := pgstore.Migrate(t.Context(), direct, &pgstore.MigrateOptions{Schema: topic}); err != nil {
		t.Fatal(err)
	}
	through := open(proxy(at.Host).Addr())
	t.Cleanup(func() { go through.Close() }) // which may wait for dead connections
	bus := membroker.New(nil)
	makeTopic(t, bus, topic)
	return on[pgx.Tx]("the database", topic, pgstore.New(through, &pgstore.Options{Schema: topic,
		Patience: 2 * time.Second}), bus)
}

// opener opens a broker, directly or through the proxy.
type opener func(through bool) (broker.Broker, error)

func openers() map[string]func(t *testing.T, proxy func(string) *need.Proxy) opener {
	return map[string]func(t *testing.T, proxy func(string) *need.Proxy) opener{"Kafka": kafkaThrough,
		"RabbitMQ": rabbitMQThrough, "NATS": natsThrough}
}

func kafkaThrough(t *testing.T, proxy func(string) *need.Proxy) opener {
	at := need.Kafka(t)
	p := proxy(at)
	return func(through bool) (broker.Broker, error) {
		if !through {
			return kafkabroker.New(at, nil)
		}
		dial := func(ctx context.Context, network, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, network, p.Addr())
		}
		return kafkabroker.New(at, &kafkabroker.Options{Client: []kgo.Opt{kgo.Dialer(dial)}})
	}
}

func rabbitMQThrough(t *testing.T, proxy func(string) *need.Proxy) opener {
	at := strings.TrimPrefix(need.RabbitMQ(t), "amqp://")
	p := proxy(at)
	return func(through bool) (broker.Broker, error) {
		if through {
			at = p.Addr()
		}
		return rabbitbroker.New(at, nil)
	}
}

func natsThrough(t *testing.T, proxy func(string) *need.Proxy) opener {
	at := strings.TrimPrefix(need.NATS(t), "nats://")
	p := proxy(at)
	return func(through bool) (broker.Broker, error) {
		if through {
			at = p.Addr()
		}
		return natsbroker.New(at, nil)
	}
}

func onBroker(t *testing.T, topic string, open opener) stations {
	direct, err := open(false)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = direct.Close() })
	makeTopic(t, direct, topic)
	bus, err := open(true)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = bus.Close() })
	return on[*memstore.Tx]("the broker", topic, memstore.New(nil), bus)
}

func makeTopic(t *testing.T, bus broker.TopicMaker, topic string) {
	t.Helper()
	if err := bus.MakeTopics(t.Context(), 1, topic); err != nil {
		t.Fatal(err)
	}
}

// The database is dropped while its stations run.
func TestMissingDatabaseIsReported(t *testing.T) {
	at, err := url.Parse(need.Postgres(t))
	if err != nil {
		t.Fatal(err)
	}
	name := "out" + strings.ToLower(rand.Text()[:10])
	admin, err := pgxpool.New(t.Context(), at.String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(admin.Close)
	do := func(ctx context.Context, sql string) {
		t.Helper()
		if _, err := admin.Exec(ctx, sql); err != nil {
			t.Fatal(err)
		}
	}
	do(t.Context(), "CREATE DATABASE "+name)
	drop := "DROP DATABASE IF EXISTS " + name + " WITH (FORCE)"
	t.Cleanup(func() { do(context.Background(), drop) })
	at.Path = "/" + name
	pool, err := pgxpool.New(t.Context(), at.String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	if _, err := pgstore.Migrate(t.Context(), pool, nil); err != nil {
		t.Fatal(err)
	}
	bus := membroker.New(nil)
	makeTopic(t, bus, name)
	s := on[pgx.Tx]("the database", name, pgstore.New(pool, &pgstore.Options{Patience: 2 * time.Second}), bus)
	h := s.run(t)
	s.report(t, h, 200, "")
	do(t.Context(), drop)
	s.report(t, h, 503, `database "`+name+`" does not exist`)
}

// Behind a link that carries nothing any more, each call of a driver ends with its context.
func TestCallsEndWithTheirContext(t *testing.T) {
	for name, through := range openers() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var p *need.Proxy
			open := through(t, func(at string) *need.Proxy {
				p = need.NewProxy(t, at)
				return p
			})
			topic := "out" + strings.ToLower(rand.Text()[:10])
			direct, err := open(false)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = direct.Close() })
			makeTopic(t, direct, topic)
			bus, err := open(true)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = bus.Close() })
			g := broker.Group{Name: topic + "-group", Topics: []string{topic}}
			sub, err := bus.Subscribe(t.Context(), g)
			if err != nil {
				t.Fatal(err)
			}
			ms := []skald.Message{{ID: "1", Source: "/s", Type: "t", Topic: topic, Key: []byte("k")}}
			if err := bus.Publish(t.Context(), ms).Wait(t.Context()); err != nil {
				t.Fatal(err)
			}
			var got []broker.Delivery
			for end := time.Now().Add(soon); len(got) == 0; time.Sleep(10 * time.Millisecond) {
				b, err := sub.Receive(t.Context(), 10)
				if got = b.Deliveries; err != nil || time.Now().After(end) {
					t.Fatalf("receive: %v", err)
				}
			}
			p.Set(need.Swallow)
			for _, c := range swallowed(bus, sub, g, ms, got) {
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				ended := make(chan error, 1)
				go func() { ended <- c.call(ctx) }()
				select {
				case err := <-ended:
					if err == nil && c.asks {
						t.Errorf("%s: nobody answered, and there is no error", c.name)
					}
				case <-time.After(soon):
					t.Errorf("%s does not end with its context", c.name)
				}
				cancel()
			}
		})
	}
}

type swallowedCall struct {
	name string
	asks bool // needs an answer
	call func(context.Context) error
}

func swallowed(bus broker.Broker, sub broker.Subscription, g broker.Group, ms []skald.Message,
	got []broker.Delivery) []swallowedCall {
	return []swallowedCall{
		{"Receive", false, func(ctx context.Context) error { _, err := sub.Receive(ctx, 10); return err }},
		{"Ack", false, func(ctx context.Context) error { return sub.Ack(ctx, got) }},
		{"Publish", true, func(ctx context.Context) error { return bus.Publish(ctx, ms).Wait(ctx) }},
		{"Topics", false, func(ctx context.Context) error {
			_, err := bus.Topics(ctx, g.Topics...)
			return err
		}},
		{"Incarnation", true, func(ctx context.Context) error {
			_, err := bus.Incarnation(ctx)
			return err
		}},
		{"Lag", true, func(ctx context.Context) error {
			_, err := bus.Lag(ctx, g.Name, g.Topics...)
			return err
		}},
		{"Subscribe", true, func(ctx context.Context) error {
			again := g
			again.Name += "-again"
			_, err := bus.Subscribe(ctx, again)
			return err
		}},
		{"Close", false, func(ctx context.Context) error { return sub.Close(ctx) }},
	}
}
