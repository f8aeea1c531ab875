package deploy

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	otelprom "go.opentelemetry.io/otel/exporters/prometheus"
	"go.opentelemetry.io/otel/sdk/metric"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/broker"
	"github.com/skald-go/skald/broker/membroker"
	"github.com/skald-go/skald/inbox"
	"github.com/skald-go/skald/outbox"
	"github.com/skald-go/skald/relay"
	"github.com/skald-go/skald/store"
	"github.com/skald-go/skald/store/memstore"
)

// A world is three processes on one database and one broker, each scraped: one writes, one relays, one consumes.
type world struct {
	t    *testing.T
	prom *prom
	bus  *bus
	db   *memstore.Store

	dbAhead  atomic.Int64                  // of the database's clock
	ahead    atomic.Int64                  // of the clock by which the stations ask the database no more than every 30 s
	stalled  atomic.Bool                   // retention fails
	bad      atomic.Bool                   // the handler fails
	hopeless atomic.Bool                   // for good
	silent   atomic.Bool                   // the provider that the consumer asks does not answer
	gate     atomic.Pointer[chan struct{}] // that the handler waits at
	consumer *inbox.Inbox[*memstore.Tx]

	running map[string]*process
}

// A process has metrics of its own.
type process struct {
	metrics *prometheus.Registry
	meters  *metric.MeterProvider
	kill    func()
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{t: t, prom: newProm(t), bus: &bus{Broker: membroker.New(nil)}, running: map[string]*process{}}
	w.db = memstore.New(&memstore.Options{Source: "/shop", Now: func() time.Time { return time.Now().Add(time.Duration(w.dbAhead.Load())) }})
	if err := w.bus.MakeTopics(t.Context(), 4, "orders"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.stopAll)
	w.startAll()
	return w
}

func (w *world) startAll() {
	w.start("writer", func(p *process, _ *memstore.Store) skald.Runner {
		return outbox.NewWatch(w.db, &outbox.Options{MeterProvider: p.meters, Now: w.now})
	})
	w.startRelay()
	w.startConsumer()
	w.until("the relay has all lanes", func() bool { return w.backlog().Free == 0 })
}

const (
	maxHeld = 8 // deliveries of a lane that the consumer has in memory before it pauses
	least   = 6 // messages that fail in one way before it stops
)

func (w *world) startConsumer() {
	w.start("consumer", func(p *process, s *memstore.Store) skald.Runner {
		w.consumer = inbox.New[*memstore.Tx](s, w.bus.Broker, "billing", &inbox.Options{MeterProvider: p.meters, Now: w.now, Logger: quiet(), MaxHeld: maxHeld, Handle: time.Hour,
			Breaker: inbox.Breaker{Least: least, Rest: 100 * time.Millisecond}})
		w.consumer.Handle("orders", "order.placed", w.handle)
		inbox.OnCall(w.consumer, paid, w.call())
		return w.consumer
	})
}

func (w *world) handle(ctx context.Context, _ *memstore.Tx, _ skald.Message) error {
	if gate := w.gate.Load(); gate != nil {
		select {
		case <-*gate:
		case <-ctx.Done():
		}
	}
	switch {
	case w.hopeless.Load():
		return skald.Permanent(errors.New("no such customer"))
	case w.bad.Load():
		return errors.New("no price for this order")
	}
	return ctx.Err()
}

// paid is what the consumer asks somebody outside for.
var paid = skald.Event[string]{Topic: "orders", Type: "order.paid"}

func (w *world) call() inbox.Call[*memstore.Tx, string, string, string] {
	answer := func(context.Context, string, string) (string, error) {
		if w.silent.Load() {
			return "", errors.New("no answer")
		}
		return "done", nil
	}
	return inbox.Call[*memstore.Tx, string, string, string]{
		At: inbox.NewProvider("bank", &inbox.ProviderOptions{Rest: 100 * time.Millisecond}),
		Intent: func(_ context.Context, _ *memstore.Tx, m skald.Received[string]) (string, string, error) {
			return m.Value, "call-" + m.ID, nil
		},
		Do:     answer,
		Settle: func(context.Context, *memstore.Tx, skald.Received[string], inbox.Outcome[string]) error { return nil },
	}
}

// pay says that something is to be asked for outside.
func (w *world) pay() {
	w.t.Helper()
	w.tell(paid.New("43", "an order"), &outbox.Options{})
}

// kept is what is kept for the consumer.
func (w *world) kept() (k store.Kept) {
	w.t.Helper()
	for _, one := range w.backlog().Kept {
		if one.Consumer == "billing" {
			k = one
		}
	}
	return k
}

// redrive has dead letters tried again, as skald dead redrive does.
func (w *world) redrive() {
	w.t.Helper()
	list, err := w.db.Kept(w.t.Context(), store.Sought{Consumer: "billing"}, 10)
	if err != nil {
		w.t.Fatal(err)
	}
	for _, p := range list {
		if _, err := w.db.Apply(w.t.Context(), store.Effect{Release: &store.Release{Consumer: p.Consumer, Identity: p.Identity}}); err != nil {
			w.t.Fatal(err)
		}
	}
}

// admit has what is in quarantine taken, as skald inbox admit does.
func (w *world) admit() {
	w.t.Helper()
	list, err := w.db.Quarantined(w.t.Context(), store.Query{})
	if err != nil || len(list) != 1 {
		w.t.Fatalf("%d in quarantine: %v", len(list), err)
	}
	if _, err := w.db.Admit(w.t.Context(), []int64{list[0].Number}, "me", "looked at it"); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) maintain() {
	w.t.Helper()
	if _, err := w.db.Maintain(w.t.Context(), store.Retention{}); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) startRelay() {
	w.start("relay", func(p *process, s *memstore.Store) skald.Runner {
		return relay.New(source{s, w}, w.bus, &relay.Options{MeterProvider: p.meters, Logger: quiet(), AsideFirst: 50 * time.Millisecond})
	})
}

