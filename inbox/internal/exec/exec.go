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
	"sync/atomic"
	"time"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/broker"
	"github.com/skald-go/skald/failure"
	"github.com/skald-go/skald/inbox/internal/decide"
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
	Again       func(skald.Message) bool   // nil: of none
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
	untold  apart
}

// New is an Executor over db.
func New[TTx any](db store.Driver[TTx], o Config) *Executor[TTx] {
	return &Executor[TTx]{
		o:        o,
		db:       db,
		table:    decide.New(),
		registry: newRegistry[TTx](),
		printer:  printer{of: o.Fingerprint, without: o.Without},
		prints:   failure.NewFingerprints(),
		untold:   apart{say: backoff.Rarely{First: time.Second, Most: time.Minute}},
	}
}

// Follows tells whether the store was seen to begin a message with the commit of another.
func (x *Executor[TTx]) Follows() bool { return x.follows.Load() }

// Skip says which failures, by fingerprint, an operator has skipped from now on.
func (x *Executor[TTx]) Skip(orders map[string]control.Order) { x.skips.Store(&orders) }

// Longest describes the handlers that run for the longest, at most n.
func (x *Executor[TTx]) Longest(n int) []string { return x.acts.Longest(n) }

// Running lists the messages in handlers and calls that run now, also of an earlier session.
func (x *Executor[TTx]) Running() []running { return x.acts.Running(mercy) }

// Overdue lists the handlers and calls that go on although their time is over, and logs each once.
func (x *Executor[TTx]) Overdue() []overdue {
	return x.acts.Overdue(mercy, x.o.Logger.With("consumer", x.o.Group))
}
