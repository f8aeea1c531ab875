package relay_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/broker"
	"github.com/skald-go/skald/broker/membroker"
	"github.com/skald-go/skald/outbox"
	"github.com/skald-go/skald/relay"
	"github.com/skald-go/skald/store"
	"github.com/skald-go/skald/store/memstore"
)

// remake deletes topics and creates them again.
func (w *world) remake(names ...string) {
	w.t.Helper()
	if err := w.mem.RemoveTopics(w.t.Context(), names...); err != nil {
		w.t.Fatal(err)
	}
	w.topics(names...)
}

// got returns the content of a topic, by key, with repeats.
func (w *world) got(topic string) map[string][]string {
	w.t.Helper()
	sub, err := w.mem.Subscribe(w.t.Context(), broker.Group{Name: fmt.Sprint("all", time.Now().UnixNano()),
		Topics: []string{topic}})
	if err != nil {
		w.t.Fatal(err)
	}
	b, err := sub.Receive(w.t.Context(), 100_000)
	if err != nil {
		w.t.Fatal(err)
	}
	out := map[string][]string{}
	for _, d := range b.Deliveries {
		out[string(d.Key)] = append(out[string(d.Key)], string(d.Data))
	}
	return out
}

func (w *world) wantAll(topic, key string, want ...string) {
	w.t.Helper()
	for i := range want {
		want[i] = fmt.Sprintf("%q", want[i])
	}
	if got := w.got(topic)[key]; !slices.Equal(got, want) {
		w.t.Errorf("topic %s, key %q has %v, want %v", topic, key, got, want)
	}
}

// TestRecreatedTopicGetsItsRowsAgain checks that the stored rows of a recreated topic are published again,
// once and in order, before newer ones. Other topics get no repeats.
func TestRecreatedTopicGetsItsRowsAgain(t *testing.T) {
	for name, after := range map[string]func(*world, *relay.Relay) *relay.Relay{
		"while rows come":            func(_ *world, r *relay.Relay) *relay.Relay { return r },
		"while another takes over":   func(w *world, _ *relay.Relay) *relay.Relay { return w.relay("b") },
		"while nothing is published": func(w *world, r *relay.Relay) *relay.Relay { w.quiet(r); return r },
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, "orders", "stock")
			r := w.relay("a")
			w.write("orders", "k", "1", "2")
			w.write("orders", "l", "a")
			w.write("stock", "k", "x")
			w.quiet(r)
			w.write("orders", "k", "3")
			w.quiet(r)
			w.remake("orders")
			r = after(w, r)
			w.write("orders", "k", "4")
			w.quiet(r) // rows published together with a failed one may be repeated
			w.write("stock", "k", "y")
			w.quiet(r)
			w.write("orders", "k", "5")
			w.quiet(r)
			w.wantAll("orders", "k", "1", "2", "3", "4", "5")
			w.wantAll("orders", "l", "a")
			w.wantAll("stock", "k", "x", "y")
			w.remake("stock") // a second time, and another topic
			w.quiet(r)
			w.wantAll("orders", "k", "1", "2", "3", "4", "5")
			w.wantAll("stock", "k", "x", "y")
			for _, l := range w.db.Shards() {
				if l.Cursor.Base == "" && l.Incarnation == "" {
					t.Errorf("shard %d is at %+v of %q", l.ID, l.Cursor, l.Incarnation)
				}
			}
		})
	}
}

// TestNewTopicGetsNoReplay checks that a topic without earlier rows is not replayed.
func TestNewTopicGetsNoReplay(t *testing.T) {
	w := newWorld(t, "orders")
	r := w.relay("a")
	w.write("orders", "k", "1")
	w.quiet(r)
	w.topics("stock")
	w.write("stock", "k", "x")
	w.quiet(r, w.relay("b"))
	w.wantAll("orders", "k", "1")
	w.wantAll("stock", "k", "x")
}