func quiet() *slog.Logger { return slog.New(slog.DiscardHandler) }

// now makes every scrape ask the database anew.
func (w *world) now() time.Time { return time.Now().Add(time.Duration(w.ahead.Load())) }

// start runs a process on a session of its own.
func (w *world) start(name string, make func(*process, *memstore.Store) skald.Runner) {
	w.t.Helper()
	reg := prometheus.NewRegistry()
	exporter, err := otelprom.New(otelprom.WithRegisterer(reg), otelprom.WithoutScopeInfo(), otelprom.WithoutTargetInfo())
	if err != nil {
		w.t.Fatal(err)
	}
	p := &process{metrics: reg, meters: metric.NewMeterProvider(metric.WithReader(exporter))}
	session := w.db.Session()
	runner := make(p, session)
	ctx, stop := context.WithCancel(context.Background())
	ended := startRunner(ctx, runner)
	p.kill = func() {
		session.Kill() // like kill -9: nothing is given back
		stop()
		<-ended
	}
	w.running[name] = p
}

func startRunner(ctx context.Context, r skald.Runner) <-chan error {
	ended := make(chan error, 1)
	go func() { ended <- r.Run(ctx) }()
	return ended
}

func (w *world) stop(name string) {
	w.running[name].kill()
	delete(w.running, name)
}

func (w *world) stopAll() {
	for name := range w.running {
		w.stop(name)
	}
}

// say writes a message as the writer; written says how long ago by its clock.
func (w *world) say(topic string, written time.Duration) {
	w.t.Helper()
	w.write(topic, "42", "an order", &outbox.Options{Now: func() time.Time { return time.Now().Add(-written) }})
}

// sayAs writes a message under an id.
func (w *world) sayAs(id, order string) {
	w.t.Helper()
	w.write("orders", "42", order, &outbox.Options{NewID: func(time.Time) string { return id }})
}

// sayOf writes a message of that key.
func (w *world) sayOf(key string) {
	w.t.Helper()
	w.write("orders", key, "an order", &outbox.Options{})
}

func (w *world) write(topic, key, order string, o *outbox.Options) {
	w.t.Helper()
	placed := skald.Event[string]{Topic: topic, Type: "order.placed"}
	w.tell(placed.New(key, order), o)
}

func (w *world) tell(d skald.Draft, o *outbox.Options) {
	w.t.Helper()
	if p := w.running["writer"]; p != nil {
		o.MeterProvider = p.meters
	}
	tx := w.db.BeginTx()
	if err := outbox.New[*memstore.Tx](w.db, o).Write(w.t.Context(), tx, d); err != nil {
		w.t.Fatal(err)
	}
	if err := tx.Commit(); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) backlog() store.Backlog {
	w.t.Helper()
	b, err := w.db.Backlog(w.t.Context())
	if err != nil {
		w.t.Fatal(err)
	}
	return b
}

// until waits until it is so.
func (w *world) until(what string, so func() bool) {
	w.t.Helper()
	deadline := time.Now().Add(5 * time.Minute)
	for !so() {
		if time.Now().After(deadline) {
			w.t.Fatalf("after five minutes it is not so that %s", what)
		}
		w.breathe()
	}
}

// breathe lets others work before the next look.
func (w *world) breathe() {
	select {
	case <-w.t.Context().Done():
	case <-time.After(5 * time.Millisecond):
	}
}

// pass lets Prometheus' time pass, and says what fires at its end.
func (w *world) pass(d time.Duration) map[string]bool {
	w.t.Helper()
	if w.running["relay"] != nil { // on a slow machine its lease may be over, which an alert is about
		w.until("the relay has all lanes", func() bool { return w.backlog().Free == 0 })
	}
	var firing map[string]bool
	for end := w.prom.now.Add(d); w.prom.now.Before(end); {
		w.prom.now = w.prom.now.Add(scrapeEvery)
		w.ahead.Add(int64(time.Minute))
		for _, name := range []string{"writer", "relay", "consumer"} {
			p := w.running[name]
			if p == nil {
				w.prom.scrape(name, nil)
				continue
			}
			families, err := p.metrics.Gather()
			if err != nil {
				w.t.Fatal(err)
			}
			w.prom.scrape(name, families)
		}
		firing = w.prom.evaluate()
	}
	return firing
}

// source is the relay's database, whose retention may fail.
type source struct {
	*memstore.Store
	w *world
}

func (s source) Maintain(ctx context.Context, keep store.Retention) (store.Maintained, error) {
	if s.w.stalled.Load() {
		return store.Maintained{Left: []string{"skald_outbox_3: canceling statement due to lock timeout"}}, nil
	}
	return s.Store.Maintain(ctx, keep)
}

// bus is a broker that may be away.
type bus struct {
	*membroker.Broker
	away atomic.Bool
}

func (b *bus) Publish(ctx context.Context, msgs []skald.Message, only ...broker.Topics) broker.Pending {
	if b.away.Load() {
		return unanswered{}
	}
	return b.Broker.Publish(ctx, msgs, only...)
}

type unanswered struct{}

func (unanswered) Done() <-chan struct{} {
	done := make(chan struct{})
	close(done)
	return done
}

func (unanswered) Wait(context.Context) error { return broker.ErrAway }
