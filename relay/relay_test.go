package relay_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/broker"
	"github.com/skald-go/skald/broker/membroker"
	"github.com/skald-go/skald/outbox"
	"github.com/skald-go/skald/relay"
	"github.com/skald-go/skald/store/memstore"
)

// world is a database, a broker with answers that a test can spoil, and a clock that the test moves.
type world struct {
	t   *testing.T
	db  *memstore.Store
	out *outbox.Outbox[*memstore.Tx]
	mem *membroker.Broker
	bus *spoiled
	now time.Time
}

func newWorld(t *testing.T, topics ...string) *world {
	w := &world{t: t, now: time.Now()}
	w.db = memstore.New(&memstore.Options{Now: func() time.Time { return w.now }})
	w.out = outbox.New(w.db, nil)
	w.mem = membroker.New(nil)
	w.bus = &spoiled{Broker: w.mem}
	w.topics(topics...)
	return w
}

func (w *world) topics(names ...string) {
	w.t.Helper()
	if err := w.mem.MakeTopics(w.t.Context(), 2, names...); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) relay(owner string) *relay.Relay {
	return relay.New(w.db, w.bus, &relay.Options{Owner: owner, DeferMost: 5 * time.Second,
		Now: func() time.Time { return w.now }})
}

func (w *world) write(topic, key string, says ...string) {
	w.t.Helper()
	tx := w.db.BeginTx()
	w.say(tx, topic, key, says...)
	if err := tx.Commit(); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) say(tx *memstore.Tx, topic, key string, says ...string) {
	w.t.Helper()
	for _, s := range says {
		d := skald.Draft{Topic: topic, Type: "said", Value: s}
		if key != "" {
			d.Key = []byte(key)
		}
		if err := w.out.Write(w.t.Context(), tx, d); err != nil {
			w.t.Fatal(err)
		}
	}
}

// quiet moves the clock by a minute and steps rs meanwhile.
func (w *world) quiet(rs ...*relay.Relay) {
	w.t.Helper()
	for range 600 {
		for _, r := range rs {
			if _, err := r.Step(w.t.Context()); err != nil {
				w.t.Fatal(err)
			}
		}
		w.now = w.now.Add(100 * time.Millisecond)
	}
}

// delivered returns the messages that a new group reads from a topic, by key: the first delivery of each.
func (w *world) delivered(topic string) (byKey map[string][]string, repeats int) {
	w.t.Helper()
	sub, err := w.mem.Subscribe(w.t.Context(), broker.Group{Name: fmt.Sprint("reader", time.Now().UnixNano()),
		Topics: []string{topic}})
	if err != nil {
		w.t.Fatal(err)
	}
	seen := map[string]bool{}
	byKey = map[string][]string{}
	for {
		b, err := sub.Receive(w.t.Context(), 1000)
		if err != nil {
			w.t.Fatal(err)
		}
		if len(b.Deliveries) == 0 {
			return byKey, repeats
		}
		for _, d := range b.Deliveries {
			if seen[d.ID] {
				repeats++
				continue
			}
			seen[d.ID] = true
			byKey[string(d.Key)] = append(byKey[string(d.Key)], string(d.Data))
		}
	}
}

// spoiled is a broker for which the test decides the result of each message.
type spoiled struct {
	*membroker.Broker
	refuse func(m skald.Message, alone bool) error // nil accepts
	outage func() error
	after  func() error // the error of a call whose messages were published
}

type answered struct{ err error }

func (answered) Done() <-chan struct{} {
	done := make(chan struct{})
	close(done)
	return done
}

func (a answered) Wait(context.Context) error { return a.err }

