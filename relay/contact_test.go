package relay_test

import (
	"context"
	"crypto/rand"
	"fmt"
	"io"
	"log/slog"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl/plain"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/broker"
	"github.com/skald-go/skald/broker/kafkabroker"
	"github.com/skald-go/skald/broker/membroker"
	"github.com/skald-go/skald/broker/natsbroker"
	"github.com/skald-go/skald/broker/rabbitbroker"
	"github.com/skald-go/skald/internal/need"
	"github.com/skald-go/skald/outbox"
	"github.com/skald-go/skald/relay"
	"github.com/skald-go/skald/store"
	"github.com/skald-go/skald/store/memstore"
	"github.com/skald-go/skald/store/pgstore"
)

// gate is a proxy of a server. It passes connections on, refuses them, or accepts them without answers.
type gate struct {
	address string
	mode    atomic.Int32
	mu      sync.Mutex
	conns   map[net.Conn]bool
}

const (
	passes int32 = iota
	refuses
	swallows
)

func newGate(t *testing.T, target string) *gate {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	g := &gate{address: l.Addr().String(), conns: map[net.Conn]bool{}}
	t.Cleanup(func() {
		_ = l.Close()
		g.turn(refuses)
	})
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go g.carry(c, target)
		}
	}()
	return g
}

// turn changes the mode. The mode that refuses closes open connections; the mode without answers leaves them
// open.
func (g *gate) turn(mode int32) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.mode.Store(mode)
	for c := range g.conns {
		if mode == refuses {
			_ = c.Close()
		}
	}
}

func (g *gate) carry(c net.Conn, target string) {
	defer func() { _ = c.Close() }()
	if g.mode.Load() == refuses {
		return
	}
	server, err := net.Dial("tcp", target)
	if err != nil {
		return
	}
	defer func() { _ = server.Close() }()
	g.mu.Lock()
	g.conns[c], g.conns[server] = true, true
	g.mu.Unlock()
	go g.copy(c, server)
	g.copy(server, c)
}

func (g *gate) copy(to io.WriteCloser, from io.Reader) {
	defer func() { _ = to.Close() }()
	buf := make([]byte, 32<<10)
	for {
		n, err := from.Read(buf)
		if err != nil {
			return
		}
		if g.mode.Load() == swallows {
			continue
		}
		if _, err := to.Write(buf[:n]); err != nil {
			return
		}
	}
}

// cutBroker is a kind of broker. It has functions that open a good client, and clients with several kinds of
// bad connections.
type cutBroker struct {
	topics func(t *testing.T) broker.Broker
	well   func(t *testing.T) broker.Broker
	cut    map[string]func(t *testing.T) (bus broker.Broker, cut func())
}

func opened[B broker.Broker](t *testing.T, b B, err error) broker.Broker {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = b.Close() })
	return b
}

// gated returns a kind of broker. Its bad clients connect through a gate.
func gated(target string, open func(t *testing.T, address string) broker.Broker) cutBroker {
	through := func(mode int32) func(t *testing.T) (broker.Broker, func()) {
		return func(t *testing.T) (broker.Broker, func()) {
			g := newGate(t, target)
			return open(t, g.address), func() { g.turn(mode) }
		}
	}
	direct := func(t *testing.T) broker.Broker { return open(t, target) }
	return cutBroker{topics: direct, well: direct, cut: map[string]func(*testing.T) (broker.Broker, func()){
		"refused": through(refuses), "swallowed": through(swallows)}}
}

const cutPatience = time.Second

