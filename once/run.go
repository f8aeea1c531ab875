// This file runs work under a key in a transaction, and stores the answer with it.

package once

import (
	"context"
	"fmt"
	"time"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/internal/fingerprint"
	"github.com/skald-go/skald/store"
)

// Store is the part of a database that this package needs. Each store.Driver has it.
type Store[TTx any] interface {
	Begin(ctx context.Context, in store.Intake) (store.Unit[TTx], error)
	Enter(ctx context.Context, tx TTx, in store.Intake) (store.Found, error)
	Write(ctx context.Context, tx TTx, es ...store.Effect) error
	Secret(ctx context.Context) ([]byte, error)
}

// Request identifies work that is to be done once.
type Request struct {
	Scope, Key string // must not be empty; scopes separate the keys of different kinds of work
	Tenant     string // separates the keys of several users of one scope. Default: one user
	Payload    []byte // must be the same in each request with the key; only a keyed hash is stored
	// Locks are entities to lock together with the key. Their versions are ignored. Default: none.
	Locks []store.Lock
	// Keep is how long an answer is stored, by the database's clock. After that, a key without a time counts
	// as new, even if its row still exists. If the key is a UUID of version 7, the answer is returned until
	// its row is deleted. After that the key is too old. Default: the retention of marks.
	Keep time.Duration
	// Wait is how long to wait for another run of the key. After that the result is store.ErrBusy. Default 5
	// s. A negative value means not to wait.
	Wait time.Duration
}

func (q Request) String() string { return fmt.Sprintf("%s %.200q", q.Scope, q.Key) }

// Answer is the stored result of a key. Each repeat gets it.
type Answer struct {
	Rejected bool   // the work was refused: its rows were rolled back
	Reason   string // the reason of a rejection, cut to 1 KiB
	Code     int32
	Result   string // encoded; at most MaxResult bytes
	Headers  string // metadata of Result, encoded; at most MaxHeaders bytes
	// Left is how long a stored answer is still kept, by the database's clock, if its request had a Keep. It
	// is 0 if the request had none.
	Left time.Duration
}

// Run is work under one key. If the work was done before, Answer returns the stored answer. Otherwise do it
// now in Tx, and end the run with one call of Commit or Rollback. Defer Close.
type Run[TTx any] struct {
	db      Store[TTx]
	request Request
	mark    store.Mark
	unit    store.Unit[TTx] // nil in a transaction of the caller
	tx      TTx
	locks   []store.Lock // Request.Locks with the versions in this transaction
	found   *Answer      // the stored answer; nil if the work is not done
	ended   bool
}

// settleTimeout limits the time of writes that must not depend on the caller's context.
const settleTimeout = 10 * time.Second

// Begin begins a transaction and locks the key in it. It returns store.ErrBusy if another run still has the
// key after Request.Wait. It returns a *ConflictError if the key was used with another payload. It returns a
// *TooOldError if the mark of the key may be deleted.
func Begin[TTx any](ctx context.Context, db Store[TTx], q Request) (*Run[TTx], error) {
	r, intake, err := claim(ctx, db, q)
	if err != nil {
		return nil, err
	}
	if r.unit, err = db.Begin(ctx, intake); err != nil {
		return nil, fmt.Errorf("begin %s: %w", q, err)
	}
	r.tx = r.unit.Tx()
	if done, err := r.read(r.unit.Found()); done {
		_, _ = r.unit.Rollback(ctx) // nothing was written
		return r, err
	}
	return r, nil
}

// Enter locks the key, like Begin, in a transaction of the caller. The caller's commit stores the answer.
func Enter[TTx any](ctx context.Context, db Store[TTx], tx TTx, q Request) (*Run[TTx], error) {
	r, intake, err := claim(ctx, db, q)
	if err != nil {
		return nil, err
	}
	r.tx = tx
	found, err := db.Enter(ctx, tx, intake)
	if err != nil {
		return nil, fmt.Errorf("begin %s: %w", q, err)
	}
	_, err = r.read(found)
	return r, err
}

func claim[TTx any](ctx context.Context, db Store[TTx], q Request) (*Run[TTx], store.Intake, error) {
	if err := q.check(); err != nil {
		return nil, store.Intake{}, err
	}
	secret, err := db.Secret(ctx)
	if err != nil {
		return nil, store.Intake{}, fmt.Errorf("once %s: %w", q, err)
	}
	m := q.mark(secret)
	wait := q.Wait
	if wait < 0 {
		wait = time.Millisecond
	}
	return &Run[TTx]{db: db, request: q, mark: m},
		store.Intake{Marks: []store.Mark{m}, Locks: q.Locks, Wait: wait}, nil
}

