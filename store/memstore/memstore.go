// Package memstore is the store in memory: for tests, explorers and the first minute with Skald. It keeps
// nothing beyond the process.
//
// The database behaves as PostgreSQL at READ COMMITTED does: a transaction sees what is committed and what
// it wrote itself; marks, locks and the rows of the small user table are locked one by one until it ends, and
// a rival waits; sequence numbers are drawn when a row is written and the row is seen once it is committed.
// Rivals that wait for each other in a circle fail at once with store.ErrBusy.
//
// A Store is one process's handle on a database. Session gives another process's; Kill is what kill -9 does
// to a process: all that it has open is rolled back, and it can do nothing more. The database outlives both.
//
//	db := memstore.New(nil)
//	p := db.Session()  // a process
//	u, err := p.Begin(ctx, in)
//	p.Kill()           // dies with u open: its rows, marks and locks are undone
//	p = db.Session()   // comes back
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
	// ErrKilled answers all that a killed Session asks. It is an outage.
	ErrKilled = errors.New("memstore: the session was killed")
	// ErrExists: Insert found the key taken. It aborts the transaction.
	ErrExists = errors.New("memstore: the key is taken")
	// ErrAborted: an earlier error aborted the transaction, which can only be rolled back.
	ErrAborted = errors.New("memstore: the transaction is aborted")
	// ErrEnded: the transaction was committed or rolled back before.
	ErrEnded = errors.New("memstore: the transaction has ended")
	// ErrIdle: the handler left the transaction alone for longer than Intake.Handle, and it was rolled back.
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

// Options of a database. The zero value works.
type Options struct {
	Source string           // the Source of all that is written here. Default "/memory"
	Shards int              // how many shards the buckets are split into, 1 to 1,024. Default 16
	Now    func() time.Time // the store's clock: leases, due times, retention. Default time.Now
	// bounds the waiting for rivals where an Intake does not say: then store.ErrBusy. Default 5 s
	Wait time.Duration
}

// Store is a process's handle on a database in memory. It is safe for concurrent use.
type Store struct {
	db     *database
	killed bool // by db.mu
	open   map[*Tx]struct{}
	woken  chan struct{}
}

// String names it in a log.
func (*Store) String() string { return "memory" }

// New makes an empty database and a handle on it.
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

// Session is the handle of another process on the same database. Its writes do not wake this one.
func (s *Store) Session() *Store { return s.db.session() }

func (d *database) session() *Store {
	return &Store{db: d, open: map[*Tx]struct{}{}, woken: make(chan struct{})}
}

// Kill rolls back all that the handle has open and refuses all that it asks from now on with ErrKilled. The
// database and other handles on it are untouched. Leases stay with the dead until they run out, or until
// another session of the same owner comes.
func (s *Store) Kill() {
	s.db.mu.Lock()
	defer s.db.mu.Unlock()
	s.killed = true
	for tx := range s.open {
		tx.end(ErrKilled)
	}
}

// BeginTx opens a transaction of the caller's own, which ends it by Commit or Rollback.
func (s *Store) BeginTx() *Tx {
	s.db.mu.Lock()
	defer s.db.mu.Unlock()
	return s.begin()
}

// Check finds nothing amiss but a killed handle.
func (s *Store) Check(ctx context.Context, _ store.Role) error {
	return s.enter(ctx, func() error { return nil })
}

// Probe fails only on a killed handle.
func (s *Store) Probe(ctx context.Context) error {
	return s.enter(ctx, func() error { return nil })
}

// Outage tells of a rival in the way and of a killed handle.
func (s *Store) Outage(err error) bool {
	return errors.Is(err, store.ErrBusy) || errors.Is(err, ErrKilled) || errors.Is(err, ErrIdle)
}

// Woken is closed when this handle next commits rows or sagas.
func (s *Store) Woken() <-chan struct{} {
	s.db.mu.Lock()
	defer s.db.mu.Unlock()
	return s.woken
}

func (s *Store) wake() {
	close(s.woken)
	s.woken = make(chan struct{})
}

// enter does f under the database's mutex, unless the handle is dead or ctx is done.
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
