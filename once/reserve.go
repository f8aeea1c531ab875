package once

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"time"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/store"
)

var errNoKey = errors.New(
	"once: scope and key must not be empty: without a key a repeat cannot be known again")

// A Reserver is what reservations need of a database. Each store.Driver has it.
type Reserver interface {
	Reserve(ctx context.Context, r store.Reservation) (store.Reserved, error)
	Apply(ctx context.Context, es ...store.Effect) ([]bool, error)
	Secret(ctx context.Context) ([]byte, error)
}

// A Reservation is work outside of a transaction of ours, under one key. It was done before, and Answer
// returns the stored answer; or it is to be done now, until the lease ends: then Finish it, or give it back.
type Reservation struct {
	db      Reserver
	request Request
	mark    store.Mark
	held    store.Reservation
	found   *Answer // nil: not done yet
}

// An InHandError says that another one has the key. It is a store.ErrBusy.
type InHandError struct {
	Scope, Key string
	Left       time.Duration // of the other's lease; 0: about to end
}

func (e *InHandError) Error() string {
	return fmt.Sprintf("%s %.200q is in hand, for %v more at most", e.Scope, e.Key, e.Left)
}
func (e *InHandError) Unwrap() error { return store.ErrBusy }

// Reserve claims the key until the lease ends, in a commit of its own. It does not wait for another run. If
// the database gives no answer within a second after Request.Wait, at most 10 s, it returns an error. A
// crash frees the key when the lease ends. Work that takes longer may be done by another one beside it: of
// both, one answer is stored. Errors: an *InHandError, a *ConflictError, a *TooOldError.
func Reserve(ctx context.Context, db Reserver, q Request, lease time.Duration) (*Reservation, error) {
	if err := q.check(); err != nil {
		return nil, err
	}
	secret, err := db.Secret(ctx)
	if err != nil {
		return nil, fmt.Errorf("reserve %s: %w", q, err)
	}
	m := q.mark(secret)
	held := store.Reservation{Consumer: m.Consumer, Identity: m.Identity, Fingerprint: m.Fingerprint,
		Token: rand.Text(), Lease: lease, Keep: m.Keep}
	// Whoever leaves while this commits would leave the key in nobody's hand until the lease ends.
	patience := settling
	if q.Wait > 0 {
		patience = min(settling, q.Wait+time.Second)
	}
	sure, cancel := context.WithTimeout(context.WithoutCancel(ctx), patience)
	defer cancel()
	got, err := db.Reserve(sure, held)
	if err != nil {
		return nil, fmt.Errorf("reserve %s: %w", q, err)
	}
	r := &Reservation{db: db, request: q, mark: m, held: held}
	switch {
	case got.Outcome == store.Fresh && !got.Rival && ctx.Err() != nil:
		return nil, errors.Join(ctx.Err(), r.GiveBack(sure))
	case got.Outcome != store.Fresh:
		r.found, err = stored(got.Verdict, m)
	case got.Rival && got.Fingerprint != 0 && got.Fingerprint != m.Fingerprint:
		err = &ConflictError{Consumer: m.Consumer, Identity: m.Identity}
	case got.Rival:
		err = &InHandError{Scope: q.Scope, Key: q.Key, Left: got.Left}
	}
	return r, err
}

// Answer returns the stored answer. Done is false where the work is to be done now.
func (r *Reservation) Answer() (a Answer, done bool) {
	if r.found == nil {
		return a, false
	}
	return *r.found, true
}

// Finish stores the answer, and rows into the outbox, and frees the key. store.ErrLost: the lease ended and
// another one took the key, or an earlier Finish took effect; Look tells. Nothing is written then.
func (r *Reservation) Finish(ctx context.Context, a Answer, rows ...skald.Message) error {
	if err := a.Fits(r.request); err != nil {
		return err
	}
	m := a.On(r.mark)
	return r.end(ctx, "finish", store.Effect{Reservation: &r.held, Mark: &m, Rows: rows})
}

// GiveBack frees the key without an answer: the next one does the work. store.ErrLost: it was not ours any
// more.
func (r *Reservation) GiveBack(ctx context.Context) error {
	return r.end(ctx, "give back", store.Effect{Reservation: &r.held})
}

func (r *Reservation) end(ctx context.Context, doing string, e store.Effect) error {
	stood, err := r.db.Apply(ctx, e)
	if err == nil && !stood[0] {
		err = store.ErrLost
	}
	if err != nil {
		return fmt.Errorf("%s %s: %w", doing, r.request, err)
	}
	return nil
}

// A Seer looks keys up. Each store.Driver is one.
type Seer interface {
	Seen(ctx context.Context, consumer string, ids []store.Identity) ([]store.Verdict, error)
	Secret(ctx context.Context) ([]byte, error)
}

// Look returns the answer that is stored under the key, if there is one, in one round trip that claims
// nothing. Errors: a *ConflictError.
func Look(ctx context.Context, db Seer, q Request) (a Answer, done bool, err error) {
	secret, err := db.Secret(ctx)
	if err != nil {
		return a, false, fmt.Errorf("look up %s: %w", q, err)
	}
	m := q.mark(secret)
	got, err := db.Seen(ctx, m.Consumer, []store.Identity{m.Identity})
	if err != nil {
		return a, false, fmt.Errorf("look up %s: %w", q, err)
	}
	if got[0].Outcome == store.Fresh {
		return a, false, nil
	}
	found, err := stored(got[0], m)
	if err != nil {
		return a, false, err
	}
	return *found, true, nil
}

// Fits tells whether a can be kept.
func (a Answer) Fits(q Request) error {
	if len(a.Result) > MaxResult {
		return fmt.Errorf("%s: %w", q, &tooLargeError{"the result is", len(a.Result), MaxResult})
	}
	if len(a.Headers) > MaxHeaders {
		return fmt.Errorf("%s: %w", q, &tooLargeError{"the headers are", len(a.Headers), MaxHeaders})
	}
	return nil
}

// On is m with the answer: what an Effect writes.
func (a Answer) On(m store.Mark) store.Mark {
	m.Code, m.Result, m.Headers = a.Code, a.Result, a.Headers
	if a.Rejected {
		m.As, m.Reason = store.Rejected, a.Reason
	}
	return m
}
