// Package inbox takes each message once: mark, lock, handle, emit, commit, in one transaction of the
// consumer's own database.
//
//	your tx ─► outbox ─► relay ─► broker ─► [inbox] ─► handler's tx ─► outbox ─► …
//
// The way of a delivery: receive.go (from the broker into its partition and chain: internal/partition),
// internal/pick (what a worker gets next), internal/exec (the attempt: intake, handler, commit, or parking;
// what was found decides: internal/decide), settle.go (what became of it, the acknowledged prefix), loop.go
// (the loop around these). What was parked comes out of the store by internal/parked.
// docs/architecture.md has a line for each file and each room.
package inbox

import (
	"context"
	"crypto/rand"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/broker"
	"github.com/skald-go/skald/failure"
	"github.com/skald-go/skald/inbox/internal/checkpoint"
	"github.com/skald-go/skald/inbox/internal/exec"
	"github.com/skald-go/skald/inbox/internal/partition"
	"github.com/skald-go/skald/internal/telemetry"
	"github.com/skald-go/skald/internal/vitals"
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
	Say   []skald.Draft // written into the outbox, after what the handler wrote itself
}

// An Inbox consumes for one group: the consumer of the marks.
type Inbox[TTx any] struct {
	db     store.Driver[TTx]
	bus    broker.Subscriber
	group  string
	o      Options
	tel    *telemetry.Inbox
	topics []string
	retry  failure.Retry
	exec   *exec.Executor[TTx]

	registered registered

	// The rest belongs to the goroutine of Run or Step.
	checked  bool
	session  string // of this inbox, random: who has a lease
	sub      broker.Subscription
	absent   absent
	outage   *brokerOutage
	facts    facts
	schedule partition.Schedule
	pick     *picker
	seen     *filter
	probe    *vitals.Probe // of the database
	retries  *retries
	inPlace  atomic.Int64 // messages that wait here for their next attempt
	breaker  *consumerBreaker

	orders *operatorOrders

	askAt time.Time // when it is looked again for what was admitted

	parked      *queue
	checkpoints *checkpoint.Checkpointer
	said        *announcer

	allStuck string // why no worker is left; "": there is one

	delays *messages
	work   *work

	mu     sync.Mutex
	health Health
	kept   store.Keeping // as last counted, and what was parked since
	stuck  []Stuck
}

var (
	_ skald.Runner  = (*Inbox[int])(nil)
	_ skald.Stepper = (*Inbox[int])(nil)
)

// New is an inbox over db for the consumer group, fed by bus. Tell it what to handle with On or Handle before
// Run.
func New[TTx any](db store.Driver[TTx], bus broker.Subscriber, group string, o *Options) *Inbox[TTx] {
	d := o.orDefaults()
	log := d.Logger.With("consumer", group)
	in := &Inbox[TTx]{
		db: db, bus: bus, group: group, o: d, session: rand.Text(),
		tel: telemetry.NewInbox(telemetry.Providers{Meter: d.MeterProvider, Tracer: d.TracerProvider}, group),
		retry: failure.Retry{First: d.Retry.First, Most: d.Retry.Most, Attempts: d.Retry.Attempts,
			Age: d.Retry.Age, Uncharged: d.Retry.Uncharged},
		retries: newRetries(d.Workers),
		breaker: newBreaker(limits(d.Breaker)),
		delays:  newMessages(log),
		work:    newWork(log),
		health:  Health{Live: true, Why: "not subscribed yet"},
	}
	in.exec = exec.New(db, in.execConfig())
	in.outage = newOutage(log)
	in.facts.store, in.facts.broker = vitals.Store(db, log, d.Now), vitals.Broker(bus, log)
	in.probe = in.facts.store.Probe()
	in.said = newLogonce(config{Group: group, DB: db, Bus: bus, Handled: in.exec.Kinds,
		Topics: func() []string { return in.topics }, Log: log})
	in.orders = newOrders(group, log)
	in.seen = newSeen(in.seenConfig())
	in.parked = newParked(in.parkedConfig(), &in.schedule)
	in.checkpoints = checkpoint.New(checkpoint.Config{Group: group, Member: d.Instance.Member, DB: db,
		Kinds: in.exec.Kinds, Handles: in.exec.Handles, Batch: d.Batch, RetryFirst: d.Retry.First,
		Now: d.Now, Logger: d.Logger}, &in.schedule)
	in.pick = newPick(pickConfig{Workers: d.Workers, Batch: d.Batch, Now: d.Now, Schedule: &in.schedule,
		Parked: in.parked, Breaker: in.breaker, Retries: in.retries,
		Checkpoints: in.checkpoints, Paused: in.orders.Pause,
		AsksBeside: in.exec.AsksBeside, Follows: in.exec.Follows})
	return in
}

// On handles the event e with h. Types of the same topic that no handler is for are skipped, without a mark;
// those that another build of the consumer handles, as while a new one is rolled out, are parked for it.
func On[TTx, T any](in *Inbox[TTx], e skald.Event[T],
	h func(ctx context.Context, tx TTx, m skald.Received[T]) error) {
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

// Handle is On for whole messages. Run and Step refuse two handlers for one type of a topic.
func (in *Inbox[TTx]) Handle(topic, typ string, h Handler[TTx]) {
	in.HandleResult(topic, typ,
		func(ctx context.Context, tx TTx, m skald.Message) (Result, error) { return Result{}, h(ctx, tx, m) })
}

// OnResult is On for handlers that answer something.
func OnResult[TTx, T any](in *Inbox[TTx], e skald.Event[T],
	h func(ctx context.Context, tx TTx, m skald.Received[T]) (Result, error)) {
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
	in.registered.add(store.Kind{Topic: topic, Type: typ})
	if !slices.Contains(in.topics, topic) {
		in.topics = append(in.topics, topic)
	}
	in.exec.Handle(store.Kind{Topic: topic, Type: typ},
		func(ctx context.Context, tx TTx, m skald.Message) (exec.Reply, error) {
			r, err := h(ctx, tx, m)
			return exec.Reply(r), err
		})
}
