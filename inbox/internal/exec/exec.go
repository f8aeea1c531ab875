// Package exec does the attempts at an inbox's messages: begin a transaction and take the message in, run
// its handler, commit, or undo that and park it; and what is between these: steps of sagas, outside calls,
// batches, dead letters.
//
// A job goes in and a Result for each message of it comes out. What is done about what was found is decided
// by the table of package decide. An Executor is for any number of goroutines, the workers: it has nothing
// of the partitions, and what it keeps of a message is in that message's entry, which is a worker's alone
// while it is in hand.
package exec

import (
	"log/slog"
	"maps"
	"slices"
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
	"github.com/skald-go/skald/internal/telemetry"
	"github.com/skald-go/skald/once"
	"github.com/skald-go/skald/store"
)

// A Config is what an Executor goes by: what inbox.Options say, with their defaults. Functions that may be
// nil are the user's.
type Config struct {
	Group     string
	Telemetry *telemetry.Inbox
	Complete  complete.Completer // of what handlers say
	Announce  failure.Announcer
	Codec     skald.Codec // nil: JSON
	Now       func() time.Time
	Logger    *slog.Logger

	Isolation store.Isolation
	Entities  func(skald.Message) []store.Lock    // nil: none
	Settings  func(skald.Message) []store.Setting // nil: none

	Workers int // that run at the same time; 0: one

	Handle time.Duration // a handler's time
	Wait   time.Duration // how long an intake waits for rivals

	Retry    failure.Retry
	Crashes  int
	Classify func(skald.Message, error) failure.Class // nil: none

	// Up tells whether the database was there when it was asked last, and since when if it was away before.
	Up func() (since time.Time, up bool)
	// InPlace returns how many messages of the consumer wait in memory for their next attempt.
	InPlace func() int

	KeyRows, KeyBytes          int64       // of what is parked of one key
	Room                       func() bool // whether more may be parked
	DeadRoom                   func() bool // whether a message of a full key may become a dead letter
	FreeKey                    bool
	Rejections, RejectionsHold bool

	Fingerprint func(skald.Message) []byte // nil: of type and payload
	Without     func(data []byte) []byte   // the payload as that fingerprint has it
	Earlier     func(broker.Delivery) int  // failures before it came; nil: none
	Repeat      func(skald.Message) bool   // nil: of none
	Ahead       once.Hint                  // nil: none

	Host, Version string
}

// An Executor does jobs. Tell it what to run before the first one.
type Executor[TTx any] struct {
	o     Config
	db    store.Driver[TTx]
	table *decide.Table

	registry[TTx]
	printer
	prints  *failure.Fingerprints
	skips   atomic.Pointer[map[string]control.Order]
	follows atomic.Bool // the store can begin a message with the commit of another
	acts    acts
	// unreturned has an element for each pure function that runs.
	unreturned chan struct{}
	waits      entityWaits
	untold     apart
	wary       atomic.Int32 // transactions with savepoints that are left since a rejection
}

// New is an Executor over db.
func New[TTx any](db store.Driver[TTx], o Config) *Executor[TTx] {
	return &Executor[TTx]{
		o:          o,
		db:         db,
		table:      decide.New(),
		registry:   newRegistry[TTx](),
		printer:    printer{of: o.Fingerprint, without: o.Without},
		prints:     failure.NewFingerprints(),
		waits:      entityWaits{workers: o.Workers},
		unreturned: make(chan struct{}, 2*max(o.Workers, 1)),
		untold:     apart{say: backoff.LogLimit{First: time.Second, Most: time.Minute}},
	}
}

// Follows tells whether the store was seen to begin a message with the commit of another.
func (x *Executor[TTx]) Follows() bool { return x.follows.Load() }

// Skip says which failures, by fingerprint, an operator has skipped from now on.
func (x *Executor[TTx]) Skip(orders map[string]control.Order) { x.skips.Store(&orders) }

// Longest describes the handlers that run for the longest, at most n.
func (x *Executor[TTx]) Longest(n int) []string { return x.acts.longest(n) }

