// This file has the endpoints without a transaction of Skald: Wrap.

package httpidem

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/failure"
	"github.com/skald-go/skald/internal/backoff"
	"github.com/skald-go/skald/internal/telemetry"
	"github.com/skald-go/skald/once"
	"github.com/skald-go/skald/store"
)

// Wrap makes handler idempotent with a lease. It reserves the key in a separate commit, runs handler, and
// stores its answer. The writes of handler are not in that commit. If the process dies after the effect and
// before the answer is stored, a repeat runs handler again after the lease. A repeat also runs handler again
// after an answer with 5xx, 401, 403, 408, 409, 425 or 429, which is not stored. So handler should undo its
// work before such an answer. If a second run is not acceptable, use Handle.
//
// Wrap keeps the answer in memory until it is stored. It sends up to 32 MiB and stores up to 64 KiB. For a
// larger answer it stores only the size, and answers a repeat with 409. Hijacking and text/event-stream fail
// with 500, and leave the key reserved.
//
// The context of handler ends at nine tenths of Options.Lease, but not if the client disconnects. If handler
// answers after its lease, Wrap sends the stored answer of another request. Put http.TimeoutHandler outside
// of Wrap: inside, its 503 would free the key during the work. Handle does not see reservations of Wrap. So
// if you replace Wrap by Handle, or Handle by Wrap, give the endpoint a new name.
func Wrap(db LeaseStore, name string, tenant Tenant, o *Options, handler http.Handler) http.Handler {
	ep := newEndpoint(name, tenant, o, db)
	if ep.o.Entities != nil {
		ep.check = func(context.Context) error { return errNoTransaction }
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ep.serve(w, r, func(ctx context.Context, q *keyedRequest) (answer, error) {
			key, err := ep.reserve(ctx, db, q)
			if err != nil {
				return answer{}, err
			}
			if kept, done := key.Answer(); done {
				return restore(kept)
			}
			return ep.waitForWork(ctx, func(ctx context.Context) (answer, error) {
				began := time.Now()
				life, cancel := context.WithTimeout(ctx, ep.o.Lease*9/10)
				defer cancel()
				rec, err := record(life, r, q.body, handler)
				if err != nil {
					// The effect is unknown, so the key stays reserved until the lease ends.
					return answer{}, err
				}
				return ep.finish(ctx, key, q, r, rec, began)
			})
		})
	})
}

var errNoTransaction = errors.New("httpidem.Options.Entities are locked until a commit, and Wrap has no transaction: use Handle, or lock them in the handler (redislock)")

// reserve reserves the key. While another request has the key, it retries for Options.Wait.
func (ep *endpoint) reserve(ctx context.Context, db LeaseStore, q *keyedRequest) (*once.Reservation, error) {
	ends := time.Now().Add(ep.o.Wait)
	for attempt := 1; ; attempt++ {
		key, err := once.Reserve(ctx, db, q.request, ep.o.Lease)
		held := (*once.InProgressError)(nil)
		pause := backoff.After(attempt, 20*time.Millisecond, 500*time.Millisecond)
		if !errors.As(err, &held) || time.Now().Add(pause).After(ends) {
			return key, err
		}
		again := time.NewTimer(pause)
		select {
		case <-again.C:
		case <-ctx.Done():
			again.Stop()
			return nil, ctx.Err()
		}
	}
}

// record runs handler and returns its answer. It returns an error if handler panics, ends its goroutine, or
// sets an invalid status.
func record(ctx context.Context, r *http.Request, body []byte,
	handler http.Handler) (rec *recorder, err error) {
	rec = &recorder{header: http.Header{}}
	inner := r.Clone(ctx)
	// An encoded answer could not be sent to every client again, so compression belongs outside of Wrap.
	inner.Header.Set("Accept-Encoding", "identity")
	inner.Body, inner.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	err = failure.Run(func() error {
		handler.ServeHTTP(rec, inner)
		return nil
	})
	var p *failure.PanicError
	switch {
	case err == nil:
		return rec, rec.invalid
	case !errors.As(err, &p):
		return rec, err
	case p.Value == http.ErrAbortHandler:
		return rec, errors.New("the handler aborted the request")
	}
	return rec, fmt.Errorf("the handler panicked: %v\n%s", p.Value, p.Stack)
}

