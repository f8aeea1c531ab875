package deploy

import (
	"context"
	"crypto/rand"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel"
	otelprom "go.opentelemetry.io/otel/exporters/prometheus"
	"go.opentelemetry.io/otel/sdk/metric"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/broker"
	"github.com/skald-go/skald/broker/membroker"
	"github.com/skald-go/skald/call"
	"github.com/skald-go/skald/flow"
	"github.com/skald-go/skald/httpidem"
	"github.com/skald-go/skald/inbox"
	"github.com/skald-go/skald/once"
	"github.com/skald-go/skald/outbox"
	"github.com/skald-go/skald/rediscache"
	"github.com/skald-go/skald/rediscmd"
	"github.com/skald-go/skald/relay"
	"github.com/skald-go/skald/saga"
	"github.com/skald-go/skald/store"
	"github.com/skald-go/skald/store/memstore"
)

// A world is three processes on one database and one broker, each scraped: one writes, one relays, one
// consumes.
type world struct {
	t    *testing.T
	prom *prom
	bus  *bus
	db   *memstore.Store

	dbAhead atomic.Int64 // of the database's clock
	// of the clock by which the stations ask the database no more than every 30 s
	ahead       atomic.Int64
	relayAhead  atomic.Int64                  // of the relay's clock
	stalled     atomic.Bool                   // retention fails
	deaf        atomic.Bool                   // the slot of the relay is away
	uncountable atomic.Bool                   // sagas cannot be counted
	bad         atomic.Bool                   // the handler fails
	hopeless    atomic.Bool                   // for good
	silent      atomic.Bool                   // the provider that the consumer asks does not answer
	gate        atomic.Pointer[chan struct{}] // that the handler waits at
	consumer    *inbox.Inbox[*memstore.Tx]

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
	w.db = memstore.New(&memstore.Options{Source: "/shop",
		Now: func() time.Time { return time.Now().Add(time.Duration(w.dbAhead.Load())) }})
	if err := w.bus.MakeTopics(t.Context(), 4, "orders"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.stopAll)
	w.startAll()
	return w
}

func (w *world) startAll() {
	w.start("writer", func(p *process, _ *memstore.Store) skald.Runner {
		return outbox.NewWatch(source{w.db, w}, &outbox.Options{MeterProvider: p.meters, Now: w.now})
	})
	w.startRelay()
	w.startConsumer()
	w.startEngine()
	w.until("the relay has all shards", func() bool { return w.backlog().Free == 0 })
}

// noRedis is a Redis that is away.
type noRedis struct{}

func (noRedis) Do(context.Context, [][]string) ([]rediscmd.Reply, error) {
	return nil, errors.New("away")
}

const (
	maxHeld = 8 // deliveries of a shard that the consumer has in memory before it pauses
	least   = 6 // messages that fail in one way before it stops
)

func (w *world) startConsumer() {
	w.start("consumer", func(p *process, s *memstore.Store) skald.Runner {
		cache, err := rediscache.New(noRedis{},
			&rediscache.Options{MeterProvider: p.meters, Guard: rediscmd.GuardOptions{Logger: quiet()}})
		if err != nil {
			w.t.Fatal(err)
		}
		w.consumer = inbox.New[*memstore.Tx](s, w.bus.Broker, "billing",
			&inbox.Options{Cache: inbox.Cache{Finished: cache}, MeterProvider: p.meters, Now: w.now,
				Logger: quiet(), Limits: inbox.Limits{Unacknowledged: maxHeld},
				Timeouts: inbox.Timeouts{Handle: time.Hour},
				Breaker:  inbox.Breaker{Least: least, Rest: 100 * time.Millisecond}})
		w.consumer.Handle("orders", "order.placed", w.handle)
		inbox.OnCall(w.consumer, paid, w.call())
		return w.consumer
	})
}