func cutBrokers(t *testing.T) map[string]cutBroker {
	open, guarded := need.GuardedKafka(t)
	kafka := func(o kafkabroker.Options) func(t *testing.T, address string) broker.Broker {
		return func(t *testing.T, address string) broker.Broker {
			o.Patience, o.Replicas = cutPatience, 1
			b, err := kafkabroker.New(address, &o)
			return opened(t, b, err)
		}
	}
	k := gated(open, kafka(kafkabroker.Options{}))
	for how, open := range k.cut { // Kafka advertises its own address, so clients bypass the gate later
		k.cut[how] = func(t *testing.T) (broker.Broker, func()) {
			bus, cut := open(t)
			cut()
			return bus, cut
		}
	}
	k.cut["wrong password"] = func(t *testing.T) (broker.Broker, func()) {
		wrong := kgo.SASL(plain.Auth{User: "nobody", Pass: "wrong"}.AsMechanism())
		return kafka(kafkabroker.Options{Client: []kgo.Opt{wrong}})(t, guarded.SASL), func() {}
	}
	return map[string]cutBroker{"kafka": k,
		"nats": gated(strings.TrimPrefix(need.NATS(t), "nats://"), func(t *testing.T,
			at string) broker.Broker {
			b, err := natsbroker.New(at, &natsbroker.Options{Patience: cutPatience})
			return opened(t, b, err)
		}),
		"rabbitmq": gated(strings.TrimPrefix(need.RabbitMQ(t), "amqp://"), func(t *testing.T,
			at string) broker.Broker {
			b, err := rabbitbroker.New(at, &rabbitbroker.Options{Patience: cutPatience})
			return opened(t, b, err)
		})}
}

// TestRelayWithoutItsBroker runs two relays of one outbox, one of them without its broker, started in any
// order. All rows are published while both run, and the database names the relay without a broker.
func TestRelayWithoutItsBroker(t *testing.T) {
	url := need.Postgres(t)
	for kind, b := range cutBrokers(t) {
		for how, open := range b.cut {
			for _, first := range []string{"cut", "well", "both"} {
				if kind == "kafka" && first == "both" {
					continue // see cutBrokers
				}
				t.Run(kind+"/"+how+"/"+first+" first", func(t *testing.T) {
					t.Parallel()
					c := newCutWorld(t, url, b)
					bus, cut := open(t)
					if first != "both" {
						cut()
					}
					starts := []string{"cut", "well"}
					if first == "well" {
						starts = []string{"well", "cut"}
					}
					for _, name := range starts {
						c.start(name, map[string]broker.Broker{"cut": bus, "well": b.well(t)}[name])
						c.until("it leased what it may",
							func() bool { return first != "both" || c.holds(name) > 0 })
					}
					cut()
					c.write(100)
					c.until("all rows are published", func() bool { return c.backlog().Pending == 0 })
					c.until("the relay without a broker is named, and owns no shard", func() bool {
						rs := c.backlog().Relays
						return len(rs) == 2 && rs[0].Owner == "cut" && rs[0].BrokerAway > 0 &&
							rs[0].Shards == 0 && rs[1].BrokerAway == 0
					})
				})
			}
		}
	}
}

// cutWorld is an outbox on PostgreSQL with its relays.
type cutWorld struct {
	t      *testing.T
	pool   *pgxpool.Pool
	store  *pgstore.Store
	schema string
	topic  string
	relays map[string]*relay.Relay
}

func newCutWorld(t *testing.T, url string, b cutBroker) *cutWorld {
	ctx := context.Background()
	c := &cutWorld{t: t, schema: "cut_" + strings.ToLower(rand.Text()[:10]),
		relays: map[string]*relay.Relay{}}
	c.topic = c.schema
	var err error
	if c.pool, err = pgxpool.New(ctx, url); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_, _ = c.pool.Exec(ctx, "DROP SCHEMA IF EXISTS "+c.schema+" CASCADE")
		c.pool.Close()
	})
	if _, err := pgstore.Migrate(ctx, c.pool, &pgstore.MigrateOptions{Schema: c.schema}); err != nil {
		t.Fatal(err)
	}
	c.store = pgstore.New(c.pool, &pgstore.Options{Schema: c.schema})
	if err := b.topics(t).MakeTopics(ctx, 2, c.topic); err != nil {
		t.Fatal(err)
	}
	return c
}

func (c *cutWorld) start(name string, bus broker.Broker) {
	r := relay.New(c.store, bus, (&relay.Options{Owner: name, Drain: 10 * time.Millisecond,
		Logger: slog.New(slog.DiscardHandler)}).GiveBackAfter(cutPatience))
	c.relays[name] = r
	ctx, cancel := context.WithCancel(context.Background())
	var done sync.WaitGroup
	done.Go(func() {
		if err := r.Run(ctx); err != nil {
			c.t.Error(err)
		}
	})
	c.t.Cleanup(func() { cancel(); done.Wait() })
}