// TestRecreatedTopicWithDeferredRows checks that deferred rows wait for replayed rows, even if the deferred
// rows are due first.
func TestRecreatedTopicWithDeferredRows(t *testing.T) {
	w := newWorld(t, "orders", "stock")
	r := w.relay("a")
	w.write("orders", "k", "1", "2")
	w.quiet(r)
	bad := errors.New("too large")
	w.bus.refuse = func(m skald.Message, alone bool) error {
		if string(m.Data) == `"3"` && m.Topic == "orders" {
			return bad
		}
		return nil
	}
	w.write("orders", "k", "3", "4")
	w.write("orders", "l", "a")
	w.quiet(r)
	if n := len(w.db.DeferredRows()); n != 2 {
		t.Fatalf("%d rows are deferred, want 2", n)
	}
	w.remake("orders")
	w.write("orders", "k", "5")
	w.quiet(r)
	w.bus.refuse = nil
	w.quiet(r)
	w.wantAll("orders", "k", "1", "2", "3", "4", "5")
	w.wantAll("orders", "l", "a")
	if n := len(w.db.DeferredRows()); n != 0 {
		t.Errorf("%d rows are still deferred", n)
	}
}

// TestTopicIsDeletedAndCreatedLater creates a topic again after some of its rows were deferred.
func TestTopicIsDeletedAndCreatedLater(t *testing.T) {
	w := newWorld(t, "orders", "stock")
	r := w.relay("a")
	w.write("orders", "k", "1", "2")
	w.quiet(r)
	if err := w.mem.RemoveTopics(t.Context(), "orders"); err != nil {
		t.Fatal(err)
	}
	w.write("orders", "k", "3")
	w.quiet(r)
	w.write("stock", "k", "x")
	w.quiet(r)
	w.wantAll("stock", "k", "x")
	w.topics("orders")
	w.quiet(r)
	w.write("orders", "k", "4")
	w.quiet(r)
	w.wantAll("orders", "k", "1", "2", "3", "4")
	w.wantAll("stock", "k", "x")
}

// TestTopicRecreatedAtAnyMomentOfARetry recreates a topic at any moment of the retries of deferred rows, with
// a replay of several pages.
//
// Interleaving 9.
func TestTopicRecreatedAtAnyMomentOfARetry(t *testing.T) {
	for n := range 24 {
		w := newWorld(t, "orders", "stock")
		r := w.relay("a")
		w.write("orders", "k", "1", "2")
		for range 3 {
			w.write("stock", "k", slices.Repeat([]string{"x"}, 150)...)
		}
		w.write("orders", "k", "3")
		w.quiet(r)
		if err := w.mem.RemoveTopics(t.Context(), "orders"); err != nil {
			t.Fatal(err)
		}
		w.write("orders", "k", "4", "5")
		for range 20 + n {
			w.step(r, 100*time.Millisecond)
		}
		w.topics("orders")
		for range 40 {
			w.step(r, 50*time.Millisecond)
		}
		w.quiet(r)
		w.expect("orders", "k", "1", "2", "3", "4", "5")
		if t.Failed() {
			t.Fatalf("recreated %d steps after it was deleted", 20+n)
		}
	}
}

func (w *world) step(r *relay.Relay, d time.Duration) {
	w.t.Helper()
	if _, err := r.Step(w.t.Context()); err != nil {
		w.t.Fatal(err)
	}
	w.now = w.now.Add(d)
}

// remaker recreates a topic just before the n-th publish.
type remaker struct {
	*spoiled
	n      int
	remake func()
}

func (m *remaker) Publish(ctx context.Context, msgs []skald.Message, only ...broker.Topics) broker.Pending {
	if m.n--; m.n == 0 {
		m.remake()
	}
	return m.spoiled.Publish(ctx, msgs, only...)
}

