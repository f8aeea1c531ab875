// Package engine runs sagas. It knows no type of a user's: package saga gives it bodies.
//
// A saga passes these files in order:
//   - start.go starts it in the caller's transaction, start_many.go in one that starts share.
//   - await_commit.go waits until the caller has committed.
//   - claim.go claims the sagas that are due, and work.go is the loop around one saga.
//   - progress_*.go decide in memory: commands, times, signals.
//   - local.go and share.go run functions in a transaction, request.go calls the outside.
//   - family.go has children and parents, and await_end.go the waiters for the end of a saga.
//
// A function that ends its process runs alone: run_alone.go. One that does not return is given up: hang.go.
// Moves from elsewhere: advance.go, cancel.go, reply.go, signal.go; emissions of replies: reply_next.go.
// How a move is written: write.go, and packages groupcommit and fault; whose fault it is that it is not:
// blame.go. The first lines of the log: begin.go.
//
// Each write names the version that was read. Whoever comes second writes nothing, reads anew and goes on
// from there, so no lease has to be believed.
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

// A DB is what an engine needs of a database.
type DB[TTx any] interface{ store.Driver[TTx] }

// Options of an Engine, with their defaults filled in by package saga.
type Options struct {
	Workers  int
	InHand   int
	Lease    time.Duration
	PollMost time.Duration
	Drain    time.Duration
	// Uncharged is how long failures of a step by what may pass are free
	Uncharged time.Duration
	Now       func() time.Time
	NewID     func(now time.Time) string
	Logger    *slog.Logger
	Metrics   *telemetry.Saga
}

// An Engine runs sagas of the definitions that it knows.
type Engine[TTx any] struct {
	db      DB[TTx]
	o       Options
	session string
	book    *book
	clock   *storeClock
	tally   *counters
	vitals  *vitals.Server               // of the database
	failed  func(name string, err error) // reports panics

	custody[TTx]
	lifecycle
	writes
	hazards
	awaited
}

// custody has the sagas that this process works on, or is about to.
type custody[TTx any] struct {
	mu     sync.Mutex                   // of hands, coming and sayCrowded
	hands  map[store.SagaRef]*live[TTx] // by name and key
	coming map[store.SagaRef]bool       // started here, and not in hand yet
	begun  chan *live[TTx]              // started here, for the loop to take up
	inHand atomic.Int64
	ready  atomic.Int64 // of them: those that wait for a slot
	// sayCrowded limits how often the engine logs that every worker is busy.
	sayCrowded backoff.Rarely
}

// lifecycle has the loop of Run, its goroutines, and what it logs once.
type lifecycle struct {
	running  atomic.Bool
	stop     chan struct{} // closed when Run is to end
	kicked   chan struct{} // there is something to be claimed
	slots    chan struct{} // of transactions
	workers  sync.WaitGroup
	straight bool      // Step runs each saga alone, in the caller's goroutine
	noted    time.Time // by Step
	// introduced and looked report that the engine logged its sagas, and what is around it.
	introduced, looked bool
	asked              atomic.Bool // which replies it takes
}

// writes has the moves and starts that share commits, and the commands that share the commits of replies.
type writes struct {
	moves   *writer
	starts  queue[*starting]
	commits usual
	follows following
}

// hazards has the functions that may harm other sagas: by a crash, a hang or their locks.
type hazards struct {
	gate     *crashGate
	hanging  functions
	collided collisions
}

// awaited has the callers that wait for the end of a saga.
type awaited struct {
	waiters waiters
	lookers chan struct{} // Awaits that ask the database
}

// New is an engine of definitions without faults, one of each name. Children's are among them.
func New[TTx any](db DB[TTx], o Options, defs []*Definition) *Engine[TTx] {
	e := &Engine[TTx]{db: db, o: o, clock: newClock(o.Now), session: rand.Text()}
	e.hands, e.coming = map[store.SagaRef]*live[TTx]{}, map[store.SagaRef]bool{}
	e.begun = make(chan *live[TTx], o.InHand)
	e.slots, e.kicked = make(chan struct{}, o.Workers), make(chan struct{}, 1)
	e.stop, e.lookers = make(chan struct{}), make(chan struct{}, lookMany)
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
	e.sayCrowded = backoff.Seldom()
	return e
}

// suspect has the database asked whether it is there: by Run in the background, by Step at once.
func (e *Engine[TTx]) suspect(ctx context.Context) {
	if e.straight {
		e.vitals.Probe().AskNow(ctx)
	} else {
		e.vitals.Suspect()
	}
}

// up asks the database, unless it did a moment ago, whether it is there, and returns since when it is back;
// zero: it was not away.
func (e *Engine[TTx]) up() (since time.Time, up bool) {
	e.vitals.Probe().AskNow(context.Background())
	last := e.vitals.Probe().Last()
	return last.Since, last.Err == nil && !last.At.IsZero()
}

// Health tells how the engine stands.
func (e *Engine[TTx]) Health() health {
	h := e.tally.Health(int(e.inHand.Load()))
	if why, _ := e.vitals.Away(); h.Live && why != "" {
		h.Ready, h.Why = false, why
	}
	return h
}

// Definition returns the one of a name.
func (e *Engine[TTx]) Definition(name string) (*Definition, bool) {
	d := e.book.Named(name)
	return d, d != nil
}

// lockAll reads sagas and locks them until tx ends. A saga that is not there has no Name. A process that has
// seen nothing of the store's clock learns its time.
func (e *Engine[TTx]) lockAll(ctx context.Context, tx TTx, refs ...store.SagaRef) ([]store.Saga, error) {
	from := e.o.Now()
	ss, err := e.db.LockSagas(ctx, tx, refs...)
	now := e.o.Now()
	for i := range ss {
		e.clock.Read(ss[i].Read, from, now)
	}
	return ss, err
}

// lock reads a saga and locks it until tx ends. Returns false if there is none.
func (e *Engine[TTx]) lock(ctx context.Context, tx TTx, name, key string) (store.Saga, bool, error) {
	ss, err := e.lockAll(ctx, tx, store.SagaRef{Name: name, Key: key})
	if err != nil {
		return store.Saga{}, false, err
	}
	return ss[0], ss[0].Name != "", nil
}
