package sagatest_test

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/broker/kafkabroker"
	"github.com/skald-go/skald/broker/membroker"
	"github.com/skald-go/skald/inbox"
	"github.com/skald-go/skald/internal/need"
	"github.com/skald-go/skald/sagatest"
	"github.com/skald-go/skald/store"
	"github.com/skald-go/skald/store/memstore"
	"github.com/skald-go/skald/store/pgstore"
)

// rollout is a consumer in two builds. One build also handles another type. The consumer was ready before the
// first message was written.
type rollout struct {
	w    *sagatest.World
	db   *memstore.Store
	wrap func(db) db
}

func buildRollout(wrap func(db) db) func(*sagatest.World) error {
	return func(w *sagatest.World) error {
		ctx, r := context.Background(), &rollout{w: w, wrap: wrap}
		r.db = memstore.New(&memstore.Options{Source: "/consumer", Now: w.Now})
		bus := membroker.New(nil)
		if err := bus.MakeTopics(ctx, 1, "orders"); err != nil {
			return err
		}
		if _, err := r.db.SyncConsumer(ctx, store.SyncRequest{Consumer: "consumer",
			Heartbeat: &store.Heartbeat{Own: []store.Kind{{Topic: "orders", Type: "said"},
				{Topic: "orders", Type: "renamed"}}}}); err != nil {
			return err
		}
		for i, text := range []string{"a1", "a2+", "b1+", "a3", "c1", "b2", "a4+", "b3+", "a5"} {
			m := skald.Message{ID: fmt.Sprintf("m-%02d", i), Source: "/other", Type: "said", Topic: "orders",
				Key: []byte(text[:1]), Data: fmt.Appendf(nil, "%q", text)}
			if strings.HasSuffix(text, "+") {
				m.Type = "renamed"
			}
			if err := bus.Publish(ctx, []skald.Message{m}).Wait(ctx); err != nil {
				return err
			}
		}
		w.Process("old", func(proc *sagatest.Process) error { return r.session(proc, "old", bus, "said") })
		w.Process("new",
			func(proc *sagatest.Process) error { return r.session(proc, "new", bus, "said", "renamed") })
		w.Finally("each_once_in_order", r.holds)
		return nil
	}
}

func (r *rollout) session(proc *sagatest.Process, name string, bus *membroker.Broker, types ...string) error {
	session := r.db.Session()
	proc.OnCrash(session.Kill)
	d := sagatest.CrashDriver(proc, db(session))
	if r.wrap != nil {
		d = r.wrap(d)
	}
	in := inbox.New(d, sagatest.CrashBroker(proc, bus.Client()), "consumer", &inbox.Options{
		Now: r.w.Now, NewID: r.w.NewID, Logger: slog.New(slog.DiscardHandler),
		Instance: inbox.Instance{Member: name},
		Timeouts: inbox.Timeouts{Wait: time.Millisecond, Handle: time.Second},
		Retry:    inbox.Retry{InitialInterval: time.Microsecond, MaxInterval: time.Millisecond}, Workers: 1})
	for _, typ := range types {
		inbox.On(in, skald.Event[string]{Topic: "orders", Type: typ},
			func(_ context.Context, tx *memstore.Tx, m skald.Received[string]) error {
				return tx.Update(string(m.Key),
					func(old string, _ bool) string { return old + m.Value + " " })
			})
	}
	proc.Step(in)
	return nil
}

func (r *rollout) holds() error {
	for key, want := range map[string]string{"a": "a1 a2+ a3 a4+ a5 ", "b": "b1+ b2 b3+ ", "c": "c1 "} {
		if got := r.db.User()[key]; got != want {
			return fmt.Errorf("%s has %q, want %q", key, got, want)
		}
	}
	kept, err := store.ListParked(context.Background(), r.db, store.ParkedQuery{Limit: 100})
	if err == nil && len(kept) > 0 {
		err = fmt.Errorf("%d are kept, the first is %s: %s", len(kept), kept[0].ID, kept[0].Last.Why)
	}
	return err
}

// TestExploreRolloutEverySingleFault injects each fault at each I/O of two builds in one group.
func TestExploreRolloutEverySingleFault(t *testing.T) {
	sagatest.Explore(t, buildRollout(nil), &sagatest.Options{Rest: 40 * time.Second, Sample: sampled(150),
		Failures: 3})
}

