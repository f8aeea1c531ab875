package once

import (
	"context"
	"fmt"
	"time"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/internal/fingerprint"
	"github.com/skald-go/skald/store"
)

// A Store is what this package needs of a database. Each store.Driver has it.
type Store[TTx any] interface {
	Begin(ctx context.Context, in store.Intake) (store.Unit[TTx], error)
	Enter(ctx context.Context, tx TTx, in store.Intake) (store.Found, error)
	Write(ctx context.Context, tx TTx, es ...store.Effect) error
	Secret(ctx context.Context) ([]byte, error)
}

// A Request names work that is to be done once.
type Request struct {
	Scope, Key string // neither is empty; scopes keep the keys of different kinds of work apart
	Tenant     string // keeps the keys of several users of one scope apart. Default: there is one
	Payload    []byte // must be equal whenever the key is; only a keyed hash of it is stored
	// entities that are locked with the claim of the key; their versions are not looked at. Default: none
	Locks []store.Lock
	// Keep is how long an answer is kept, by the database's clock. Then a key that tells no time is fresh,
	// whether its row is still there or not. Of a key that is a UUID of version 7 the answer is given for as
	// long as it is there, then it is too old. Default: for as long as marks are.
	Keep time.Duration
	// how long to wait for another run that has the key in hand, then store.ErrBusy. Default 5 s; negative:
	// not at all
	Wait time.Duration
}

func (q Request) String() string { return fmt.Sprintf("%s %.200q", q.Scope, q.Key) }

// An Answer is what is kept under a key, and returned to each repeat.
type Answer struct {
	Rejected bool   // the work said no: its rows were rolled back
	Reason   string // of a rejection; at most 1 KiB, a longer one is cut
	Code     int32
	Result   string // encoded; at most MaxResult bytes
	Headers  string // what else goes with Result, encoded; at most MaxHeaders bytes
	// Left is until the end of Request.Keep, as the database has it. Only read, with a stored answer. 0: its
	// scope has no retention of its own
	Left time.Duration
}

// A Run is work under one key. It was done before, and Answer returns the stored answer; or it is to be done
// now in Tx: then end it once, by Commit or Rollback, and defer Close.
type Run[TTx any] struct {
	db      Store[TTx]
	request Request
	mark    store.Mark
	unit    store.Unit[TTx] // nil: the transaction is the caller's
	tx      TTx
	locks   []store.Lock // as Request.Locks, with the versions that this transaction gives them
	found   *Answer      // nil: not done yet
	ended   bool
}

// settling bounds what is done whether or not somebody still waits.
const settling = 10 * time.Second

// Begin claims the key in a transaction that it begins. Errors: store.ErrBusy, where another run still has
// the key in hand after Request.Wait; a *ConflictError, where the key stands for another payload; a
// *TooOldError, where marks of its time are deleted.
func Begin[TTx any](ctx context.Context, db Store[TTx], q Request) (*Run[TTx], error) {
	r, intake, err := claim(ctx, db, q)
	if err != nil {
		return nil, err
	}
	if r.unit, err = db.Begin(ctx, intake); err != nil {
		return nil, fmt.Errorf("take %s: %w", q, err)
	}
	r.tx = r.unit.Tx()
	if over, err := r.read(r.unit.Found()); over {
		_, _ = r.unit.Rollback(ctx) // nothing was written
		return r, err
	}
	return r, nil
}

// Enter is Begin in a transaction of the caller: its commit commits the answer.
func Enter[TTx any](ctx context.Context, db Store[TTx], tx TTx, q Request) (*Run[TTx], error) {
	r, intake, err := claim(ctx, db, q)
	if err != nil {
		return nil, err
	}
	r.tx = tx
	found, err := db.Enter(ctx, tx, intake)
	if err != nil {
		return nil, fmt.Errorf("take %s: %w", q, err)
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
		As: store.Done, Fingerprint: fingerprint.Of(secret, q.Payload), Keep: q.Keep}
}

// read takes up what is known of the key; over: there is nothing to be done.
func (r *Run[TTx]) read(found store.Found) (over bool, err error) {
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

// stored is the answer that v tells of, or why there is none for m.
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

// Answer returns the stored answer. Done is false where the work is to be done now.
func (r *Run[TTx]) Answer() (a Answer, done bool) {
	if r.found == nil {
		return a, false
	}
	return *r.found, true
}

// Locks are the entities that are locked, with the versions that the transaction gives them.
func (r *Run[TTx]) Locks() []store.Lock { return r.locks }

// Tx is the transaction to do the work in. Do not commit it where Begin began it.
func (r *Run[TTx]) Tx() TTx { return r.tx }

// Commit stores the answer, and rows into the outbox, in the transaction of the work, and commits it where
// Begin began it. A rejection rolls the work's own rows back first; in a transaction of the caller they stay.
// An error may hide that the commit took effect: begin again to know.
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
	case m.As != store.Rejected:
		return r.unit.Commit(ctx, answer)
	}
	// a "no" that is still true
	stands, err := r.unit.Rollback(ctx, store.Effect{Mark: &m, Locks: r.locks, Rows: rows})
	if err == nil && !stands[0] {
		err = store.ErrBusy // a rival was faster
	}
	return err
}

// Outage tells of an error of the work, before Commit or Rollback, whether the transaction failed by what is
// nobody's fault: see store.Unit. In a transaction of the caller it is not known, and false.
func (r *Run[TTx]) Outage(ctx context.Context, err error) bool {
	return r.unit != nil && r.unit.Outage(ctx, err)
}

// Close rolls back what was not ended, whether ctx is over or not. Defer it: what runs the work may panic, or
// call runtime.Goexit.
func (r *Run[TTx]) Close(ctx context.Context) {
	if r.ended || r.found != nil {
		return
	}
	end, cancel := context.WithTimeout(context.WithoutCancel(ctx), settling)
	defer cancel()
	r.Rollback(end)
}

// Rollback ends a run without an answer: the next run of the key does the work. A transaction of the caller
// is the caller's to end.
func (r *Run[TTx]) Rollback(ctx context.Context) {
	r.ended = true
	if r.unit != nil {
		_, _ = r.unit.Rollback(ctx) // nothing of it stands in any case
	}
}