// Publish follows the contract: after a message that is not accepted, no later message of its key is
// accepted.
func (s *spoiled) Publish(ctx context.Context, msgs []skald.Message, only ...broker.Topics) broker.Pending {
	if s.outage != nil {
		if err := s.outage(); err != nil {
			return answered{err}
		}
	}
	bad, held := &broker.PublishError{Failed: map[int]error{}, Refused: map[int]error{}}, map[string]bool{}
	for i, m := range msgs {
		key := m.Topic + "\x00" + string(m.Key)
		if m.Key != nil && held[key] {
			bad.Failed[i] = errors.New("held back")
			continue
		}
		if s.refuse != nil {
			if err := s.refuse(m, len(msgs) == 1); err != nil {
				bad.Refused[i] = err
				held[key] = true
				continue
			}
		}
		err := s.Broker.Publish(ctx, []skald.Message{m}, only...).Wait(ctx)
		var part *broker.PublishError
		if errors.As(err, &part) && len(part.Failed) > 0 {
			bad.Failed[i] = part.First()
			held[key] = true
		} else if errors.As(err, &part) {
			bad.Refused[i] = part.First()
			held[key] = true
		} else if err != nil {
			return answered{err}
		}
	}
	if s.after != nil {
		if err := s.after(); err != nil {
			return answered{err}
		}
	}
	if len(bad.Failed)+len(bad.Refused) > 0 {
		return answered{bad}
	}
	return answered{}
}

func (w *world) expect(topic, key string, want ...string) {
	w.t.Helper()
	got, _ := w.delivered(topic)
	for i := range want {
		want[i] = fmt.Sprintf("%q", want[i])
	}
	if !slices.Equal(got[key], want) {
		w.t.Errorf("topic %s, key %q: delivered %v, want %v", topic, key, got[key], want)
	}
}

func TestRowsReachTheBrokerInOrderOnce(t *testing.T) {
	w := newWorld(t, "orders")
	r := w.relay("a")
	w.write("orders", "k", "1", "2")
	w.write("orders", "l", "a")
	w.quiet(r)
	w.write("orders", "k", "3")
	w.quiet(r)
	w.expect("orders", "k", "1", "2", "3")
	w.expect("orders", "l", "a")
	if _, repeats := w.delivered("orders"); repeats > 0 {
		t.Errorf("%d repeats", repeats)
	}
}

func TestOpenTransactionDelaysNoOtherRow(t *testing.T) {
	w := newWorld(t, "orders")
	r := w.relay("a")
	open := w.db.BeginTx()
	w.say(open, "orders", "early", "1")
	w.write("orders", "late", "2")
	w.quiet(r)
	w.expect("orders", "late", "2")
	w.expect("orders", "early")
	if err := open.Commit(); err != nil {
		t.Fatal(err)
	}
	w.quiet(r)
	w.expect("orders", "early", "1")
	if _, repeats := w.delivered("orders"); repeats > 0 {
		t.Errorf("%d repeats", repeats)
	}
}

func TestRefusedRowIsDeferredWithItsKeyAndPublishedInOrder(t *testing.T) {
	w := newWorld(t, "orders")
	bad := true
	w.bus.refuse = func(m skald.Message, alone bool) error {
		if bad && string(m.Data) == `"2"` {
			return errors.New("too large")
		}
		return nil
	}
	r := w.relay("a")
	w.write("orders", "k", "1", "2", "3")
	w.write("orders", "l", "a", "b")
	w.quiet(r)
	w.expect("orders", "k", "1")
	w.expect("orders", "l", "a", "b")
	if n := len(w.db.DeferredRows()); n != 2 {
		t.Errorf("%d rows deferred, want 2", n)
	}
	w.write("orders", "k", "4")
	w.quiet(r)
	w.expect("orders", "k", "1")
	bad = false
	w.quiet(r)
	w.expect("orders", "k", "1", "2", "3", "4")
	if n := len(w.db.DeferredRows()); n != 0 {
		t.Errorf("%d rows still deferred", n)
	}
	w.write("orders", "k", "5")
	w.quiet(r)
	w.expect("orders", "k", "1", "2", "3", "4", "5")
}

