// Package exec makes attempts at the messages of an inbox. An attempt begins a transaction with an intake: it
// writes the mark, locks the entities and reads the step of the message. Then it runs the handler and
// commits. If the handler fails, the attempt rolls back and parks the message. The package also has steps of
// sagas, outside calls, batches and dead letters.
//
// Its input is a job: one or more messages. Its output is one Result per message. The table of package decide
// selects the actions.
//
// An Executor is safe for concurrent use by the workers. It has no partitions. The state of a message is in
// its partition.Entry, which only one worker uses at a time.
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

// Config has the options of an Executor. Its values are those of inbox.Options, after the defaults were set.
// A function may be nil if its comment describes nil.
type Config struct {
	Group     string
	Telemetry *telemetry.Inbox
	Complete  complete.Completer // completes the messages that handlers publish
	Announce  failure.Announcer
	Codec     skald.Codec // nil: JSON
	Now       func() time.Time
	Logger    *slog.Logger

	Isolation store.Isolation
	Entities  func(skald.Message) []store.Lock    // nil: none
	Settings  func(skald.Message) []store.Setting // nil: none

	Workers int // the number of concurrent workers; 0 means one

	Handle time.Duration // the time limit of a handler
	Wait   time.Duration // the maximum time that an intake waits for locks

	Retry    failure.Retry
	Crashes  int
	Classify func(skald.Message, error) failure.Class // nil: none

	// Up reports whether the last probe reached the database. Since is the end of the last outage, or zero.
	Up func() (since time.Time, up bool)
	// InPlace returns how many messages of the consumer wait in memory for their next attempt.
	InPlace func() int

	KeyRows, KeyBytes          int64       // limits of the parked messages of one key
	Room                       func() bool // reports whether more messages may be parked
	DeadRoom                   func() bool // reports whether a message of a full key may become a dead letter
	FreeKey                    bool
	Rejections, RejectionsHold bool

	Fingerprint func(skald.Message) []byte // nil: type and payload
	Without     func(data []byte) []byte   // returns the part of the payload for the default fingerprint
	Earlier     func(broker.Delivery) int  // returns failures before this consumer; nil: none
	Repeat      func(skald.Message) bool   // nil: never
	Ahead       once.Hint                  // nil: none

	Host, Version string
}

// Executor handles jobs. Register the handlers before the first job.
type Executor[TTx any] struct {
	o     Config
	db    store.Driver[TTx]
	table *decide.Table

	registry[TTx]
	printer
	prints      *failure.Fingerprints
	skips       atomic.Pointer[map[string]control.Order]
	follows     atomic.Bool // the store can begin a message in the round trip of a commit
	running     runningFuncs
	unreturned  pureCalls
	waits       entityWaits
	quarantined rareLog
	savepoints  atomic.Int32 // how many of the next transactions have savepoints
}

// New returns an Executor that uses db.
func New[TTx any](db store.Driver[TTx], o Config) *Executor[TTx] {
	return &Executor[TTx]{
		o:           o,
		db:          db,
		table:       decide.New(),
		registry:    newRegistry[TTx](),
		printer:     printer{of: o.Fingerprint, without: o.Without},
		prints:      failure.NewFingerprints(),
		waits:       entityWaits{workers: o.Workers},
		quarantined: rareLog{limit: backoff.LogLimit{First: time.Second, Most: time.Minute}},
	}
}

// Follows reports whether the store has begun a message in the round trip of a commit.
func (x *Executor[TTx]) Follows() bool { return x.follows.Load() }

// Skip replaces the orders of operators to skip failures. Their keys are fingerprints of failures.
func (x *Executor[TTx]) Skip(orders map[string]control.Order) { x.skips.Store(&orders) }

// Longest describes the n functions that have run for the longest time.
func (x *Executor[TTx]) Longest(n int) []string { return x.running.longest(n) }

// Running lists the handlers and calls that run now, including those of an earlier session.
func (x *Executor[TTx]) Running() []Running { return x.running.list(grace) }

