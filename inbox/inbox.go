// Package inbox takes each message once: mark, lock, handle, emit, commit, in one transaction of the
// consumer's own database.
//
//	your tx ─► outbox ─► relay ─► broker ─► [inbox] ─► handler's tx ─► outbox ─► …
//
// The way of a delivery through the files: receive.go (from the broker into its partition and chain), take.go
// (intake) or batch.go (the same for several), decision.go (what was found decides: the table of
// internal/decide), settle.go (what became of it, the acknowledged prefix), run.go (the loop around these).
// One that fails goes through classify.go (whose fault it is), park.go (into the store), parked_queue.go (and
// out again) or dead.go. docs/architecture.md has a line for each file.
package inbox

import (
	"context"
	"crypto/rand"
	"sync"
	"sync/atomic"
	"time"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/broker"
	"github.com/skald-go/skald/failure"
	"github.com/skald-go/skald/inbox/internal/decide"
	"github.com/skald-go/skald/inbox/internal/partition"
	"github.com/skald-go/skald/internal/backoff"
	"github.com/skald-go/skald/internal/complete"
	"github.com/skald-go/skald/internal/control"
	"github.com/skald-go/skald/internal/fingerprint"
	"github.com/skald-go/skald/internal/telemetry"
	"github.com/skald-go/skald/store"
)

// A Handler works on one message inside tx, which the inbox commits. Nil: done. skald.Reject: undone for
// good, and others are told. skald.RetryAfter: not yet. skald.Permanent: a dead letter. Any other error:
// undone, parked and tried again, with the messages of its key waiting behind it.
type Handler[TTx any] func(ctx context.Context, tx TTx, m skald.Message) error

// A ResultHandler is a Handler that answers something, which is stored with the mark. With skald.Reject it is
// the rejection's answer; with any other error it is nothing.
type ResultHandler[TTx any] func(ctx context.Context, tx TTx, m skald.Message) (Result, error)

// A Result is what a handler answers besides its effect.
type Result struct {
	Code  int32         // of your choice
	Value any           // encoded once, by Options.Codec; at most 64 KiB then. Nil: none
	Say   []skald.Draft // written into the outbox, behind what the handler wrote itself
}

// An Inbox consumes for one group: the consumer of the marks.
type Inbox[TTx any] struct {
	db       store.Driver[TTx]
	bus      broker.Subscriber
	group    string
	o        Options
	with     complete.Completer
	tel      *telemetry.Inbox
	handlers map[store.Kind]ResultHandler[TTx]
	beside   Known[TTx]                        // nil: nothing
	many     map[store.Kind]*BatchHandler[TTx] // for several messages at once; in handlers, for one
	steps    map[store.Kind]course
	took     LegacyLookup[TTx] // nil: nothing
	table    *decide.Table
	calls    map[store.Kind]outside[TTx]
	topics   []string
	retry    failure.Retry
	prints   *failure.Fingerprints
	announce failure.Announcer

	// The rest belongs to the goroutine of Run or Step.
	checked    bool
	session    string // of this inbox, random: who has a lease
	sub        broker.Subscription
	partitions map[string]*partition.Partition
	schedule   partition.Schedule
	size       int    // of a batch, at most
	seenOn     string // the run of the database's server that was seen last; "": none yet, or it has none
	strange    int    // messages in a row that were looked up, and not finished before
	gate       gate
	breaker    breaker
	apart      map[source]*breaker // of malformed messages

	steering steering
	skips    atomic.Pointer[map[string]control.Order]

	askAt time.Time // when it is looked again for what was admitted

	key          atomic.Pointer[fingerprint.Printer]
	keyAt        time.Time // when it is read again: the database may be another one by then
	parkedQueue  parkedQueue
	checkpointer checkpointer
	knownTypes   knownTypes
	said         announcer

	begins beginnings

	delays  delays
	failing map[string]*failing // by what is done

	follows atomic.Bool // the store can begin a message with the commit of another

	acts acts

	mu     sync.Mutex
	health Health
	kept   store.Keeping // as last counted, and what was parked since
	stuck  []Stuck

	sayApart backoff.Rarely // of messages put into quarantine
	untold   int            // of these, since it was said last
}

var (
	_ skald.Runner  = (*Inbox[int])(nil)
	_ skald.Stepper = (*Inbox[int])(nil)
)

