package inbox_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/inbox"
	"github.com/skald-go/skald/store/memstore"
)

// A handler that ignores its context fails, and its worker continues. If twice as many handlers hang as there
// are workers, the consumer reports that nothing is handled. No message starts twice. No later message of a
// key runs before its stuck message.
func TestHandlersThatIgnoreTheirContexts(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1)
	w.db = memstore.New(nil) // with the real clock
	const workers = 2
	release := make(chan struct{})
	var mu sync.Mutex
	begun := map[string]int{}
	in := w.inbox(&inbox.Options{Workers: workers, Timeouts: inbox.Timeouts{Handle: 50 * time.Millisecond},
		Retry: inbox.Retry{InitialInterval: time.Millisecond, MaxInterval: time.Millisecond}},
		func(_ context.Context, t tx, m skald.Received[string]) error {
			mu.Lock()
			begun[m.Value]++
			mu.Unlock()
			if strings.HasPrefix(m.Value, "stuck") {
				<-release
				return nil
			}
			return note(t, string(m.Key), m.Value)
		})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- in.Run(ctx) }()
	stick := func(from, to int) {
		for i := from; i < to; i++ {
			key := fmt.Sprintf("s%d", i)
			w.publish(w.message(key, fmt.Sprintf("stuck%d", i)), w.message(key, fmt.Sprintf("behind%d", i)))
		}
		until(t, "they are stuck", func() bool { return begunOf(&mu, begun, "stuck") == to })
	}
	stick(0, workers)
	for i := range 10 {
		w.publish(w.message(fmt.Sprintf("k%d", i), "well"))
	}
	until(t, "the others are handled", func() bool {
		return in.Health().Handled == 10 && len(in.Health().Stuck) == workers
	})
	if h := in.Health(); !h.Ready || len(h.Stuck) != workers {
		t.Errorf("its health is %+v", h)
	}
	stick(workers, 2*workers)
	until(t, "it says that nothing is handled", func() bool {
		h := in.Health()
		return !h.Ready && strings.Contains(h.Why, "nothing is handled: 4 handlers")
	})
	if n := begunOf(&mu, begun, "behind"); n != 0 {
		t.Errorf("%d messages passed the stuck one of their key", n)
	}
	mu.Lock()
	for what, n := range begun {
		if strings.HasPrefix(what, "stuck") && n != 1 {
			t.Errorf("%s was begun %d times", what, n)
		}
	}
	mu.Unlock()
	close(release)
	until(t, "it continues", func() bool {
		return in.Health().Ready && begunOf(&mu, begun, "behind") == 2*workers
	})
	cancel()
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
}

func begunOf(mu *sync.Mutex, begun map[string]int, prefix string) (n int) {
	mu.Lock()
	defer mu.Unlock()
	for what := range begun {
		if strings.HasPrefix(what, prefix) {
			n++
		}
	}
	return n
}

// All workers of one consumer are stuck. It leaves its group, and the other one handles the other messages.
// The first one joins again when a handler returns. Each message takes effect once.
func TestConsumerWithAllWorkersStuckLeaves(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 4)
	w.db = memstore.New(nil) // with the real clock
	release := make(chan struct{})
	var stuck, sick atomic.Int64
	logged := &log{}
	o := &inbox.Options{Workers: 1, Timeouts: inbox.Timeouts{Handle: 50 * time.Millisecond},
		Logger: slog.New(slog.NewTextHandler(logged, nil))}
	o = o.LeaveAfter(time.Millisecond)
	first := w.inbox(o, func(ctx context.Context, t tx, m skald.Received[string]) error {
		if strings.HasPrefix(m.Value, "stuck") {
			stuck.Add(1)
			<-release
		}
		sick.Add(1)
		return keep(ctx, t, m)
	})
	stopFirst := run(t, first)
	for n := int64(1); n <= 2; n++ {
		w.publish(w.message(fmt.Sprint("s", n), fmt.Sprint("stuck", n)))
		until(t, "it is stuck", func() bool { return stuck.Load() == n })
	}
	other := w.inbox(&inbox.Options{Workers: 4}, keep)
	stopOther := run(t, other)
	until(t, "it leaves", func() bool { return logged.has("leaving the group") })
	for i := range 40 {
		w.publish(w.message(fmt.Sprintf("k%d", i), "well"))
	}
	until(t, "the other one handles all", func() bool { return other.Health().Handled >= 40 })
	if first.Health().Ready || sick.Load() != 0 {
		t.Errorf("it is ready, or has handled %d", sick.Load())
	}
	close(release)
	until(t, "it joins, and all is acknowledged",
		func() bool { return first.Health().Ready && w.acknowledged() })
	until(t, "the messages that hung are handled", func() bool {
		return first.Health().Handled+other.Health().Handled >= 42
	})
	if err := errors.Join(stopFirst(), stopOther()); err != nil {
		t.Fatal(err)
	}
	for n := range 2 {
		w.expect(fmt.Sprint("s", n+1), fmt.Sprint("stuck", n+1))
	}
}

