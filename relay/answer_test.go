package relay_test

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/broker"
	"github.com/skald-go/skald/outbox"
	"github.com/skald-go/skald/relay"
	"github.com/skald-go/skald/store/memstore"
)

// manual is a broker that answers a call only when the test requests it, in any order.
type manual struct {
	mu    sync.Mutex
	calls []*manualCall
}

type manualCall struct {
	msgs  []skald.Message
	done  chan struct{}
	taken chan struct{} // closed when the relay has taken the answer
	once  sync.Once
	err   error
}

func (m *manual) Incarnation(context.Context) (string, error) { return "manual", nil }

func (m *manual) Topics(context.Context, ...string) (broker.Topics, error) { return nil, nil }

func (m *manual) Publish(_ context.Context, msgs []skald.Message, _ ...broker.Topics) broker.Pending {
	m.mu.Lock()
	defer m.mu.Unlock()
	c := &manualCall{msgs: slices.Clone(msgs), done: make(chan struct{}), taken: make(chan struct{})}
	m.calls = append(m.calls, c)
	return c
}

func (c *manualCall) Done() <-chan struct{} { return c.done }

func (c *manualCall) Wait(ctx context.Context) error {
	select {
	case <-c.done:
		c.once.Do(func() { close(c.taken) })
		return c.err
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (c *manualCall) answer(err error) {
	c.err = err
	close(c.done)
}

// call waits for the first call that contains data.
func (m *manual) call(t *testing.T, data string) *manualCall {
	t.Helper()
	for deadline := time.Now().Add(5 * time.Minute); time.Now().Before(deadline); time.Sleep(
		time.Millisecond) {
		if c := m.find(data); c != nil {
			return c
		}
	}
	t.Fatalf("%s was never published", data)
	return nil
}

func (m *manual) made() []*manualCall {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.calls)
}

func (m *manual) find(data string) *manualCall {
	for _, c := range m.made() {
		if slices.ContainsFunc(c.msgs, func(x skald.Message) bool { return string(x.Data) == `"`+data+`"` }) {
			return c
		}
	}
	return nil
}

// TestFailureBeforeEarlierAnswersStopsTheShard checks that a failure stops its shard even if earlier answers
// are still missing.
//
// Interleaving 7.
func TestFailureBeforeEarlierAnswersStopsTheShard(t *testing.T) {
	db, bus := memstore.New(nil), &manual{}
	out := outbox.New(db, nil)
	write := func(key, data string) {
		t.Helper()
		tx := db.BeginTx()
		if err := out.Write(t.Context(), tx, skald.Event[string]{Topic: "t", Type: "said"}.New(key,
			data)); err != nil {
			t.Fatal(err)
		}
		if err := tx.Commit(); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	r := relay.New(db, bus, &relay.Options{TTL: time.Hour, Drain: time.Millisecond,
		Logger: slog.New(slog.DiscardHandler)})
	go func() { ended <- r.Run(ctx) }()

	write("k", "k1")
	first := bus.call(t, "k1")
	write("k", "k2")
	second := bus.call(t, "k2")
	second.answer(&broker.PublishError{Failed: map[int]error{0: errors.New("leader moved")}})
	<-second.taken
	for _, probe := range []string{"l1", "l2", "l3"} {
		// other shards flow: each shows that the relay has looked again
		write(probe, probe)
		write("k", "k3 behind "+probe)
		bus.call(t, probe)
	}
	write("m", "m")
	bus.call(t, "m")
	if bus.find("k3 behind l1") != nil || bus.find("k3 behind l2") != nil {
		t.Error("a message was published after one of its key that was not acknowledged")
	}
	first.answer(nil)
	bus.call(t, "k3 behind l3")
	var order []string
	for _, c := range bus.made() {
		for _, m := range c.msgs {
			if string(m.Key) == "k" {
				order = append(order, string(m.Data))
			}
		}
	}
	want := []string{`"k1"`, `"k2"`, `"k2"`, `"k3 behind l1"`, `"k3 behind l2"`, `"k3 behind l3"`}
	if !slices.Equal(order, want) {
		t.Errorf("published %v, want %v", order, want)
	}
	cancel()
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
}