// New is an inbox over db for the consumer group, fed by bus. Tell it what to handle with On or Handle before
// Run.
func New[TTx any](db store.Driver[TTx], bus broker.Subscriber, group string, o *Options) *Inbox[TTx] {
	d := o.orDefaults()
	in := &Inbox[TTx]{
		db: db, bus: bus, group: group, o: d, session: rand.Text(),
		with:        complete.Completer{Now: d.Now, NewID: d.NewID, Codec: d.Codec},
		tel:         telemetry.NewInbox(telemetry.Providers{Meter: d.MeterProvider, Tracer: d.TracerProvider}, group),
		handlers:    map[store.Kind]ResultHandler[TTx]{},
		many:        map[store.Kind]*BatchHandler[TTx]{},
		size:        d.Batch,
		table:       decide.New(),
		steps:       map[store.Kind]course{},
		calls:       map[store.Kind]outside[TTx]{},
		parkedQueue: newParkedQueue(),
		retry: failure.Retry{First: d.Retry.First, Most: d.Retry.Most, Attempts: d.Retry.Attempts,
			Age: d.Retry.Age},
		prints:     failure.NewFingerprints(),
		breaker:    breaker{o: d.Breaker},
		partitions: map[string]*partition.Partition{},
		apart:      map[source]*breaker{},
		delays:     delays{of: map[store.Identity]*delay{}, say: seldom()},
		failing:    map[string]*failing{},
		knownTypes: knownTypes{named: map[store.Kind]bool{}},
		health:     Health{Live: true, Why: "not subscribed yet"},
		sayApart:   backoff.Rarely{First: time.Second, Most: time.Minute},
	}
	in.announce = failure.Announcer{Topic: d.Dead.Topic, Copy: d.Dead.Copy, Headers: d.Dead.Headers,
		Complete: in.with.Messages, Logger: d.Logger}
	in.checkpointer.member = d.Instance.Member
	in.checkpointer.reset(true)
	return in
}

// On handles the event e with h. Types of the same topic that no handler is for are skipped, without a mark;
// those that another build of the consumer handles, as while a new one is rolled out, are parked for it.
func On[TTx, T any](in *Inbox[TTx], e skald.Event[T], h func(ctx context.Context, tx TTx, m skald.Received[T]) error) {
	in.Handle(e.Topic, e.Type, func(ctx context.Context, tx TTx, m skald.Message) error {
		r, err := decode(ctx, e, m)
		if err != nil {
			return err
		}
		return h(ctx, tx, r)
	})
}

func decode[T any](ctx context.Context, e skald.Event[T], m skald.Message) (skald.Received[T], error) {
	r, err := e.Decode(ctx, m)
	if err != nil {
		return r, &failure.MalformedError{Err: err}
	}
	return r, nil
}

// Handle is On for whole messages. Of two handlers for one type of a topic the later one stays.
func (in *Inbox[TTx]) Handle(topic, typ string, h Handler[TTx]) {
	in.HandleResult(topic, typ, func(ctx context.Context, tx TTx, m skald.Message) (Result, error) { return Result{}, h(ctx, tx, m) })
}

// OnResult is On for handlers that answer something.
func OnResult[TTx, T any](in *Inbox[TTx], e skald.Event[T], h func(ctx context.Context, tx TTx, m skald.Received[T]) (Result, error)) {
	in.HandleResult(e.Topic, e.Type, func(ctx context.Context, tx TTx, m skald.Message) (Result, error) {
		r, err := decode(ctx, e, m)
		if err != nil {
			return Result{}, err
		}
		return h(ctx, tx, r)
	})
}

// HandleResult is Handle for handlers that answer something.
func (in *Inbox[TTx]) HandleResult(topic, typ string, h ResultHandler[TTx]) {
	known := false
	for k := range in.handlers {
		known = known || k.Topic == topic
	}
	if !known {
		in.topics = append(in.topics, topic)
	}
	in.handlers[store.Kind{Topic: topic, Type: typ}] = h
	delete(in.many, store.Kind{Topic: topic, Type: typ})
	delete(in.steps, store.Kind{Topic: topic, Type: typ})
	delete(in.calls, store.Kind{Topic: topic, Type: typ})
}
