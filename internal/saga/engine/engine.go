// Package engine runs sagas. It has no types of users: package saga builds the definitions for it.
//
// A saga passes these files in order:
//   - start.go starts it in the caller's transaction, start_many.go in a transaction that starts share.
//   - await_commit.go waits until the caller has committed.
//   - claim.go claims due sagas, and work.go is the loop around one saga.
//   - progress_*.go make decisions in memory: commands, times, signals.
//   - local.go and share.go run functions in a transaction, request.go makes external calls.
//   - family.go has children and parents, and await_end.go the waiters for the end of a saga.
//
// A function that crashes its process runs alone: run_alone.go. The engine gives up a function that does
// not return: hang.go. Events from outside: advance.go, cancel.go, reply.go, signal.go; commands that
// follow replies: reply_next.go. Writing a move: write.go, groupcommit.go and fault.go; finding the reason
// for a failed write: blame.go. The first lines of the log: begin.go.
//
// Each write names the version that was read. If another process has written the saga since, the write has
// no effect, and the engine re-reads the saga and continues from there. So correctness does not depend on
// leases.
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

// DB is the store of an engine.
type DB[TTx any] interface{ store.Driver[TTx] }

// Options of an Engine. Package saga fills in the defaults.
type Options struct {
	Workers  int
	MaxSagas int
	Lease    time.Duration
	PollMost time.Duration
	Drain    time.Duration
	// OutageRetryTime is how long transient failures of a step are retried without counting as attempts.
	OutageRetryTime time.Duration
	Now             func() time.Time
	NewID           func(now time.Time) string
	Logger          *slog.Logger
	Metrics         *telemetry.Saga
}

// Engine runs sagas of its own definitions.
type Engine[TTx any] struct {
	db      DB[TTx]
	o       Options
	session string
	book    *book
	clock   *storeClock
	tally   *counters
	vitals  *vitals.Server               // watches the database
	failed  func(name string, err error) // reports panics

	custody[TTx]
	lifecycle
	writes
	hazards
	awaited
}

// custody has the sagas in progress in this process, and those about to be.
type custody[TTx any] struct {
	mu       sync.Mutex                   // of working, arriving and sayCrowded
	working  map[store.SagaRef]*live[TTx] // by name and key
	arriving map[store.SagaRef]bool       // started here, and not in progress yet
	begun    chan *live[TTx]              // started here, for the loop to begin
	inHand   atomic.Int64
	ready    atomic.Int64 // those in progress that wait for a worker
	// sayCrowded limits how often the engine logs that every worker is busy.
	sayCrowded backoff.LogLimit
}

// lifecycle has the loop of Run, its goroutines, and the log lines that are written once.
type lifecycle struct {
	running  atomic.Bool
	stop     chan struct{}   // closed at the end of Run
	kicked   chan struct{}   // a saga may be due
	slots    chan struct{}   // one for each open transaction
	workers  *sync.WaitGroup // of this Run
	straight bool            // Step runs each saga alone, in the caller's goroutine
	noted    time.Time       // when Step last stored the definitions
	// introduced and looked report that the engine logged its sagas, and checked their surroundings.
	introduced, looked bool
	asked              atomic.Bool // Replies was called
}

// writes has the moves and starts that share commits, and the commands that share the commits of replies.
type writes struct {
	moves   *writer
	starts  queue[*starting]
	commits usual
	follows following
}

// hazards has the functions that may harm other sagas: by a crash, by hanging or by their locks.
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

// New returns an engine. Defs have no faults and distinct names, and include children.
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
	e.sayCrowded = backoff.NewLogLimit()
	return e
}

// suspect probes the database: in the background during Run, at once in Step.
func (e *Engine[TTx]) suspect(ctx context.Context) {
	if e.straight {
		e.vitals.Probe().AskNow(ctx)
	} else {
		e.vitals.Suspect()
	}
}

// up probes the database, unless it was just probed, and reports whether it answers. Since is the end of
// the last outage, or zero if there was none.
func (e *Engine[TTx]) up() (since time.Time, up bool) {
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

// lockAll reads sagas and locks them until tx ends. A saga that does not exist has no Name. The read also
// updates the store's clock.
func (e *Engine[TTx]) lockAll(ctx context.Context, tx TTx, refs ...store.SagaRef) ([]store.Saga, error) {
	from := e.o.Now()
	ss, err := e.db.LockSagas(ctx, tx, refs...)
	now := e.o.Now()
	for i := range ss {
		e.clock.Read(ss[i].Read, from, now)
	}
	return ss, err
}

// lock reads a saga and locks it until tx ends. Returns false if it does not exist.
func (e *Engine[TTx]) lock(ctx context.Context, tx TTx, name, key string) (store.Saga, bool, error) {
	ss, err := e.lockAll(ctx, tx, store.SagaRef{Name: name, Key: key})
	if err != nil {
		return store.Saga{}, false, err
	}
	return ss[0], ss[0].Name != "", nil
}
