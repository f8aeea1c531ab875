// Package engine runs sagas. It does not use the types of users: package saga builds the definitions for it.
//
// A saga passes these files in order:
//   - start.go starts the saga in the caller's transaction; start_many.go starts many in one transaction.
//   - await_commit.go waits until the caller has committed.
//   - claim.go claims due sagas, and work.go has the loop that works on one saga.
//   - progress_*.go make decisions in memory: commands, times, signals.
//   - local.go and share.go run functions in a transaction; request.go makes external calls.
//   - family.go writes parents and children; await_end.go notifies the callers that wait for the saga's end.
//
// Special cases: run_alone.go runs a saga alone after one of its functions crashed the process. hang.go gives
// up a function that does not return.
//
// advance.go, cancel.go, reply.go and signal.go apply events from outside. reply_next.go emits the commands
// that follow replies. write.go and groupcommit.go write moves: new states of sagas. blame.go and fault.go
// find the reason for a failed write. begin.go writes the first lines of the log.
//
// Each write names the version of the saga that was read. If another process has written the saga since, the
// write has no effect. The engine then reads the saga again and continues from there. So correctness does not
// depend on leases.
package engine

import (
	"context"
	"crypto/rand"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/skald-go/skald/internal/backoff"
	"github.com/skald-go/skald/internal/shortlog"
	"github.com/skald-go/skald/internal/telemetry"
	"github.com/skald-go/skald/internal/uuid7"
	"github.com/skald-go/skald/internal/vitals"
	"github.com/skald-go/skald/store"
)

// DB is the database of an engine.
type DB[TTx any] interface{ store.Driver[TTx] }

// Options of an Engine. Package saga fills in the defaults.
type Options struct {
	Workers  int
	MaxSagas int
	Lease    time.Duration
	PollMost time.Duration
	Drain    time.Duration
	// OutageRetryTime is the time for which transient failures of a step are retried without counting as
	// attempts.
	OutageRetryTime time.Duration
	Now             func() time.Time
	NewID           func(now time.Time) string
	Logger          *slog.Logger
	Metrics         *telemetry.Saga
}

// Engine runs the sagas of its definitions.
type Engine[TTx any] struct {
	db      DB[TTx]
	o       Options
	session string
	book    *book
	clock   *storeClock
	tally   *counters
	vitals  *vitals.Server               // watches the database
	failed  func(name string, err error) // logs panics of users' functions

	sagasInProgress[TTx]
	lifecycle
	writes
	hazards
	awaited
}

// sagasInProgress has the sagas in progress in this process, and the sagas that wait to begin.
type sagasInProgress[TTx any] struct {
	mu       sync.Mutex                   // guards working, arriving and crowdedLog
	working  map[store.SagaRef]*live[TTx] // by name and key
	arriving map[store.SagaRef]bool       // started in this process, and not in progress yet
	begun    chan *live[TTx]              // started in this process, for the loop to begin
	inHand   atomic.Int64
	ready    atomic.Int64 // sagas in progress that wait for a worker
	// crowdedLog limits how often the engine logs that every worker is busy.
	crowdedLog backoff.LogLimit
}

// lifecycle has the state of Run: its loop, its goroutines, and the log lines that are written once.
type lifecycle struct {
	running  atomic.Bool
	stop     chan struct{}   // closed at the end of Run
	kicked   chan struct{}   // triggers a poll, because a saga may be due
	slots    chan struct{}   // each open transaction occupies one slot; a saga with a slot has a worker
	workers  *sync.WaitGroup // the goroutines of this Run
	straight bool            // for tests: Step runs each saga in the caller's goroutine
	noted    time.Time       // when Step last stored the definitions
	// introduced is true after introduce, and looked after sayReady.
	introduced, looked bool
	asked              atomic.Bool // Replies was called
}

// writes has the queues of sagas that share commits. Moves are new states; starts are new sagas.
type writes struct {
	moves   *writer
	starts  queue[*starting]
	commits usual
	follows following
}

// hazards records functions that may harm other sagas: by a crash, by not returning, or by their locks.
type hazards struct {
	gate     *crashGate
	hanging  functions
	collided collisions
}

// awaited has the callers that wait for the end of a saga.
type awaited struct {
	waiters waiters
	lookers chan struct{} // Awaits that query the database
}

// New returns an engine. Package saga has checked defs: they are valid, have distinct names, and include the
// definitions of children.
func New[TTx any](db DB[TTx], o Options, defs []*Definition) *Engine[TTx] {
	e := &Engine[TTx]{db: db, o: o, clock: newClock(o.Now), session: rand.Text()}
	e.working, e.arriving = map[store.SagaRef]*live[TTx]{}, map[store.SagaRef]bool{}
	e.begun = make(chan *live[TTx], o.MaxSagas)
	e.slots, e.kicked = make(chan struct{}, o.Workers), make(chan struct{}, 1)
	e.stop, e.lookers, e.workers = make(chan struct{}), make(chan struct{}, lookMany), new(sync.WaitGroup)
	e.o.Logger = shortlog.New(o.Logger)
	e.tally = newCounters(e.o.Logger, o.Metrics, defs)
	e.failed = e.tally.Panicked
	e.vitals = vitals.Store(db, e.o.Logger, e.clock.Now)
	if e.o.NewID == nil {
		e.o.NewID = uuid7.New
	}
	e.gate = newCrashGate(o.Now)
	e.moves = newGroupCommit(db, storeTimeout)
	e.book = newDefinitions(db, e.o.Logger, storeTimeout, defs)
	e.crowdedLog = backoff.NewLogLimit()
	return e
}

// suspect probes the database after an error: in the background during Run, immediately in Step.
func (e *Engine[TTx]) suspect(ctx context.Context) {
	if e.straight {
		e.vitals.Probe().AskNow(ctx)
	} else {
		e.vitals.Suspect()
	}
}

// databaseUp reports whether the database answers. It probes the database unless it was just probed. Since is
// the end of the last outage, or zero if there was no outage.
func (e *Engine[TTx]) databaseUp() (since time.Time, up bool) {
	e.vitals.Probe().AskNow(context.Background())
	last := e.vitals.Probe().Last()
	return last.Since, last.Err == nil && !last.At.IsZero()
}

// Health returns the state of the engine.
func (e *Engine[TTx]) Health() health {
	h := e.tally.Health(int(e.inHand.Load()))
	if why, _ := e.vitals.Away(); h.Live && why != "" {
		h.Ready, h.Why = false, why
	}
	return h
}

// Definition returns the definition with a name.
func (e *Engine[TTx]) Definition(name string) (*Definition, bool) {
	d := e.book.Named(name)
	return d, d != nil
}

// lockAll reads sagas and locks them until tx ends. It returns an empty Name for a saga that does not exist.
// The rows contain the database's time, to which lockAll adjusts the clock.
func (e *Engine[TTx]) lockAll(ctx context.Context, tx TTx, refs ...store.SagaRef) ([]store.Saga, error) {
	from := e.o.Now()
	ss, err := e.db.LockSagas(ctx, tx, refs...)
	now := e.o.Now()
	for i := range ss {
		e.clock.Read(ss[i].Read, from, now)
	}
	return ss, err
}

// lock reads a saga and locks it until tx ends. It returns false if the saga does not exist.
func (e *Engine[TTx]) lock(ctx context.Context, tx TTx, name, key string) (store.Saga, bool, error) {
	ss, err := e.lockAll(ctx, tx, store.SagaRef{Name: name, Key: key})
	if err != nil {
		return store.Saga{}, false, err
	}
	return ss[0], ss[0].Name != "", nil
}