// Running lists the handlers and calls that run now, also of an earlier session.
func (x *Executor[TTx]) Running() []Running { return x.acts.running(mercy) }

// Overdue lists the handlers and calls that go on although their time is over, and logs each once.
func (x *Executor[TTx]) Overdue() []Running {
	return x.acts.overdue(mercy, x.o.Logger.With("consumer", x.o.Group))
}

// A registry is what is run for which messages. Nothing changes it after the first job.
type registry[TTx any] struct {
	handlers map[store.Kind]Handler[TTx]
	many     map[store.Kind]*BatchHandler[TTx] // for several messages at once; in handlers, for one
	steps    map[store.Kind]Course
	calls    map[store.Kind]Outside[TTx]
	beside   LegacyDedupFunc[TTx] // nil: nothing
	took     Lookup[TTx]          // nil: nothing
	// alone has the kinds with a handler that left state in its transaction.
	alone *atomic.Pointer[map[store.Kind]bool]
}

func newRegistry[TTx any]() registry[TTx] {
	return registry[TTx]{
		handlers: map[store.Kind]Handler[TTx]{},
		many:     map[store.Kind]*BatchHandler[TTx]{},
		steps:    map[store.Kind]Course{},
		calls:    map[store.Kind]Outside[TTx]{},
		alone:    &atomic.Pointer[map[store.Kind]bool]{},
	}
}

// Handle has messages of k run by h, and by nothing else that was said before.
func (g *registry[TTx]) Handle(k store.Kind, h Handler[TTx]) {
	g.handlers[k] = h
	delete(g.many, k)
	delete(g.steps, k)
	delete(g.calls, k)
}

// HandleBatch has several messages of k, which has a handler, run by h at once. Those whose h is the same
// may be of several kinds.
func (g *registry[TTx]) HandleBatch(k store.Kind, h *BatchHandler[TTx]) { g.many[k] = h }

// Course says what messages of k, which has a handler, are to a saga.
func (g *registry[TTx]) Course(k store.Kind, c Course) { g.steps[k] = c }

// Call says which call the handler of k intends.
func (g *registry[TTx]) Call(k store.Kind, c Outside[TTx]) { g.calls[k] = c }

// Beside has known asked of each message in its transaction.
func (g *registry[TTx]) Beside(known LegacyDedupFunc[TTx]) { g.beside = known }

// LegacySteps has took asked of steps that nobody here has taken.
func (g *registry[TTx]) LegacySteps(took Lookup[TTx]) { g.took = took }

// Handles tells whether there is a handler for k.
func (g *registry[TTx]) Handles(k store.Kind) bool { return g.handlers[k] != nil }

// Calls tells whether the handler of k makes a call.
func (g *registry[TTx]) Calls(k store.Kind) bool {
	_, some := g.calls[k]
	return some
}

// Kinds are those that there are handlers for, in their order.
func (g *registry[TTx]) Kinds() []store.Kind {
	return slices.SortedFunc(maps.Keys(g.handlers), partition.CompareKinds)
}

// AsksBeside tells whether a table of the user's is asked of each message.
func (g *registry[TTx]) AsksBeside() bool { return g.beside != nil }

// A Result is what became of one attempt at a message.
type Result struct {
	Entry    *partition.Entry
	What     decide.Ending
	After    time.Duration // for later and failed: not before
	Attempts int           // for failed and dead: how many there were
	Since    time.Time     // for delayed: the first failure
	Kept     bool          // the store has it, and it may be due
	Took     time.Duration
	Fell     bool // the transaction that it shared
	// Collided is how long the transactions took that it shared and that collided with those of rivals.
	Collided time.Duration
	Early    bool // the job goes on: a handler of it ignores its context
	// Untouched reports that no attempt was made: another worker or process has the message or its entity.
	Untouched bool
	Print     string        // for failed and dead: the fingerprint, where it is the message's first failure
	Class     failure.Class // of that
	Untried   bool          // for dead: no handler has failed, the message could not be parked
	Err       error
}
