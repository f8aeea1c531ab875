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
	"cmp"
	"context"
	"crypto/rand"
	"log/slog"
	"os"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/broker"
	"github.com/skald-go/skald/failure"
	"github.com/skald-go/skald/inbox/internal/decide"
	"github.com/skald-go/skald/internal/backoff"
	"github.com/skald-go/skald/internal/complete"
	"github.com/skald-go/skald/internal/control"
	"github.com/skald-go/skald/internal/fingerprint"
	"github.com/skald-go/skald/internal/shortlog"
	"github.com/skald-go/skald/internal/telemetry"
	"github.com/skald-go/skald/once"
	"github.com/skald-go/skald/store"
)

// Options of an Inbox. The zero value works.
type Options struct {
	// Workers is how many handlers run at the same time. Default 16. Messages of one key never do.
	Workers int
	// Batch is how many messages may share a transaction, so that they share its COMMIT: each ends as it
	// would alone, but a handler may run twice, and sees what those before it wrote. About 100 is best. As
	// many do as there are for each worker, one where little comes; nothing waits. Default 1.
	Batch int
	// Isolation of the transactions that handlers run in. Those that collide by it are tried again at once.
	// At a higher one than the default on PostgreSQL only, or on SQLite, whose transactions are serializable
	// in any case. Default store.ReadCommitted.
	Isolation store.Isolation
	// Handle is how long one handler may take; then its context ends and the message is tried again. Default
	// 60 s.
	Handle time.Duration
	// Wait is how long an intake may wait for a rival that has the message or an entity in hand. Default 5 s.
	Wait time.Duration
	// Drain bounds how long Run goes on with what was begun once its context is done. Default 20 s. Handlers
	// still at work then have their context ended; Run leaves a second later, whether they heed it or not.
	Drain time.Duration
	// MaxHeld is how many unacknowledged deliveries a partition may have before it pauses. Default 10,000; at
	// 16 MiB of them it pauses in any case.
	MaxHeld int
	// MaxBytes bounds the messages in memory, in bytes: the unacknowledged ones of all partitions together,
	// and half as many claimed ones. Partitions pause so that they keep it; what the broker's client has
	// fetched is apart. Default 64 MiB, at least 8 MiB.
	MaxBytes int
	// MaxRecord is the largest payload that is handled, in bytes, and the most that key, headers and
	// attributes may take together. A larger record is a dead letter of the kind too_large, with its size,
	// its SHA-256, its position and its first 64 KiB. Default 900 KiB, which is the most that an outbox
	// takes.
	MaxRecord int
	// RetryFirst and RetryMost are the waits before a failed message is tried again: doubled from the one to
	// the other, with jitter. Defaults 100 ms and 5 min. After an outage it is 30 s at most.
	RetryFirst, RetryMost time.Duration
	// Attempts and Age are after how many failures, and how long after the first of them, a message becomes a
	// dead letter. Defaults 25, which takes about an hour, and 24 h.
	Attempts int
	Age      time.Duration
	// Classify says what an error means for its message, "" leaves it to Skald: a panic, skald.Permanent,
	// skald.UnknownVersion and what the codec cannot read are told apart; all else, the violation of a
	// constraint of yours and the error of another service too, is Transient. Default: none. It is not asked
	// of Reject, RetryAfter and Outage, nor of outages of the transaction that was lent.
	Classify func(m skald.Message, err error) failure.Class
	// MaxCrashes is how often a message may end its process, by what cannot be recovered from, while nothing
	// but it is run; then it is a dead letter. What was left in hand by a process that died is run so.
	// Default 3.
	MaxCrashes int
	// FreeDead lets the messages of a key go on behind a dead letter. Default: they wait, in order, until it
	// is redriven or dropped.
	FreeDead bool
	// RejectDead keeps each rejection as a dead letter, too, with its code and reason; the verdict stands,
	// and is answered again. It does not hold its key, unless RejectHolds. Default: no.
	RejectDead, RejectHolds bool
	// DeadTopic is told of each dead letter, through the outbox: by reference (a failure.Announcement), or
	// with DeadCopy by the message itself, unless that would be too large, which is logged. A copy of a
	// message without a type has failure.CopyType. Default: none.
	DeadTopic string
	DeadCopy  bool
	// DeadHeaders are the names that the headers of a copy have instead of x-attempt, x-failed-reason,
	// x-failed-at, x-original-id, x-original-source and x-original-topic; "" leaves one out. They stand
	// behind the message's own, of which those of the same names are left out. Default: these names.
	DeadHeaders map[string]string
	// Breaker stops the consumer where many messages fail in one way. Default: as it says.
	Breaker Breaker
	// ParkedRows and ParkedBytes bound what is parked for the consumer, KeyRows and KeyBytes what is parked
	// of one key: then the partition pauses at the broker. Defaults 100,000 and 1 GiB, 10,000 and 256 MiB.
	// The first two are counted now and then, so that a few more may be; above 10,000 rows PostgreSQL
	// estimates them.
	ParkedRows, ParkedBytes int64
	KeyRows, KeyBytes       int64
	// Host and Version are noted with failures. Defaults: the name of the host, the version of the main
	// module.
	Host, Version string

	// Member is the stable name of this instance at the broker. Empty: none.
	Member string
	// Entities names the entities that a message is about: they are locked with the mark, in the same round
	// trip.
	Entities func(skald.Message) []store.Lock
	// Settings of the database hold in the transaction of a message's handler, set in the same round trip:
	// the tenant that row-level security asks for, a role. PostgreSQL only. Default: none.
	Settings func(skald.Message) []store.Setting

	// Identity says what a message is, for ever: a second one of the same identity is not taken. Default
	// ByID. ByHeader, ByField, ByHash and ByPosition are for messages without an id of their own; a business
	// key is a function of yours. Where it gives an error the message fails. Ids that are UUIDs of version 7
	// carry their time: see Retention in docs/operations.md.
	Identity func(broker.Delivery) (store.Identity, error)
	// Attempt reads how often a message failed before it came here, as a retry topic notes it:
	// AttemptByHeader or AttemptByField. Those failures count towards Attempts. Default: none.
	Attempt AttemptSource
	// Fingerprint is what must not differ between messages of one identity: one that does is put into
	// quarantine. Nil bytes: nothing is compared. Default: type and payload, without the field that
	// AttemptByField reads.
	Fingerprint func(skald.Message) []byte
	// Again: repeats of these messages have sent again what was said with them the first time (Result.Say,
	// and that of a rejection), under the same ids. It must have been so then. Default: of none.
	Again func(skald.Message) bool

	// Seen is asked before the database whether messages are finished, and told of those that are: a repeat
	// that it knows costs no statement. It cannot make anything wrong: see once.Cache. Its TTL has to be
	// within the time for which marks are kept, else the inbox does not start. Default: none.
	Seen once.Cache
	// Ahead tells of messages that another process seems to have in hand: they wait at their place, for no
	// longer than Wait, without a connection. It is a hint and guards nothing. It is asked for each message
	// that is taken alone. Default: none.
	Ahead once.Hint

	// Keep has Run see to the retention of the database, marks first of all: of all instances that have it,
	// one at a time does. Nil: a relay of this database does. It needs the rights of a relay.
	Keep *store.Retention
	// Window says what marks have to outlive; it is compared at the start with how long they are kept. See
	// there.
	Window Window

	Codec  skald.Codec                // for drafts of a rejection that name none. Default JSON
	Now    func() time.Time           // default time.Now
	NewID  func(now time.Time) string // default: UUIDs of version 7
	Logger *slog.Logger               // ids and positions, never payloads. Default slog.Default()

	MeterProvider  metric.MeterProvider // default OpenTelemetry's global one
	TracerProvider trace.TracerProvider // for a span of each attempt at a message. Default the global one
}