// TestNeighboursOfARefusedRowAreNotDeferred checks that the relay isolates the refused row of a batch, and
// defers no other row.
//
// Interleaving 7.
func TestNeighboursOfARefusedRowAreNotDeferred(t *testing.T) {
	w := newWorld(t, "orders")
	w.bus.refuse = func(m skald.Message, alone bool) error {
		if !alone || string(m.Data) == `"bad"` {
			return fmt.Errorf("%w: batch too large", broker.ErrShared)
		}
		return nil
	}
	r := w.relay("a")
	w.write("orders", "k", "1")
	w.write("orders", "l", "bad")
	w.write("orders", "m", "1", "2")
	w.quiet(r)
	w.expect("orders", "k", "1")
	w.expect("orders", "m", "1", "2")
	if n := len(w.db.DeferredRows()); n != 1 {
		t.Errorf("%d rows deferred, want 1", n)
	}
}

func TestMissingTopicDefersItsRowsUntilItExists(t *testing.T) {
	w := newWorld(t, "orders")
	r := w.relay("a")
	w.write("payments", "k", "1", "2")
	w.write("payments", "", "x", "y")
	w.write("orders", "k", "a")
	w.quiet(r)
	w.expect("orders", "k", "a")
	w.topics("payments")
	w.write("payments", "k", "3")
	w.quiet(r)
	w.expect("payments", "k", "1", "2", "3")
	got, _ := w.delivered("payments")
	if slices.Sort(got[""]); !slices.Equal(got[""], []string{`"x"`, `"y"`}) {
		t.Errorf("without a key: %v", got[""])
	}
}

// TestTopicWithoutAQueue checks that the log and the remedy name the missing queue. The topic is there.
func TestTopicWithoutAQueue(t *testing.T) {
	w := newWorld(t, "orders")
	none := true
	w.bus.refuse = func(skald.Message, bool) error {
		if none {
			return fmt.Errorf("returned: %w", &broker.NoQueueError{Topic: "orders"})
		}
		return nil
	}
	var log strings.Builder
	r := relay.New(w.db, w.bus, &relay.Options{
		Now: func() time.Time { return w.now }, Logger: slog.New(slog.NewTextHandler(&log, nil)),
		DeferMost: 10 * time.Second,
	})
	w.write("orders", "k", "1", "2")
	w.quiet(r)
	w.write("orders", "l", "3")
	w.quiet(r)
	if text := log.String(); strings.Contains(text, "topic is missing") || strings.Contains(text, "no such topic") ||
		strings.Count(text, "no consumer group has a queue") == 0 || !strings.Contains(text, "--group NAME") {
		t.Error(text)
	}
	none = false
	w.quiet(r)
	w.expect("orders", "k", "1", "2")
	w.expect("orders", "l", "3")
}

// TestMissingTopicIsLoggedOnce checks that each disappearance of a topic is logged once, for any number of
// its rows and of requests.
func TestMissingTopicIsLoggedOnce(t *testing.T) {
	w := newWorld(t, "orders")
	var log strings.Builder
	r := relay.New(w.db, w.bus, &relay.Options{
		Owner: "a", Now: func() time.Time { return w.now }, Logger: slog.New(slog.NewTextHandler(&log, nil)),
		// The clock steps of quiet, a minute in all, must suffice to retry the rows, with any jitter.
		DeferMost: 10 * time.Second,
	})
	says := func(want int) {
		t.Helper()
		w.quiet(r)
		if n := strings.Count(log.String(), "a topic is missing"); n != want ||
			!strings.Contains(log.String(), "topic=payments") {
			t.Errorf("logged %d times, want %d: %s", n, want, log.String())
		}
	}
	w.write("payments", "k", "1", "2")
	w.write("orders", "k", "a")
	says(1)
	w.write("payments", "l", "3")
	says(1)
	w.topics("payments")
	says(1)
	w.expect("payments", "k", "1", "2")
	if err := w.mem.RemoveTopics(t.Context(), "payments"); err != nil {
		t.Fatal(err)
	}
	w.write("payments", "k", "4")
	says(2)
}

