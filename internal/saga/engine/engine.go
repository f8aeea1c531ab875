// Package engine runs sagas. It knows no type of a user's: package saga gives it bodies.
//
// The way of a saga through the files: start.go (in the caller's transaction), await_commit.go (until the
// caller has committed), claim.go (which are due), work.go (the loop around one saga), then by what it asks
// for: package progress (decisions, commands, times, in memory), local.go (functions in a transaction),
// request.go (calls to the outside), family.go (children and parents), await_end.go (who waits for its end).
// What ends its process runs alone: run_alone.go; what does not return is given up: hang.go. What moves it
// from elsewhere: advance.go, cancel.go, reply.go, signal.go. How a move is written: write.go, and packages
// groupcommit and fault; whose fault it is that it is not: blame.go. What the log says at first: begin.go.
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
type DB[TTx any] interface {
	store.Driver[TTx]
	store.Sagas[TTx]
}

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
	commits usual

	mu     sync.Mutex
	hands  map[store.SagaRef]*live[TTx] // sagas in hand, by name and key
	coming map[store.SagaRef]bool       // started here, and not in hand yet
	// how often to say that every worker is busy
	sayCrowded backoff.Rarely

	waiters waiters
	hanging functions
	lookers chan struct{} // Awaits that ask the database

	// said once: what it runs, and what is around it
	introduced, looked bool
	asked              atomic.Bool // which replies it takes

	running  atomic.Bool
	stop     chan struct{} // closed when Run is to end
	slots    chan struct{} // of transactions
	kicked   chan struct{} // there is something to be claimed
	begun    chan *live[TTx]
	inHand   atomic.Int64
	ready    atomic.Int64 // of them: those that wait for a slot
	gate     *crashGate
	moves    *writer
	straight bool // each alone, in the caller's goroutine: Step does so
	workers  sync.WaitGroup
	tally    *counters
	vitals   *vitals.Server               // of the database
	failed   func(name string, err error) // tells of panics
	noted    time.Time                    // by Step
}

// New is an engine of definitions without faults, one of each name. Children's are among them.
func New[TTx any](db DB[TTx], o Options, defs []*Definition) *Engine[TTx] {
	e := &Engine[TTx]{db: db, o: o, clock: newClock(o.Now), session: rand.Text(),
		hands:  map[store.SagaRef]*live[TTx]{},
		coming: map[store.SagaRef]bool{},
		slots:  make(chan struct{}, o.Workers), kicked: make(chan struct{}, 1),
		begun: make(chan *live[TTx], o.InHand),
		stop:  make(chan struct{}), lookers: make(chan struct{}, lookMany)}
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

// lock is LockSaga, by which a process that has seen nothing of the store's clock learns what it shows.
func (e *Engine[TTx]) lock(ctx context.Context, tx TTx, name, key string) (store.Saga, bool, error) {
	from := e.o.Now()
	s, there, err := e.db.LockSaga(ctx, tx, name, key)
	e.clock.Read(s.Read, from, e.o.Now())
	return s, there, err
}