func (o *Options) orDefaults() Options {
	var d Options
	if o != nil {
		d = *o
	}
	d.Workers = max(1, cmp.Or(d.Workers, 16))
	d.Batch = max(1, d.Batch)
	d.Handle = cmp.Or(d.Handle, time.Minute)
	d.Wait = cmp.Or(d.Wait, 5*time.Second)
	d.Drain = cmp.Or(d.Drain, 20*time.Second)
	d.MaxHeld = cmp.Or(d.MaxHeld, 10_000)
	d.MaxBytes = max(cmp.Or(d.MaxBytes, 64<<20), 8<<20)
	d.MaxRecord = cmp.Or(d.MaxRecord, complete.MaxData)
	d.RetryFirst = cmp.Or(d.RetryFirst, 100*time.Millisecond)
	d.RetryMost = cmp.Or(d.RetryMost, 5*time.Minute)
	d.Attempts = max(1, cmp.Or(d.Attempts, 25))
	d.Age = cmp.Or(d.Age, 24*time.Hour)
	d.MaxCrashes = max(1, cmp.Or(d.MaxCrashes, 3))
	d.ParkedRows, d.ParkedBytes = cmp.Or(d.ParkedRows, 100_000), cmp.Or(d.ParkedBytes, 1<<30)
	d.Breaker = d.Breaker.orDefaults()
	d.KeyRows, d.KeyBytes = cmp.Or(d.KeyRows, 10_000), cmp.Or(d.KeyBytes, 256<<20)
	if d.Host == "" {
		d.Host, _ = os.Hostname() // or none
	}
	if info, ok := debug.ReadBuildInfo(); ok && d.Version == "" {
		d.Version = info.Main.Version
	}
	if d.Now == nil {
		d.Now = time.Now
	}
	if d.Logger == nil {
		d.Logger = slog.Default()
	}
	d.Logger = shortlog.New(d.Logger)
	return d
}

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
	handlers map[kind]ResultHandler[TTx]
	beside   Known[TTx]                  // nil: nothing
	many     map[kind]*BatchHandler[TTx] // for several messages at once; in handlers, for one
	steps    map[kind]course
	took     LegacyLookup[TTx] // nil: nothing
	table    *decide.Table
	calls    map[kind]outside[TTx]
	topics   []string
	retry    failure.Retry
	prints   *failure.Fingerprints
	announce failure.Announcer

	// The rest belongs to the goroutine of Run or Step.
	checked    bool
	session    string // of this inbox, random: who has a lease
	sub        broker.Subscription
	partitions map[string]*partition
	ready      readiness
	arrived    int64     // deliveries and claims there were
	size       int       // of a batch, at most
	seenOn     string    // the run of the database's server that was seen last; "": none yet, or it has none
	strange    int       // messages in a row that were looked up, and not finished before
	waiting    []*chain  // whose head may not start before its due time
	alarm      time.Time // the earliest of these
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