func TestOutageDefersNoRow(t *testing.T) {
	w := newWorld(t, "orders")
	n := 0
	w.bus.outage = func() error {
		if n++; n < 6 {
			return errors.New("connection refused")
		}
		return nil
	}
	r := w.relay("a")
	w.write("orders", "k", "1", "2", "3")
	w.write("orders", "l", "a")
	w.quiet(r)
	w.expect("orders", "k", "1", "2", "3")
	w.expect("orders", "l", "a")
	if n := len(w.db.DeferredRows()); n != 0 {
		t.Errorf("%d rows deferred", n)
	}
}

func TestLostAnswerRepeatsButKeepsOrder(t *testing.T) {
	w := newWorld(t, "orders")
	n := 0
	w.bus.after = func() error {
		if n++; n < 3 {
			return errors.New("connection reset")
		}
		return nil
	}
	r := w.relay("a")
	w.write("orders", "k", "1", "2")
	w.quiet(r)
	w.expect("orders", "k", "1", "2")
}

// TestAnotherBrokerGetsTheRetainedRowsAgain checks the replay on another broker.
//
// Interleaving 9.
func TestAnotherBrokerGetsTheRetainedRowsAgain(t *testing.T) {
	w := newWorld(t, "orders")
	r := w.relay("a")
	w.write("orders", "k", "1", "2")
	w.quiet(r)
	if err := r.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.mem = membroker.New(nil)
	w.bus = &spoiled{Broker: w.mem}
	w.topics("orders")
	w.write("orders", "k", "3")
	w.quiet(w.relay("a"))
	w.expect("orders", "k", "1", "2", "3")
}

func TestRelaysShareShardsAndTakeOverFromTheDead(t *testing.T) {
	w := newWorld(t, "orders")
	a, b := w.relay("a"), w.relay("b")
	w.quiet(a, b)
	if na, nb := a.Health().Shards, b.Health().Shards; na != 8 || nb != 8 {
		t.Errorf("shards %d and %d, want 8 and 8", na, nb)
	}
	for i := range 40 {
		w.write("orders", fmt.Sprint("k", i), "1", "2")
	}
	w.quiet(a, b)
	for i := range 40 {
		w.write("orders", fmt.Sprint("k", i), "3")
	}
	w.quiet(b) // a has crashed
	if nb := b.Health().Shards; nb != 16 {
		t.Errorf("b has %d shards, want 16", nb)
	}
	for i := range 40 {
		w.expect("orders", fmt.Sprint("k", i), "1", "2", "3")
	}
	for i := range 40 {
		w.write("orders", fmt.Sprint("k", i), "4")
	}
	w.quiet(a, b) // a continues
	for i := range 40 {
		w.expect("orders", fmt.Sprint("k", i), "1", "2", "3", "4")
	}
}

// TestClocksThatDiffer runs relays with clocks that are hours apart. Leases use the store's clock, and order
// follows the rows. A writer's clock only sets the time of its messages.
func TestClocksThatDiffer(t *testing.T) {
	w := newWorld(t, "orders")
	at := func(d time.Duration) *relay.Relay {
		return relay.New(w.db, w.bus, &relay.Options{Owner: d.String(),
			Now: func() time.Time { return w.now.Add(d) }})
	}
	behind, ahead := at(-time.Hour), at(time.Hour)
	w.quiet(behind, ahead)
	if nb, na := behind.Health().Shards, ahead.Health().Shards; nb != 8 || na != 8 {
		t.Errorf("shards %d and %d, want 8 and 8", nb, na)
	}
	for i, d := range []time.Duration{time.Hour, -time.Hour, 2 * time.Hour, 0} {
		w.out = outbox.New(w.db, &outbox.Options{Now: func() time.Time { return w.now.Add(d) }})
		for k := range 20 {
			w.write("orders", fmt.Sprint("k", k), fmt.Sprint(i))
		}
	}
	w.quiet(behind, ahead)
	w.quiet(behind) // the other has crashed
	if n := behind.Health().Shards; n != 16 {
		t.Errorf("next to a dead relay there are %d shards", n)
	}
	for k := range 20 {
		w.expect("orders", fmt.Sprint("k", k), "0", "1", "2", "3")
	}
}
