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

// soon bounds what docs/operations.md has happen within 12 s: this machine may do much else.
const soon = 3 * time.Minute

// The table of docs/operations.md: each server behind a proxy that swallows, refuses or answers wrongly. Each
// station stays live, is not ready, says why in one line, and is ready again once the server is.
func TestOutagesAreReported(t *testing.T) {
	type open func(t *testing.T, topic string, proxy func(string) *need.Proxy) stations
	for name, server := range map[string]open{
		"PostgreSQL": onPostgres, "Kafka": onKafka, "RabbitMQ": onRabbitMQ, "NATS": onNATS,
	} {
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
				s.report(t, h, 503, s.what+" does not answer since")
				p.Set(need.Pass)
				s.report(t, h, 200, "")
			})
		}
	}
}

// stations of one process, with a server behind a proxy.
type stations struct {
	what string // the server, as Why has it
	run  func(t *testing.T) *health.Handler
}

// report waits until the handler answers code, with why in a line of each station that has the server. All
// stations stay live.
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

// lines are how many stations have the server: an engine has no broker.
func (s stations) lines() int {
	if s.what == "the database" {
		return 3
	}
	return 2
}

// on are an inbox, a relay and an engine over db and bus.
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
		h := health.New(nil)
		h.AddInbox("inbox", in)
		h.AddRelay("relay", r)
		h.AddEngine("engine", e)
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

func onKafka(t *testing.T, topic string, proxy func(string) *need.Proxy) stations {
	at := need.Kafka(t)
	p := proxy(at)
	return onBroker(t, topic, func(through bool) (broker.Broker, error) {
		if !through {
			return kafkabroker.New(at, nil)
		}
		dial := func(ctx context.Context, network, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, network, p.Addr())
		}
		return kafkabroker.New(at, &kafkabroker.Options{Client: []kgo.Opt{kgo.Dialer(dial)}})
	})
}

func onRabbitMQ(t *testing.T, topic string, proxy func(string) *need.Proxy) stations {
	at := strings.TrimPrefix(need.RabbitMQ(t), "amqp://")
	p := proxy(at)
	return onBroker(t, topic, func(through bool) (broker.Broker, error) {
		if through {
			at = p.Addr()
		}
		return rabbitbroker.New(at, nil)
	})
}

func onNATS(t *testing.T, topic string, proxy func(string) *need.Proxy) stations {
	at := strings.TrimPrefix(need.NATS(t), "nats://")
	p := proxy(at)
	return onBroker(t, topic, func(through bool) (broker.Broker, error) {
		if through {
			at = p.Addr()
		}
		return natsbroker.New(at, nil)
	})
}

func onBroker(t *testing.T, topic string, open func(through bool) (broker.Broker, error)) stations {
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
