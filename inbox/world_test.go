package inbox_test

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/broker/membroker"
	"github.com/skald-go/skald/inbox"
	"github.com/skald-go/skald/outbox"
	"github.com/skald-go/skald/store"
	"github.com/skald-go/skald/store/memstore"
)

type tx = *memstore.Tx

// world is a consumer's database, a broker and a clock. Tests of Step move the clock.
type world struct {
	t   *testing.T
	db  *memstore.Store
	bus *membroker.Broker
	mu  sync.Mutex
	now time.Time
	n   int
}

var said = skald.Event[string]{Topic: "orders", Type: "said"}

func newWorld(t *testing.T, partitions int) *world {
	w := &world{t: t, now: time.Now()}
	w.db = memstore.New(&memstore.Options{Now: w.clock})
	w.bus = membroker.New(nil)
	if err := w.bus.MakeTopics(t.Context(), partitions, "orders"); err != nil {
		t.Fatal(err)
	}
	return w
}

func (w *world) clock() time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.now
}

func (w *world) pass(d time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.now = w.now.Add(d)
}

// message returns a message of another service; key "" is none.
func (w *world) message(key, data string) skald.Message {
	w.n++
	m := skald.Message{ID: fmt.Sprintf("m-%d", w.n), Source: "/other", Type: "said", Topic: "orders",
		Data: fmt.Appendf(nil, "%q", data)}
	if key != "" {
		m.Key = []byte(key)
	}
	return m
}

func (w *world) publish(ms ...skald.Message) {
	w.t.Helper()
	if err := w.bus.Publish(w.t.Context(), ms).Wait(w.t.Context()); err != nil {
		w.t.Fatal(err)
	}
}

// note is the effect of handlers: it appends to a list in the user's table. So an effect that happens
// twice or out of order is visible.
func note(t tx, list, what string) error {
	old, _ := t.Get(list)
	return t.Put(list, strings.TrimPrefix(old+" "+what, " "))
}

func (w *world) expect(list, want string) {
	w.t.Helper()
	if got := w.db.User()[list]; got != want {
		w.t.Errorf("%s: %q, want %q", list, got, want)
	}
}

func (w *world) inbox(o *inbox.Options,
	h func(ctx context.Context, t tx, m skald.Received[string]) error) *inbox.Inbox[tx] {
	return w.over(w.db, o, h)
}

func (w *world) over(db store.Driver[tx], o *inbox.Options,
	h func(ctx context.Context, t tx, m skald.Received[string]) error) *inbox.Inbox[tx] {
	if o == nil {
		o = &inbox.Options{}
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	in := inbox.New(db, w.bus, "stock", o)
	inbox.On(in, said, h)
	inbox.Overridable(in)
	return in
}

// begins counts the transactions that a stepped inbox begins. The count identifies the transaction of a
// handler: each function of a shared transaction gets a different handle.
type begins struct {
	store.Driver[tx]
	n int
}

func (b *begins) Begin(ctx context.Context, in store.Intake) (store.Unit[tx], error) {
	b.n++
	return b.Driver.Begin(ctx, in)
}

// stepper returns an inbox with the world's clock.
func (w *world) stepper(h func(ctx context.Context, t tx, m skald.Received[string]) error) *inbox.Inbox[tx] {
	return w.inbox(&inbox.Options{Now: w.clock}, h)
}

// quiet calls Step until nothing is left to do.
func (w *world) quiet(in skald.Stepper) {
	w.t.Helper()
	for range 100_000 {
		busy, err := in.Step(w.t.Context())
		if err != nil {
			w.t.Fatal(err)
		}
		if !busy {
			return
		}
	}
	w.t.Fatal("never quiet")
}

// until polls ok for up to 3 minutes. The limit only ends a hang: a busy machine may be slow.
func until(t *testing.T, what string, ok func() bool) {
	t.Helper()
	untilFor(t, 3*time.Minute, what, ok)
}

func untilFor(t *testing.T, patience time.Duration, what string, ok func() bool) {
	t.Helper()
	deadline := time.Now().Add(patience)
	for wait := time.Millisecond; !ok(); wait = min(2*wait, 32*time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("waited in vain: %s", what)
		}
		time.Sleep(wait) // growing pauses: ok may ask a database
	}
}

// run starts Run and returns a function that stops it and returns its error.
func run(t *testing.T, in skald.Runner) (stop func() error) {
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- in.Run(ctx) }()
	var once sync.Once
	var err error
	stop = func() error {
		once.Do(func() {
			cancel()
			select {
			case err = <-ended:
			case <-time.After(time.Minute):
				t.Error("Run does not end")
			}
		})
		return err
	}
	t.Cleanup(func() { _ = stop() })
	return stop
}

// acknowledged reports whether the consumer has acknowledged every delivery, also those of messages that
// have a mark.
func (w *world) acknowledged() bool {
	w.t.Helper()
	lag, err := w.bus.Lag(w.t.Context(), "stock", "orders")
	if err != nil {
		w.t.Fatal(err)
	}
	n, known := lag["orders"]
	return known && n == 0
}

// backlog returns the number of unacknowledged messages of the group: those that a new member gets.
func (w *world) backlog() int {
	w.t.Helper()
	n := 0
	in := inbox.New(w.db, w.bus, "stock", &inbox.Options{Logger: slog.New(slog.DiscardHandler)})
	in.Handle("orders", "nobody's", func(context.Context, tx, skald.Message) error { return nil })
	for {
		busy, err := in.Step(w.t.Context())
		if err != nil {
			w.t.Fatal(err)
		}
		if !busy {
			break
		}
	}
	n = int(in.Health().Received)
	if err := in.Close(w.t.Context()); err != nil {
		w.t.Fatal(err)
	}
	return n
}

// kept returns the parked messages and dead letters.
func (w *world) kept() []store.Parked {
	w.t.Helper()
	all, err := store.ListParked(w.t.Context(), w.db, store.ParkedQuery{Limit: 1000})
	if err != nil {
		w.t.Fatal(err)
	}
	return all
}

// dead returns the dead letters.
func (w *world) dead() []store.Parked {
	w.t.Helper()
	return slices.DeleteFunc(w.kept(), func(p store.Parked) bool { return p.Dead == nil })
}

func (w *world) apply(es ...store.Effect) {
	w.t.Helper()
	stood, err := w.db.Apply(w.t.Context(), es...)
	if err != nil || slices.Contains(stood, false) {
		w.t.Fatalf("%v %v", stood, err)
	}
}

type receipt struct {
	Number int
	Note   string
}

// pay is work for once.Do. If it happens twice, that is visible.
func pay(w *world, number int) func(context.Context, tx) (receipt, error) {
	out := outbox.New(w.db, nil)
	return func(ctx context.Context, t tx) (receipt, error) {
		if err := out.Write(ctx, t, said.New("k", fmt.Sprint(number))); err != nil {
			return receipt{}, err
		}
		return receipt{number, "größe"}, note(t, "paid", fmt.Sprint(number))
	}
}