type kind struct{ topic, name string }

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
		handlers:    map[kind]ResultHandler[TTx]{},
		many:        map[kind]*BatchHandler[TTx]{},
		size:        d.Batch,
		table:       decide.New(),
		steps:       map[kind]course{},
		calls:       map[kind]outside[TTx]{},
		parkedQueue: newParkedQueue(),
		retry:       failure.Retry{First: d.RetryFirst, Most: d.RetryMost, Attempts: d.Attempts, Age: d.Age},
		prints:      failure.NewFingerprints(),
		breaker:     breaker{o: d.Breaker},
		partitions:  map[string]*partition{},
		apart:       map[source]*breaker{},
		delays:      delays{of: map[store.Identity]*delay{}, say: seldom()},
		failing:     map[string]*failing{},
		knownTypes:  knownTypes{named: map[kind]bool{}},
		health:      Health{Live: true, Why: "not subscribed yet"},
		sayApart:    backoff.Rarely{First: time.Second, Most: time.Minute},
	}
	in.announce = failure.Announcer{Topic: d.DeadTopic, Copy: d.DeadCopy, Headers: d.DeadHeaders, Complete: in.with.Messages, Logger: d.Logger}
	in.checkpointer.member = d.Member
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
		known = known || k.topic == topic
	}
	if !known {
		in.topics = append(in.topics, topic)
	}
	in.handlers[kind{topic, typ}] = h
	delete(in.many, kind{topic, typ})
	delete(in.steps, kind{topic, typ})
	delete(in.calls, kind{topic, typ})
}