// One handler of a batch ignores its context. Its transaction ends, other workers handle the other keys of
// the batch, and its own key waits. When it returns, its attempt has failed.
func TestHungHandlerHoldsNoOtherKeyOfItsBatch(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1)
	w.db = memstore.New(nil) // with the real clock
	release := make(chan struct{})
	free := sync.OnceFunc(func() { close(release) })
	defer free()
	var hung atomic.Int64
	in := w.inbox(&inbox.Options{Workers: 1, Batch: 20,
		Timeouts: inbox.Timeouts{Handle: 50 * time.Millisecond},
		Retry:    inbox.Retry{InitialInterval: time.Millisecond, MaxInterval: time.Millisecond}},
		func(ctx context.Context, t tx, m skald.Received[string]) error {
			if m.Value == "hangs" && hung.Add(1) == 1 {
				<-release
			}
			return keep(ctx, t, m)
		})
	for i := range 10 {
		value := "well"
		if i == 4 {
			value = "hangs"
		}
		key := fmt.Sprint("k", i)
		w.publish(w.message(key, value), w.message(key, "behind"))
	}
	stop := run(t, in)
	until(t, "the other keys are handled", func() bool {
		return in.Health().Handled == 18 && len(in.Health().Stuck) > 0
	})
	if h := in.Health(); hung.Load() != 1 || len(h.Stuck) != 1 || !h.Ready {
		t.Errorf("the handler ran %d times, health %+v", hung.Load(), h)
	}
	w.expect("k4", "")
	free()
	until(t, "all is acknowledged", w.acknowledged)
	until(t, "its key continues", func() bool { return in.Health().Handled == 20 })
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	for i := range 10 {
		if i != 4 {
			w.expect(fmt.Sprint("k", i), "well behind")
		}
	}
	w.expect("k4", "hangs behind")
}

// hangs is a batch handler that does not return. Its first two calls with the message "hangs" end when
// they are freed.
type hangs struct {
	frees              [2]chan struct{}
	once               [2]sync.Once
	hung, calls, alone atomic.Int64 // calls with several messages, and with one
}

func (h *hangs) free(n int) { h.once[n].Do(func() { close(h.frees[n]) }) }

func (h *hangs) handle(ctx context.Context, t tx, ms []skald.Message) error {
	if len(ms) > 1 {
		h.calls.Add(1)
	} else {
		h.alone.Add(1)
	}
	for _, m := range ms {
		r, err := said.Decode(ctx, m)
		if err != nil {
			return err
		}
		if n := h.hung.Load(); r.Value == "hangs" && n < 2 {
			h.hung.Add(1)
			<-h.frees[n]
		}
		if err := keep(ctx, t, r); err != nil {
			return err
		}
	}
	return nil
}

// A batch handler ignores its context. The keys of its job that are not in its call are handled. Each message
// of the call has failed. When the call returns, each is tried alone.
func TestHungBatchHandlerHoldsNoKeyOutsideItsCall(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1)
	w.db = memstore.New(nil) // with the real clock
	h, logged := &hangs{frees: [2]chan struct{}{make(chan struct{}), make(chan struct{})}}, &log{}
	defer h.free(0)
	defer h.free(1)
	in := w.inbox(&inbox.Options{Workers: 1, Batch: 20,
		Timeouts: inbox.Timeouts{Handle: 50 * time.Millisecond},
		Retry:    inbox.Retry{InitialInterval: time.Millisecond, MaxInterval: time.Millisecond},
		Logger:   slog.New(slog.NewTextHandler(logged, nil))}, nil)
	in.HandleBatch(said.Topic, h.handle, said.Type)
	in.Handle(said.Topic, "single", func(ctx context.Context, t tx, m skald.Message) error {
		return keep(ctx, t, skald.Received[string]{Message: m, Value: "single"})
	})
	for i, value := range []string{"well", "well", "hangs", "well", "well"} {
		w.publish(w.message(fmt.Sprint("b", i), value))
	}
	for i := range 10 {
		m := w.message(fmt.Sprint("s", i), "single")
		m.Type = "single"
		w.publish(m)
	}
	stop := run(t, in)
	until(t, "the keys outside of the call are handled", func() bool {
		is := in.Health()
		return is.Handled == 10 && len(is.Stuck) > 0 && is.Stuck[0].Uncounted
	})
	is := in.Health()
	if h.calls.Load() != 1 || h.alone.Load() != 0 || !is.Ready || len(is.Stuck) == 0 ||
		!strings.Contains(is.Stuck[0].Error, "4 more messages are in the same call") {
		t.Errorf("%d calls with several messages, %d with one, health %+v", h.calls.Load(),
			h.alone.Load(), is)
	}
	if !logged.has("ignores that its context ended") || !logged.has("messages=5") {
		t.Error("the log does not name the call that hangs")
	}
	h.free(0)
	until(t, "the others of the call are handled", func() bool { return in.Health().Handled == 14 })
	w.expect("b2", "")
	until(t, "the message that hangs alone is listed", func() bool {
		is := in.Health()
		return len(is.Stuck) == 1 && is.Stuck[0].Uncounted &&
			!strings.Contains(is.Stuck[0].Error, "more messages")
	})
	h.free(1)
	until(t, "all is acknowledged", w.acknowledged)
	until(t, "the message that hung is handled", func() bool { return in.Health().Handled == 15 })
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	for i, value := range []string{"well", "well", "hangs", "well", "well"} {
		w.expect(fmt.Sprint("b", i), value)
	}
	if is := in.Health(); is.Failures != 6 {
		t.Errorf("%d failures, want that of each message of the call, and of the message that hung alone",
			is.Failures)
	}
}