// startEngine starts an engine, and a saga that is soon done.
func (w *world) startEngine() {
	w.t.Helper()
	ok := func(context.Context, *memstore.Tx, saga.Run[string]) (string, error) { return "", nil }
	greeting := saga.New("greeting", &saga.Options[string]{Key: func(s string) string { return s }},
		saga.Do("greet", ok, nil, saga.NoEffect()))
	var e *saga.Engine[*memstore.Tx]
	w.start("engine", func(p *process, s *memstore.Store) skald.Runner {
		var err error
		if e, err = saga.NewEngine(s, &saga.EngineOptions{MeterProvider: p.meters, Logger: quiet()},
			greeting); err != nil {
			w.t.Fatal(err)
		}
		return e
	})
	tx := w.db.BeginTx()
	if _, err := saga.Bind(e, greeting).Start(w.t.Context(), tx, time.Now().String()); err != nil {
		w.t.Fatal(err)
	}
	if err := tx.Commit(); err != nil {
		w.t.Fatal(err)
	}
	w.until("the saga is done", func() bool { return e.Health().Done > 0 })
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

func (w *world) call() call.Call[*memstore.Tx, string, string, string] {
	answer := func(context.Context, string, string) (string, error) {
		if w.silent.Load() {
			return "", errors.New("no answer")
		}
		return "done", nil
	}
	return call.Call[*memstore.Tx, string, string, string]{
		At: call.NewProvider("bank", &call.ProviderOptions{Rest: 100 * time.Millisecond}),
		Intent: func(_ context.Context, _ *memstore.Tx, m skald.Received[string]) (string, string, error) {
			return m.Value, "call-" + m.ID, nil
		},
		Do: answer,
		Settle: func(context.Context, *memstore.Tx, skald.Received[string], call.Outcome[string]) error {
			return nil
		},
	}
}

// pay says that something is to be asked for outside.
func (w *world) pay() {
	w.t.Helper()
	w.tell(paid.New("43", "an order"), &outbox.Options{})
}

// kept is what is kept for the consumer.
func (w *world) kept() (k store.ConsumerBacklog) {
	w.t.Helper()
	for _, one := range w.backlog().PerConsumer {
		if one.Consumer == "billing" {
			k = one
		}
	}
	return k
}

// redrive has dead letters tried again, as skald dead redrive does.
func (w *world) redrive() {
	w.t.Helper()
	list, err := store.ListParked(w.t.Context(), w.db, store.ParkedQuery{Consumer: "billing", Limit: 10})
	if err != nil {
		w.t.Fatal(err)
	}
	for _, p := range list {
		if _, err := w.db.Apply(w.t.Context(),
			store.Effect{Requeue: &store.Requeue{Consumer: p.Consumer, Identity: p.Identity}}); err != nil {
			w.t.Fatal(err)
		}
	}
}

// quarantine has n messages of a consumer elsewhere in conflict.
func (w *world) quarantine(n int) {
	w.t.Helper()
	for i := range n {
		m := skald.Message{ID: strconv.Itoa(i), Source: "/shop", Topic: "orders", Type: "order.placed"}
		if _, err := w.db.Apply(w.t.Context(), store.Effect{Quarantine: &store.Quarantined{Consumer: "elsewhere",
			Identity: store.Identity{Source: m.Source, ID: m.ID}, Why: store.Conflict, Message: m}}); err != nil {
			w.t.Fatal(err)
		}
	}
}

// admit has what is in quarantine taken, as skald inbox admit does.
func (w *world) admit() {
	w.t.Helper()
	var numbers []int64
	for q := (store.QuarantineQuery{Limit: 1000}); ; {
		list, err := store.ListQuarantined(w.t.Context(), w.db, q)
		if err != nil {
			w.t.Fatal(err)
		}
		if len(list) == 0 {
			break
		}
		for _, one := range list {
			numbers = append(numbers, one.Number)
		}
		q.After = numbers[len(numbers)-1]
	}
	if len(numbers) == 0 {
		w.t.Fatal("nothing is in quarantine")
	}
	if _, err := store.AdmitAll(w.t.Context(), w.db, numbers, "me", "looked at it"); err != nil {
		w.t.Fatal(err)
	}
}

// reserve takes a key for work outside of a transaction.
func (w *world) reserve(token string, lease time.Duration) store.Reservation {
	w.t.Helper()
	r := store.Reservation{Consumer: "http:legacy", Identity: store.Identity{ID: "k"}, Token: token,
		Lease: lease}
	if got, err := w.db.Reserve(w.t.Context(), r); err != nil || got.Rival {
		w.t.Fatalf("reserve: %+v, %v", got, err)
	}
	return r
}

// serve has the writer's process answer a request, and do work once.
func (w *world) serve() {
	w.t.Helper()
	meters := w.running["writer"].meters
	otel.SetMeterProvider(meters)
	h := httpidem.Handle(w.db, "orders", httpidem.OneTenant, &httpidem.Options{MeterProvider: meters},
		func(context.Context, *memstore.Tx, httpidem.Request[struct{}]) (httpidem.Reply[string], error) {
			return httpidem.OK("done"), nil
		})
	r, answer := httptest.NewRequest(http.MethodPost, "/orders", nil), httptest.NewRecorder()
	r.Header.Set(httpidem.KeyHeader, rand.Text())
	if h.ServeHTTP(answer, r); answer.Code != http.StatusOK {
		w.t.Fatalf("the endpoint answers %d %s", answer.Code, answer.Body)
	}
	work := func(context.Context, *memstore.Tx) (int, error) { return 1, nil }
	if _, _, err := once.Do(w.t.Context(), w.db, "job", rand.Text(), nil, work); err != nil {
		w.t.Fatal(err)
	}
}

const refund = "refund" // the definition of the world's sagas

// startSaga starts a saga, which is due for whatever engine comes.
func (w *world) startSaga() store.SagaRef {
	w.t.Helper()
	tx := w.db.BeginTx()
	s := store.Saga{Name: refund, Key: "42", ID: "1", Hash: "h", Input: "{}", State: "{}",
		SagaStatus: store.SagaStatus{Status: "running"}}
	stored, _, err := w.db.StartSagas(w.t.Context(), tx, s)
	if err == nil {
		err = tx.Commit()
	}
	if err != nil {
		w.t.Fatal(err)
	}
	return store.SagaRef{Name: s.Name, Key: s.Key, Version: stored[0].Version}
}

// moveSaga writes how the saga stands, as an engine does.
func (w *world) moveSaga(of store.SagaRef, to store.SagaStatus, final bool) {
	w.t.Helper()
	m := store.SagaUpdate{SagaRef: of, State: "{}", SagaStatus: to, Release: true, Wake: -1, Final: final}
	if stood, err := w.db.Apply(w.t.Context(), store.Effect{Saga: &m}); err != nil || !stood[0] {
		w.t.Fatalf("the saga does not move: %v, %v", stood, err)
	}
}

// endSaga has the world's saga done, whatever its version.
func (w *world) endSaga() {
	w.t.Helper()
	all, err := store.ListSagas(w.t.Context(), w.db, store.SagaQuery{Name: refund})
	if err != nil || len(all) != 1 {
		w.t.Fatalf("%d sagas: %v", len(all), err)
	}
	w.moveSaga(store.SagaRef{Name: all[0].Name, Key: all[0].Key, Version: all[0].Version},
		store.SagaStatus{Status: "done"}, true)
}

// track has a tracker of the world's flow hear of events of one saga.
func (w *world) track(events ...string) {
	w.t.Helper()
	of := func(name string) skald.Event[string] { return skald.Event[string]{Topic: "orders", Type: name} }
	f, err := flow.New("order", flow.From(of("placed")),
		flow.Then(of("placed"), of("paid")).Within(time.Minute), flow.End(of("paid")))
	if err != nil {
		w.t.Fatal(err)
	}
	tracker := flow.NewTracker(f, w.db,
		&flow.Options{Key: func(m skald.Message) string { return string(m.Key) }})
	for _, name := range events {
		tx := w.db.BeginTx()
		err := tracker.Handle(w.t.Context(), tx,
			[]skald.Message{{Topic: "orders", Type: name, Source: "/shop", ID: name, Key: []byte("o-1")}})
		if err == nil {
			err = tx.Commit()
		}
		if err != nil {
			w.t.Fatal(err)
		}
	}
}

// later lets the database's time pass; the relay has its shards again then.
func (w *world) later(d time.Duration) {
	w.t.Helper()
	w.dbAhead.Add(int64(d))
	w.until("the relay has its shards again", func() bool { return w.backlog().Free == 0 })
}

func (w *world) standing() store.Consumer {
	w.t.Helper()
	for _, c := range w.backlog().Consumers {
		if c.Name == "billing" {
			return c
		}
	}
	w.t.Fatal("the consumer was never heard of")
	return store.Consumer{}
}

// beat gives the consumer's sign of session, which it gives once a minute by its own clock; progress says
// that it got on.
func (w *world) beat()     { w.kinds(false) }
func (w *world) progress() { w.kinds(true) }

func (w *world) kinds(progress bool) {
	w.t.Helper()
	if _, err := w.db.SyncConsumer(w.t.Context(),
		store.SyncRequest{Consumer: "billing",
			Heartbeat: &store.Heartbeat{Own: []store.Kind{{Topic: "orders", Type: "order.placed"}},
				Progress: progress}}); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) maintain() {
	w.t.Helper()
	if _, err := w.db.Maintain(w.t.Context(), store.Maintain{}); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) startRelay() {
	w.start("relay", func(p *process, s *memstore.Store) skald.Runner {
		return relay.New(source{s, w}, w.bus, &relay.Options{MeterProvider: p.meters, Logger: quiet(),
			Now:        func() time.Time { return time.Now().Add(time.Duration(w.relayAhead.Load())) },
			DeferFirst: 50 * time.Millisecond})
	})
}

func quiet() *slog.Logger { return slog.New(slog.DiscardHandler) }

// now makes every scrape ask the database anew.
func (w *world) now() time.Time { return time.Now().Add(time.Duration(w.ahead.Load())) }

// start runs a process on a session of its own.
func (w *world) start(name string, make func(*process, *memstore.Store) skald.Runner) {
	w.t.Helper()
	reg := prometheus.NewRegistry()
	exporter, err := otelprom.New(otelprom.WithRegisterer(reg), otelprom.WithoutScopeInfo(),
		otelprom.WithoutTargetInfo())
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
	w.write(topic, "42", "an order",
		&outbox.Options{Now: func() time.Time { return time.Now().Add(-written) }})
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

// brokerAway is for how long a relay has not reached its broker, as the database has it.
func (w *world) brokerAway() (most time.Duration) {
	for _, r := range w.backlog().Relays {
		most = max(most, r.BrokerAway)
	}
	return most
}

func (w *world) backlog() store.Backlog {
	w.t.Helper()
	b, err := store.ReadBacklog(w.t.Context(), w.db)
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
		w.until("the relay has all shards", func() bool { return w.backlog().Free == 0 })
	}
	var firing map[string]bool
	for end := w.prom.now.Add(d); w.prom.now.Before(end); {
		w.prom.now = w.prom.now.Add(scrapeEvery)
		w.ahead.Add(int64(time.Minute))
		for _, name := range []string{"writer", "relay", "consumer", "engine"} {
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

// source is the database of the writer and of the relay, whose retention may fail.
type source struct {
	*memstore.Store
	w *world
}

func (s source) Maintain(ctx context.Context, m store.Maintain) (store.Maintained, error) {
	if s.w.stalled.Load() {
		return store.Maintained{Left: []string{"skald_outbox_3: canceling statement due to lock timeout"}},
			nil
	}
	return s.Store.Maintain(ctx, m)
}

// Status fails to count sagas, if they cannot be counted.
func (s source) Status(ctx context.Context, q store.StatusQuery) (store.Status, error) {
	if q.Sagas && s.w.uncountable.Load() {
		return store.Status{}, errors.New("permission denied for table skald_saga")
	}
	return s.Store.Status(ctx, q)
}

// Listen gets no notifications: the relay polls.
func (s source) Listen(ctx context.Context, _ *slog.Logger) { <-ctx.Done() }

// Listening reports a missing slot.
func (s source) Listening() store.Listening {
	if s.w.deaf.Load() {
		return store.Listening{Why: "the slot is away"}
	}
	return store.Listening{}
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

func (unanswered) Wait(context.Context) error { return broker.ErrUnavailable }