// alone is a driver that hides other builds from a build.
type alone struct{ db }

func (d alone) SyncConsumer(ctx context.Context, a store.SyncRequest) (store.SyncResult, error) {
	out, err := d.db.SyncConsumer(ctx, a)
	out.Kinds = nil
	return out, err
}

func TestSeededBugOfARollout(t *testing.T) {
	r, err := sagatest.Search(t.Context(), buildRollout(func(d db) db { return alone{d} }),
		&sagatest.Options{Rest: 40 * time.Second, Sample: 20})
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Failures) == 0 {
		t.Fatalf("no invariant finds it: %v", r)
	}
}

// TestRolloutOnServers is the same on PostgreSQL and Kafka, with Run: a build that handles more types joins
// a working one, which then leaves.
func TestRolloutOnServers(t *testing.T) {
	t.Parallel()
	seeds := need.Kafka(t)
	a := newAttack(t)
	bus, err := kafkabroker.New(seeds, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = bus.Close() })
	if err := bus.MakeTopics(t.Context(), 4, a.topic); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		client, err := kgo.NewClient(kgo.SeedBrokers(seeds))
		if err != nil {
			t.Fatal(err)
		}
		defer client.Close()
		if _, err := kadm.NewClient(client).DeleteTopics(context.Background(), a.topic); err != nil {
			t.Error(err)
		}
	})
	a.exec("CREATE TABLE " + a.schema +
		".effect (seq bigint GENERATED ALWAYS AS IDENTITY, key text NOT NULL, n integer NOT NULL)")
	older, stop := a.build(t, bus, "said")
	n, keys := 0, 10
	say := func(count int) {
		var ms []skald.Message
		for range count {
			n++
			m := skald.Message{ID: fmt.Sprint(n), Source: "/other", Type: "said", Topic: a.topic,
				Key: fmt.Append(nil, "k", n%keys), ContentType: "text/plain", Data: fmt.Append(nil, n)}
			if n%3 == 0 {
				m.Type = "renamed"
			}
			ms = append(ms, m)
		}
		if err := bus.Publish(t.Context(), ms).Wait(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	_, stopNew := a.build(t, bus, "said", "renamed")
	say(300)
	a.soon(t, "SELECT count(*) = 300 FROM $.effect")
	stop()
	say(300)
	a.soon(t, "SELECT count(*) = 600 FROM $.effect")
	a.soon(t, "SELECT count(*) = 0 FROM $.skald_parked")
	a.soon(t,
		"SELECT NOT EXISTS (SELECT FROM (SELECT n - lag(n) OVER (PARTITION BY key ORDER BY seq) AS step FROM $.effect) AS s WHERE step <> 10)")
	stopNew()
	if h := older.Health(); h.Skipped != 0 || h.Failures != 0 {
		t.Errorf("the old build: %+v", h)
	}
}

// build starts an instance that handles these types, and waits until it is ready.
func (a *attack) build(t *testing.T, bus *kafkabroker.Broker,
	types ...string) (in *inbox.Inbox[pgx.Tx], stop func()) {
	t.Helper()
	in = inbox.New(pgstore.New(a.pool, &pgstore.Options{Schema: a.schema}), bus, a.schema,
		&inbox.Options{Logger: slog.New(slog.DiscardHandler)})
	for _, typ := range types {
		in.Handle(a.topic, typ, func(ctx context.Context, tx pgx.Tx, m skald.Message) error {
			_, err := tx.Exec(ctx, "INSERT INTO "+a.schema+".effect (key, n) VALUES ($1, $2::text::integer)",
				string(m.Key), string(m.Data))
			return err
		})
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- in.Run(ctx) }()
	stop = func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
	for end := time.Now().Add(5 * time.Minute); !in.Health().Ready; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("not ready: %+v", in.Health())
		}
	}
	return in, stop
}

// soon polls until the condition is true.
func (a *attack) soon(t *testing.T, question string) {
	t.Helper()
	question = strings.ReplaceAll(question, "$.", a.schema+".")
	for end := time.Now().Add(5 * time.Minute); ; time.Sleep(20 * time.Millisecond) {
		var yes bool
		if err := a.pool.QueryRow(t.Context(), question).Scan(&yes); err != nil {
			t.Fatal(err)
		}
		if yes {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("timed out: %s", question)
		}
	}
}