func (q Request) mark(secret []byte) store.Mark {
	return store.Mark{Consumer: q.Scope, Identity: store.Identity{Source: q.Tenant, ID: q.Key},
		Outcome: store.Done, Fingerprint: fingerprint.Of(secret, q.Payload), Keep: q.Keep}
}

// read reads the stored verdict of the key. It returns true if there is no work to do.
func (r *Run[TTx]) read(found store.Found) (done bool, err error) {
	v := found.Marks[0]
	if v.Outcome == store.Fresh {
		for i, version := range found.Locks {
			r.locks = append(r.locks, store.Lock{Space: r.request.Locks[i].Space, Key: r.request.Locks[i].Key,
				Version: version})
		}
		return false, nil
	}
	r.found, err = stored(v, r.mark)
	return true, err
}

// stored returns the answer of v, or the error that explains why there is none for m.
func stored(v store.Verdict, m store.Mark) (*Answer, error) {
	switch Judge(v, m.Fingerprint) {
	case store.Conflict:
		return nil, &ConflictError{Consumer: m.Consumer, Identity: m.Identity}
	case store.TooOld:
		return nil, &TooOldError{Consumer: m.Consumer, Identity: m.Identity}
	}
	return &Answer{Rejected: v.Outcome == store.Rejected, Reason: v.Reason, Code: v.Code, Result: v.Result,
		Headers: v.Headers, Left: v.Left}, nil
}

// Answer returns the stored answer. If done is false, do the work now.
func (r *Run[TTx]) Answer() (a Answer, done bool) {
	if r.found == nil {
		return a, false
	}
	return *r.found, true
}

// Locks returns the locked entities, with their versions in this transaction.
func (r *Run[TTx]) Locks() []store.Lock { return r.locks }

// Tx returns the transaction for the work. If Begin began it, do not commit it.
func (r *Run[TTx]) Tx() TTx { return r.tx }

// Commit stores the answer and inserts rows into the outbox, in the transaction of the work. It also commits
// the transaction, if Begin began it. For a rejection it first rolls back the rows of the work; in a
// transaction of the caller these rows stay. After an error the commit may have taken effect: call Begin
// again to find out.
func (r *Run[TTx]) Commit(ctx context.Context, a Answer, rows ...skald.Message) error {
	if err := a.Fits(r.request); err != nil {
		r.Rollback(ctx)
		return err
	}
	r.ended = true
	m, doing := a.On(r.mark), "commit"
	if a.Rejected {
		doing = "refuse"
	}
	if err := r.store(ctx, m, rows); err != nil {
		return fmt.Errorf("%s %s: %w", doing, r.request, err)
	}
	return nil
}

func (r *Run[TTx]) store(ctx context.Context, m store.Mark, rows []skald.Message) error {
	switch answer := (store.Effect{Answer: &m, Rows: rows}); {
	case r.unit == nil:
		return r.db.Write(ctx, r.tx, answer)
	case m.Outcome != store.Rejected:
		return r.unit.Commit(ctx, answer)
	}
	// The store accepts a refusal only if the locked entities still have the versions on which it was based.
	applied, err := r.unit.Rollback(ctx, store.Effect{Mark: &m, Locks: r.locks, Rows: rows})
	if err == nil && !applied[0] {
		err = store.ErrBusy // another run was faster
	}
	return err
}

// Outage reports whether the transaction itself failed, so that the error is not the fault of the work. Call
// it before Commit or Rollback; see store.Unit. In a transaction of the caller it returns false.
func (r *Run[TTx]) Outage(ctx context.Context, err error) bool {
	return r.unit != nil && r.unit.Outage(ctx, err)
}

// Close rolls back a run that has not ended, even if ctx has ended. Defer it, because the work may panic or
// call runtime.Goexit.
func (r *Run[TTx]) Close(ctx context.Context) {
	if r.ended || r.found != nil {
		return
	}
	end, cancel := context.WithTimeout(context.WithoutCancel(ctx), settleTimeout)
	defer cancel()
	r.Rollback(end)
}

// Rollback ends a run without an answer, so the next run of the key does the work. In a transaction of the
// caller, the caller must roll back.
func (r *Run[TTx]) Rollback(ctx context.Context) {
	r.ended = true
	if r.unit != nil {
		_, _ = r.unit.Rollback(ctx) // after an error nothing is stored either
	}
}
