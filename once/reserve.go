// This file reserves a key by a lease, for work outside of Skald's transactions.

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
	"once: scope and key must not be empty: without a key a repeat cannot be recognized")

// Reserver is the part of a database that reservations need. Each store.Driver has it.
type Reserver interface {
	Reserve(ctx context.Context, r store.Reservation) (store.Reserved, error)
	Apply(ctx context.Context, es ...store.Effect) ([]bool, error)
	Secret(ctx context.Context) ([]byte, error)
}

// Reservation is work under one key, outside of Skald's transactions. If the work was done before, Answer
// returns the stored answer. Otherwise do it now, before the lease ends, and call Finish or GiveBack.
type Reservation struct {
	db       Reserver
	request  Request
	mark     store.Mark
	reserved store.Reservation
	found    *Answer // the stored answer; nil if the work is not done
}

// InProgressError reports that another reservation has the key. It wraps store.ErrBusy.
type InProgressError struct {
	Scope, Key string
	Left       time.Duration // the rest of the other lease; 0 if it is about to end
}

func (e *InProgressError) Error() string {
	return fmt.Sprintf("%s %.200q is in progress elsewhere, for %v more at most", e.Scope, e.Key, e.Left)
}
func (e *InProgressError) Unwrap() error { return store.ErrBusy }

// Reserve reserves the key until the lease ends, in a commit of its own. It does not wait for another run of
// the key. If the database does not answer within Request.Wait plus one second, or within 10 s, it returns an
// error. Other errors are an *InProgressError, a *ConflictError and a *TooOldError.
//
// After a crash the key is free when the lease ends. If the work takes longer than the lease, another process
// may do it concurrently, but only one answer is stored.
func Reserve(ctx context.Context, db Reserver, q Request, lease time.Duration) (*Reservation, error) {
	if err := q.check(); err != nil {
		return nil, err
	}
	secret, err := db.Secret(ctx)
	if err != nil {
		return nil, fmt.Errorf("reserve %s: %w", q, err)
	}
	m := q.mark(secret)
	reservation := store.Reservation{Consumer: m.Consumer, Identity: m.Identity, Fingerprint: m.Fingerprint,
		Token: rand.Text(), Lease: lease, Keep: m.Keep}
	// If ctx ended during this commit, the key would stay reserved until the lease ends, although no caller
	// does the work.
	patience := settleTimeout
	if q.Wait > 0 {
		patience = min(settleTimeout, q.Wait+time.Second)
	}
	settle, cancel := context.WithTimeout(context.WithoutCancel(ctx), patience)
	defer cancel()
	got, err := db.Reserve(settle, reservation)
	if err != nil {
		return nil, fmt.Errorf("reserve %s: %w", q, err)
	}
	r := &Reservation{db: db, request: q, mark: m, reserved: reservation}
	switch {
	case got.Outcome == store.Fresh && !got.Rival && ctx.Err() != nil:
		return nil, errors.Join(ctx.Err(), r.GiveBack(settle))
	case got.Outcome != store.Fresh:
		r.found, err = stored(got.Verdict, m)
	case got.Rival && got.Fingerprint != 0 && got.Fingerprint != m.Fingerprint:
		err = &ConflictError{Consumer: m.Consumer, Identity: m.Identity}
	case got.Rival:
		err = &InProgressError{Scope: q.Scope, Key: q.Key, Left: got.Left}
	}
	return r, err
}

// Answer returns the stored answer. If done is false, do the work now.
func (r *Reservation) Answer() (a Answer, done bool) {
	if r.found == nil {
		return a, false
	}
	return *r.found, true
}

// Finish stores the answer, inserts rows into the outbox, and frees the key. It returns store.ErrLost if it
// wrote nothing. Either another process reserved the key after the lease, or an earlier Finish took effect.
// Call Look to find out.
func (r *Reservation) Finish(ctx context.Context, a Answer, rows ...skald.Message) error {
	if err := a.Fits(r.request); err != nil {
		return err
	}
	m := a.On(r.mark)
	return r.end(ctx, "finish", store.Effect{Reservation: &r.reserved, Mark: &m, Rows: rows})
}

// GiveBack frees the key without an answer, so the next call does the work. It returns store.ErrLost if this
// reservation no longer had the key.
func (r *Reservation) GiveBack(ctx context.Context) error {
	return r.end(ctx, "give back", store.Effect{Reservation: &r.reserved})
}

func (r *Reservation) end(ctx context.Context, doing string, e store.Effect) error {
	applied, err := r.db.Apply(ctx, e)
	if err == nil && !applied[0] {
		err = store.ErrLost
	}
	if err != nil {
		return fmt.Errorf("%s %s: %w", doing, r.request, err)
	}
	return nil
}

// Seer is the part of a database that looks keys up. Each store.Driver implements it.
type Seer interface {
	Seen(ctx context.Context, consumer string, ids []store.Identity) ([]store.Verdict, error)
	Secret(ctx context.Context) ([]byte, error)
}

// Look returns the stored answer of the key, if there is one. It takes one round trip and reserves nothing.
// If the key was used with another payload, it returns a *ConflictError.
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

// Fits returns an error if a is too large to store.
func (a Answer) Fits(q Request) error {
	if len(a.Result) > MaxResult {
		return fmt.Errorf("%s: %w", q, &tooLargeError{"the result is", len(a.Result), MaxResult})
	}
	if len(a.Headers) > MaxHeaders {
		return fmt.Errorf("%s: %w", q, &tooLargeError{"the headers are", len(a.Headers), MaxHeaders})
	}
	return nil
}

// On returns a copy of m with the answer, for an Effect.
func (a Answer) On(m store.Mark) store.Mark {
	m.Code, m.Result, m.Headers = a.Code, a.Result, a.Headers
	if a.Rejected {
		m.Outcome, m.Reason = store.Rejected, a.Reason
	}
	return m
}
