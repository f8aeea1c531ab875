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
	"github.com/skald-go/skald/inbox/internal/running"
	"github.com/skald-go/skald/internal/backoff"
	"github.com/skald-go/skald/internal/complete"
	"github.com/skald-go/skald/internal/control"
	"github.com/skald-go/skald/internal/fingerprint"
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

	Handle time.Duration // a handler's time
	Wait   time.Duration // how long an intake waits for rivals

	Retry    failure.Retry
	Crashes  int
	Classify func(skald.Message, error) failure.Class // nil: none

	KeyRows, KeyBytes          int64       // of what is parked of one key
	Room                       func() bool // whether more may be parked
	FreeKey                    bool
	Rejections, RejectionsHold bool

	Fingerprint func(skald.Message) []byte // nil: of type and payload
	Without     func(data []byte) []byte   // the payload as that fingerprint has it
	Earlier     func(broker.Delivery) int  // failures before it came; nil: none
	Again       func(skald.Message) bool   // nil: of none
	Ahead       once.Hint                  // nil: none

	Host, Version string
}

// An Executor does jobs. Tell it what to run before the first one.
type Executor[TTx any] struct {
	o     Config
	db    store.Driver[TTx]
	table *decide.Table

	handlers map[store.Kind]Handler[TTx]
	many     map[store.Kind]*BatchHandler[TTx] // for several messages at once; in handlers, for one
	steps    map[store.Kind]Course
	calls    map[store.Kind]Outside[TTx]
	beside   Known[TTx]  // nil: nothing
	took     Lookup[TTx] // nil: nothing

	prints  *failure.Fingerprints
	key     atomic.Pointer[fingerprint.Printer]
	keyAt   time.Time // when it is read again
	skips   atomic.Pointer[map[string]control.Order]
	follows atomic.Bool // the store can begin a message with the commit of another
	acts    running.Acts
	untold  apart
}

// New is an Executor over db.
func New[TTx any](db store.Driver[TTx], o Config) *Executor[TTx] {
	return &Executor[TTx]{
		o:        o,
		db:       db,
		table:    decide.New(),
		handlers: map[store.Kind]Handler[TTx]{},
		many:     map[store.Kind]*BatchHandler[TTx]{},
		steps:    map[store.Kind]Course{},
		calls:    map[store.Kind]Outside[TTx]{},
		prints:   failure.NewFingerprints(),
		untold:   apart{say: backoff.Rarely{First: time.Second, Most: time.Minute}},
	}
}

// Handle has messages of k run by h, and by nothing else that was said before.
func (x *Executor[TTx]) Handle(k store.Kind, h Handler[TTx]) {
	x.handlers[k] = h
	delete(x.many, k)
	delete(x.steps, k)
	delete(x.calls, k)
}

// HandleBatch has several messages of k, which has a handler, run by h at once. Those whose h is the same
// may be of several kinds.
func (x *Executor[TTx]) HandleBatch(k store.Kind, h *BatchHandler[TTx]) { x.many[k] = h }

// Course says what messages of k, which has a handler, are to a saga.
func (x *Executor[TTx]) Course(k store.Kind, c Course) { x.steps[k] = c }

// Call says which call the handler of k intends.
func (x *Executor[TTx]) Call(k store.Kind, c Outside[TTx]) { x.calls[k] = c }

// Beside has known asked of each message in its transaction.
func (x *Executor[TTx]) Beside(known Known[TTx]) { x.beside = known }

// LegacySteps has took asked of steps that nobody here has taken.
func (x *Executor[TTx]) LegacySteps(took Lookup[TTx]) { x.took = took }

// Handles tells whether there is a handler for k.
func (x *Executor[TTx]) Handles(k store.Kind) bool { return x.handlers[k] != nil }

// Calls tells whether the handler of k makes a call.
func (x *Executor[TTx]) Calls(k store.Kind) bool {
	_, some := x.calls[k]
	return some
}

// Kinds are those that there are handlers for, in their order.
func (x *Executor[TTx]) Kinds() []store.Kind {
	return slices.SortedFunc(maps.Keys(x.handlers), partition.CompareKinds)
}

// AsksBeside tells whether a table of the user's is asked of each message.
func (x *Executor[TTx]) AsksBeside() bool { return x.beside != nil }

// Follows tells whether the store was seen to begin a message with the commit of another.
func (x *Executor[TTx]) Follows() bool { return x.follows.Load() }

// Skip says which failures, by fingerprint, an operator has skipped from now on.
func (x *Executor[TTx]) Skip(orders map[string]control.Order) { x.skips.Store(&orders) }

// Overdue lists the handlers and calls that go on although their time is over, and logs each once.
func (x *Executor[TTx]) Overdue() []running.Overdue {
	return x.acts.Overdue(mercy, x.o.Logger.With("consumer", x.o.Group))
}