// finish stores the answer of next, or frees the key.
func (ep *endpoint) finish(ctx context.Context, key *once.Reservation, q *keyedRequest, r *http.Request,
	rec *recorder, began time.Time) (answer, error) {
	a := rec.answer()
	a.negotiated = negotiates(r, a.header)
	kind := typeStreaming
	if storable(a.code) && bodyAllowed(a.code) && r.Method != http.MethodHead && rec.refused == nil {
		rec.refused, kind = checkLength(a.header, max(a.dropped, int64(len(a.body)))), typeLength
	}
	if rec.refused != nil {
		a = (&Problem{Type: kind, Status: http.StatusInternalServerError,
			Detail: rec.refused.Error()}).toAnswer()
		a.outcome = telemetry.KeyFailed
		ep.o.Logger.ErrorContext(ctx, "httpidem: request failed", "endpoint", ep.name, "method", r.Method,
			"path", r.URL.Path, "error", rec.refused)
	}
	if rec.refused != nil { // the effect is unknown, so the key stays reserved
		return a, nil
	}
	if a.stored = storable(a.code); !a.stored {
		end, cancel := context.WithTimeout(context.WithoutCancel(ctx), ep.o.dbTimeout())
		defer cancel()
		return a, ep.giveBack(end, key)
	}
	kept, err := a.keep(r.URL.EscapedPath())
	if err != nil {
		return a, err
	}
	return ep.waitForStore(ctx, func(ctx context.Context) (answer, error) {
		end, cancel := context.WithDeadline(ctx, later(began.Add(ep.o.Lease), time.Now().Add(finishTimeout)))
		defer cancel()
		return ep.store(end, key, q, a, kept)
	})
}

// waitForStore waits for the function do, for at most dbTimeout. After that the client gets 503, and do
// continues in the background. A repeat gets the answer after it is stored.
func (ep *endpoint) waitForStore(ctx context.Context,
	do func(context.Context) (answer, error)) (answer, error) {
	late, end := context.WithTimeout(context.Background(), ep.o.dbTimeout())
	defer end()
	return waitUntil(ctx, late, do)
}

// waitForWork waits for the function do until the database has an outage. After that the client gets 503.
// The work continues in the background, because it may have effects outside of the database. A repeat gets
// the answer after it is stored.
func (ep *endpoint) waitForWork(ctx context.Context,
	do func(context.Context) (answer, error)) (answer, error) {
	away, end := context.WithCancel(context.Background())
	defer end()
	defer ep.watch(away, end).Stop()
	return waitUntil(ctx, away, do)
}

// waitUntil returns the result of the function do, or an outage when the context outage ends.
func waitUntil(ctx, outage context.Context, do func(context.Context) (answer, error)) (answer, error) {
	type ending struct {
		answer
		err error
	}
	ended := make(chan ending, 1)
	go func() {
		a, err := do(context.WithoutCancel(ctx))
		ended <- ending{a, err}
	}()
	select {
	case e := <-ended:
		return e.answer, e.err
	case <-outage.Done():
		return answer{}, skald.Outage(errSilent)
	}
}

// store stores the answer of finished work. It retries until the lease ends.
func (ep *endpoint) store(end context.Context, key *once.Reservation, q *keyedRequest, a answer,
	kept once.Answer) (answer, error) {
	for attempt := 1; ; attempt++ {
		err := ep.tryFinish(end, key, kept)
		if err == nil {
			a.kept = &kept
			return a, nil
		}
		if errors.Is(err, store.ErrLost) {
			other, err := ep.readAgain(end, q, store.ErrBusy)
			if other.outcome = telemetry.KeyOvertaken; attempt > 1 && err == nil && other.equals(a) {
				other.outcome = telemetry.KeyDone // an earlier attempt stored the answer
			}
			return other, err
		}
		if store.Incurable(err) {
			return a, err
		}
		pause := time.NewTimer(backoff.After(attempt, 50*time.Millisecond, time.Second))
		select {
		case <-pause.C:
		case <-end.Done():
			pause.Stop()
			return a, err
		}
	}
}

// tryFinish makes one attempt to store the answer, for at most dbTimeout.
func (ep *endpoint) tryFinish(ctx context.Context, key *once.Reservation, kept once.Answer) error {
	ctx, cancel := context.WithTimeout(ctx, ep.o.dbTimeout())
	defer cancel()
	return key.Finish(ctx, kept)
}

// later returns the later of two times.
func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// giveBack frees the key. After an error the key is free when the lease ends.
func (ep *endpoint) giveBack(ctx context.Context, key *once.Reservation) error {
	if err := key.GiveBack(ctx); err != nil && !errors.Is(err, store.ErrLost) {
		ep.o.Logger.WarnContext(ctx, "httpidem: the key stays until its lease ends", "endpoint", ep.name,
			"error", err)
	}
	return nil
}