// Overdue lists the handlers and calls that have run for longer than their time limit plus grace. It logs
// each of them once.
func (x *Executor[TTx]) Overdue() []Running {
	return x.running.overdue(grace, x.o.Logger.With("consumer", x.o.Group))
}

// registry has the handlers by kind of message. It does not change after the first job.
type registry[TTx any] struct {
	handlers      map[store.Kind]Handler[TTx]
	batchHandlers map[store.Kind]*BatchHandler[TTx] // each of these kinds also has an entry in handlers
	steps         map[store.Kind]StepRole
	calls         map[store.Kind]OutsideCall[TTx]
	legacyDedup   LegacyDedupFunc[TTx] // nil: none
	legacySteps   LegacyStepsFunc[TTx] // nil: none
	// unshared has the kinds with a handler that leaves session state in its transaction.
	unshared *atomic.Pointer[map[store.Kind]bool]
}

func newRegistry[TTx any]() registry[TTx] {
	return registry[TTx]{
		handlers:      map[store.Kind]Handler[TTx]{},
		batchHandlers: map[store.Kind]*BatchHandler[TTx]{},
		steps:         map[store.Kind]StepRole{},
		calls:         map[store.Kind]OutsideCall[TTx]{},
		unshared:      &atomic.Pointer[map[store.Kind]bool]{},
	}
}

// Handle registers h for messages of k. It removes all earlier registrations for k.
func (g *registry[TTx]) Handle(k store.Kind, h Handler[TTx]) {
	g.handlers[k] = h
	delete(g.batchHandlers, k)
	delete(g.steps, k)
	delete(g.calls, k)
}

// HandleBatch registers h for several messages of k together. Register a Handler for k, too. Messages of
// several kinds with the same h can be in one batch.
func (g *registry[TTx]) HandleBatch(k store.Kind, h *BatchHandler[TTx]) { g.batchHandlers[k] = h }

// SetStepRole registers the role of k in a saga.
func (g *registry[TTx]) SetStepRole(k store.Kind, c StepRole) { g.steps[k] = c }

// SetCall registers the outside call of the handler of k.
func (g *registry[TTx]) SetCall(k store.Kind, c OutsideCall[TTx]) { g.calls[k] = c }

// LegacyDedup registers a function that deduplicates each message in its transaction.
func (g *registry[TTx]) LegacyDedup(known LegacyDedupFunc[TTx]) { g.legacyDedup = known }

// LegacySteps registers a function that finds steps without a row of Skald.
func (g *registry[TTx]) LegacySteps(find LegacyStepsFunc[TTx]) { g.legacySteps = find }

// Handles reports whether k has a handler.
func (g *registry[TTx]) Handles(k store.Kind) bool { return g.handlers[k] != nil }

// Calls reports whether the handler of k makes an outside call.
func (g *registry[TTx]) Calls(k store.Kind) bool {
	_, some := g.calls[k]
	return some
}

// Kinds returns the kinds with a handler, in order.
func (g *registry[TTx]) Kinds() []store.Kind {
	return slices.SortedFunc(maps.Keys(g.handlers), partition.CompareKinds)
}

// HasLegacyDedup reports whether a function is registered with LegacyDedup.
func (g *registry[TTx]) HasLegacyDedup() bool { return g.legacyDedup != nil }

// Result is the result of one attempt at a message.
type Result struct {
	Entry      *partition.Entry
	What       decide.Ending
	After      time.Duration // the time until the next attempt
	Attempts   int           // for failed and dead: the number of attempts
	Since      time.Time     // for delayed: the first failure
	Kept       bool          // the database has the message, which may be due
	Took       time.Duration
	RolledBack bool // a transaction of the batch was rolled back
	// Collided is the time of the batch's transactions that collided with other transactions.
	Collided time.Duration
	// Untouched reports that no attempt was made: another worker or process has the message or its entity.
	Untouched bool
	Print     string        // for failed and dead: the fingerprint of a first failure, otherwise ""
	Class     failure.Class // of Print
	Unparked  bool          // for dead: the message could not be parked; no handler failed
	Err       error
}