// TestTopicRecreatedBeforeEachPublish recreates a topic before each publish: in windows, in replays and next
// to deferred rows. First deliveries are in order.
//
// Interleaving 9.
func TestTopicRecreatedBeforeEachPublish(t *testing.T) {
	for n := 1; n <= 40; n++ {
		w := newWorld(t, "orders", "stock")
		m := &remaker{spoiled: w.bus, n: n, remake: func() { w.remake("orders") }}
		r := relay.New(w.db, m, &relay.Options{Owner: "a", DeferMost: 5 * time.Second,
			Now: func() time.Time { return w.now }})
		once := true
		w.bus.refuse = func(msg skald.Message, alone bool) error {
			if string(msg.Data) == `"2"` && once {
				once = !alone
				return errors.New("no")
			}
			return nil
		}
		for i := range 8 {
			w.write("orders", "k", fmt.Sprint(i))
			w.write("orders", "l", fmt.Sprint(i))
			w.write("stock", "k", fmt.Sprint(i))
			for range 3 {
				if _, err := r.Step(t.Context()); err != nil {
					t.Fatal(err)
				}
				w.now = w.now.Add(300 * time.Millisecond)
			}
		}
		w.quiet(r)
		if m.n == 0 {
			w.remake("orders") // once more
			w.quiet(r)
		}
		all := []string{"0", "1", "2", "3", "4", "5", "6", "7"}
		w.expect("orders", "k", slices.Clone(all)...)
		w.expect("orders", "l", slices.Clone(all)...)
		w.expect("stock", "k", slices.Clone(all)...)
		if t.Failed() {
			t.Fatalf("recreated before publish %d", n)
		}
	}
}

// busy is a broker that answers calls some time after they were made, in another order.
type busy struct {
	*membroker.Broker
	n atomic.Int64
}

type busyCall struct {
	broker.Pending
	done chan struct{}
}

func (b *busy) Publish(ctx context.Context, msgs []skald.Message, only ...broker.Topics) broker.Pending {
	c := busyCall{b.Broker.Publish(ctx, msgs, only...), make(chan struct{})}
	time.AfterFunc(time.Duration(b.n.Add(1)%7)*3*time.Millisecond, func() { close(c.done) })
	return c
}

func (c busyCall) Done() <-chan struct{} { return c.done }

// Wait returns the answer late. The answer was determined when the call was made.
func (c busyCall) Wait(ctx context.Context) error {
	select {
	case <-c.done:
		return c.Pending.Wait(ctx)
	case <-ctx.Done():
		return ctx.Err()
	}
}

// TestTopicRecreatedWhileRelaysPublish recreates a topic repeatedly, with many calls in progress and two
// relays that start and stop.
//
// Interleaving 9.
func TestTopicRecreatedWhileRelaysPublish(t *testing.T) {
	db, mem := memstore.New(nil), membroker.New(&membroker.Options{Retain: -1})
	w := &world{t: t, db: db, out: outbox.New(db, nil), mem: mem}
	w.topics("orders", "stock")
	start := func(owner string) (stop func()) {
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() {
			ended <- relay.New(db, &busy{Broker: mem}, &relay.Options{
				Owner: owner, TTL: time.Second, Save: 20 * time.Millisecond, Drain: time.Nanosecond,
				Logger: slog.New(slog.DiscardHandler),
			}).Run(ctx)
		}()
		return func() {
			cancel()
			if err := <-ended; err != nil {
				t.Error(err)
			}
		}
	}
	stopA, stopB := start("a"), start("b")
	want := map[string][]string{}
	for i := range 400 {
		say := func(topic string, k int) {
			key := fmt.Sprint("k", k)
			w.write(topic, key, fmt.Sprint(i))
			want[topic+key] = append(want[topic+key], fmt.Sprint(i))
		}
		say("orders", i%8)
		for k := range 8 {
			say("stock", k)
		}
		<-time.After(time.Millisecond)
		if i%40 == 25 {
			w.remake("orders")
		}
		if i%150 == 120 {
			stopA()
			stopA = start("a")
		}
	}
	deadline := time.Now().Add(5 * time.Minute)
	for settled := false; !settled; <-time.After(10 * time.Millisecond) {
		b, err := store.ReadBacklog(t.Context(), db)
		settled = err == nil && b.Pending+b.Deferred == 0
		if settled {
			ids, _ := mem.Topics(t.Context(), "orders")
			for _, l := range db.Shards() { // all shards have recorded the last topic
				settled = settled && (l.Cursor.Base == "" || strings.Contains(l.Incarnation, `"orders":"`+
					ids["orders"]+`"`) || !strings.Contains(l.Incarnation, "orders"))
			}
		}
		if time.Now().After(deadline) {
			t.Fatal("the relays do not come to rest")
		}
	}
	stopA()
	stopB()
	for k := range 8 {
		for _, topic := range []string{"orders", "stock"} {
			w.expect(topic, fmt.Sprint("k", k), want[topic+fmt.Sprint("k", k)]...)
		}
	}
}