func (c *cutWorld) write(n int) {
	c.t.Helper()
	tx, err := c.pool.Begin(c.t.Context())
	if err != nil {
		c.t.Fatal(err)
	}
	out := outbox.New(c.store, nil)
	for i := range n {
		err := out.Write(c.t.Context(), tx, skald.Draft{Topic: c.topic, Type: "said", Value: i,
			Key: fmt.Appendf(nil, "k%d", i%50)})
		if err != nil {
			c.t.Fatal(err)
		}
	}
	if err := tx.Commit(c.t.Context()); err != nil {
		c.t.Fatal(err)
	}
}

func (c *cutWorld) holds(name string) int { return c.relays[name].Health().Shards }

func (c *cutWorld) backlog() store.Backlog {
	c.t.Helper()
	b, err := store.ReadBacklog(c.t.Context(), c.store)
	if err != nil {
		c.t.Fatal(err)
	}
	return b
}

func (c *cutWorld) until(what string, so func() bool) {
	c.t.Helper()
	for end := time.Now().Add(time.Minute); !so(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			c.t.Fatalf("never: %s; relays %+v, backlog %+v", what, c.relays["cut"].Health(), c.backlog())
		}
	}
}

// mute is a broker that publishes messages and loses the answers.
type mute struct {
	*membroker.Broker
	is atomic.Bool
}

type never struct{}

func (never) Done() <-chan struct{} { return nil }

func (never) Wait(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }

func (m *mute) Publish(ctx context.Context, msgs []skald.Message, only ...broker.Topics) broker.Pending {
	if p := m.Broker.Publish(ctx, msgs, only...); !m.is.Load() {
		return p
	}
	return never{}
}

func (m *mute) Incarnation(ctx context.Context) (string, error) {
	if m.is.Load() {
		return "", broker.ErrUnavailable
	}
	return m.Broker.Incarnation(ctx)
}

// TestOrderWhenARelayYields checks that a relay that gets no answers gives its shards to other relays. When a
// row arrives for the first time, all earlier rows of its key have arrived.
func TestOrderWhenARelayYields(t *testing.T) {
	w := newWorld(t, "orders")
	w.db = memstore.New(nil)
	w.out = outbox.New(w.db, nil)
	bad := &mute{Broker: w.mem}
	var done sync.WaitGroup
	ctx, cancel := context.WithCancel(t.Context())
	relays := map[string]*relay.Relay{}
	for name, bus := range map[string]broker.Publisher{"bad": bad, "well": w.mem} {
		o := &relay.Options{Owner: name, TTL: 600 * time.Millisecond, Drain: time.Millisecond,
			Logger: slog.New(slog.DiscardHandler)}
		r := relay.New(w.db, bus, o.GiveBackAfter(100*time.Millisecond))
		relays[name] = r
		done.Go(func() { _ = r.Run(ctx) })
	}
	defer done.Wait()
	defer cancel()
	sub, err := w.mem.Subscribe(ctx, broker.Group{Name: "g", Topics: []string{"orders"}})
	if err != nil {
		t.Fatal(err)
	}
	const keys, rounds = 20, 60
	said := 0
	for round := range rounds {
		for key := range keys {
			w.write("orders", fmt.Sprintf("k%d", key), fmt.Sprint(round))
			said++
		}
		if bad.is.Store(round%30 > 10 && relays["bad"].Health().Published > 0); round%10 == 0 {
			time.Sleep(50 * time.Millisecond)
		}
	}
	next, come := map[string]int{}, 0
	end := time.Now().Add(time.Minute)
	for ; come < said && time.Now().Before(end); time.Sleep(time.Millisecond) {
		batch, err := sub.Receive(ctx, 1000)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range batch.Deliveries {
			var n int
			if _, err := fmt.Sscanf(string(d.Data), `"%d"`, &n); err != nil {
				t.Fatalf("%s: %v", d.Data, err)
			}
			switch key := string(d.Key); {
			case n > next[key]:
				t.Fatalf("%s: number %d arrives before %d", key, n, next[key])
			case n == next[key]:
				next[key]++
				come++
			}
		}
		if err := sub.Ack(ctx, batch.Deliveries); err != nil {
			t.Fatal(err)
		}
	}
	if come < said {
		t.Fatalf("%d of %d messages arrived; bad: %+v, well: %+v", come, said, relays["bad"].Health(),
			relays["well"].Health())
	}
}
