// Package memstore is the driver that stores everything in memory. It is for tests, model checkers and first
// steps with Skald. The data is lost when the process ends.
//
// The database behaves like PostgreSQL at READ COMMITTED. A transaction reads committed data and its own
// writes. It locks marks, entities and rows of a small user table until it ends, and other transactions wait.
// An outbox row gets its sequence number at its write, and is visible after the commit. In a deadlock, a
// transaction immediately fails with store.ErrBusy.
//
// A Store is the handle of one process on a database. Session returns the handle of another process. Kill
// simulates kill -9 of one process: it rolls back all open transactions of its handle, and the handle then
// refuses every call. The database and its other handles continue.
//
//	db := memstore.New(nil)
//	p := db.Session()  // a process
//	u, err := p.Begin(ctx, in)
//	p.Kill()           // rolls back u: its rows, marks and locks are gone
//	p = db.Session()   // the process after its restart
package memstore

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"time"

	"github.com/skald-go/skald/store"
)

// Errors of this driver. Those of every driver are in package store.
var (
	// ErrKilled is the result of every call of a killed handle. This error is an outage.
	ErrKilled = errors.New("memstore: the session was killed")
	// ErrExists reports that the key of an Insert exists. It aborts the transaction.
	ErrExists = errors.New("memstore: the key is taken")
	// ErrAborted reports that an earlier error aborted the transaction, so it can only be rolled back.
	ErrAborted = errors.New("memstore: the transaction is aborted")
	// ErrEnded reports that the transaction was already committed or rolled back.
	ErrEnded = errors.New("memstore: the transaction has ended")
	// ErrIdle reports that the store rolled back the transaction, because the handler left it idle for longer
	// than Intake.Handle.
	ErrIdle = errors.New("memstore: the transaction was idle for too long and is rolled back")
)

var (
	_ store.Driver[*Tx] = (*Store)(nil)
	_ store.Unit[*Tx]   = (*unit)(nil)
)

const (
	defaultWait   = 5 * time.Second
	defaultHandle = 60 * time.Second
)

// Options configures a database. The zero value works.
type Options struct {
	Source string           // of all messages written here. Default "/memory"
	Shards int              // number of shards, 1 to 1,024. Default 16
	Now    func() time.Time // the store's clock: leases, due times, retention. Default time.Now
	// Wait limits the wait for locks if an Intake has no Wait. After that time the call returns
	// store.ErrBusy. Default 5 s.
	Wait time.Duration
}

// Store is the handle of a process on a database in memory. It is safe for concurrent use.
type Store struct {
	db     *database
	killed bool // guarded by db.mu
	open   map[*Tx]struct{}
	woken  chan struct{}
}

// String returns "memory".
func (*Store) String() string { return "memory" }

// New creates an empty database and returns a handle on it.
func New(o *Options) *Store {
	var opt Options
	if o != nil {
		opt = *o
	}
	if opt.Source == "" {
		opt.Source = "/memory"
	}
	if opt.Shards <= 0 {
		opt.Shards = 16
	}
	if opt.Now == nil {
		opt.Now = time.Now
	}
	id := rand.Text()
	d := &database{
		id: id, now: opt.Now, wait: cmp.Or(opt.Wait, defaultWait),
		changed: make(chan struct{}), held: map[lockID]*Tx{},
		user: map[string]string{}, versions: map[entity]int64{},
		outbox: newOutbox(id, opt.Source, min(opt.Shards, store.Buckets)),
		marks:  newMark(), kept: newKept(), reservations: newReservation(),
		steps: newStep(), sagas: newSaga(), tracked: newTracked(), consumers: newConsumer(),
		schemas: map[schemaKey]string{}, leases: map[string]lease{},
	}
	return d.session()
}

// Session returns the handle of another process on the same database. Writes of the new handle do not wake s.
func (s *Store) Session() *Store { return s.db.session() }

func (d *database) session() *Store {
	return &Store{db: d, open: map[*Tx]struct{}{}, woken: make(chan struct{})}
}

// Kill rolls back all open transactions of the handle. Later calls of the handle return ErrKilled. Kill does
// not affect the database and other handles. Leases of the handle remain until they expire, or until another
// session of the same owner replaces them.
func (s *Store) Kill() {
	s.db.mu.Lock()
	defer s.db.mu.Unlock()
	s.killed = true
	for tx := range s.open {
		tx.end(ErrKilled)
	}
}

// BeginTx begins a transaction that the caller ends by Commit or Rollback.
func (s *Store) BeginTx() *Tx {
	s.db.mu.Lock()
	defer s.db.mu.Unlock()
	return s.begin()
}

// Check returns an error only on a killed handle.
func (s *Store) Check(ctx context.Context, _ store.Role) error {
	return s.enter(ctx, func() error { return nil })
}

// Probe returns an error only on a killed handle.
func (s *Store) Probe(ctx context.Context) error {
	return s.enter(ctx, func() error { return nil })
}

// Outage returns true if another transaction had a lock for too long, if the transaction was idle for too
// long, or if the handle was killed.
func (s *Store) Outage(err error) bool {
	return errors.Is(err, store.ErrBusy) || errors.Is(err, ErrKilled) || errors.Is(err, ErrIdle)
}

// Woken returns a channel that closes when this handle next commits outbox rows or sagas.
func (s *Store) Woken() <-chan struct{} {
	s.db.mu.Lock()
	defer s.db.mu.Unlock()
	return s.woken
}

func (s *Store) wake() {
	close(s.woken)
	s.woken = make(chan struct{})
}

// enter runs f with the database locked, unless the handle is killed or ctx is done.
func (s *Store) enter(ctx context.Context, f func() error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	s.db.mu.Lock()
	defer s.db.mu.Unlock()
	if s.killed {
		return ErrKilled
	}
	return f()
}
