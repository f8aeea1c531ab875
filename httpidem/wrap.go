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

// Wrap makes next idempotent by a lease: it reserves the key in a separate commit, runs next, and stores
// its answer. The writes of next are not in that commit. If the process dies in between, the effect has no
// answer, and a repeat runs next again after the lease. The same holds for an answer with 5xx, 401, 403,
// 408, 409, 425 or 429, which is not stored. So next should undo its work before such an answer. If a
// second run is not acceptable, use Handle.
//
// Wrap holds the answer in memory until it is stored. It sends up to 32 MiB and stores up to 64 KiB. Of a
// larger answer it stores only the fact, and a repeat is answered with 409. Hijacking and text/event-stream
// fail with 500, and leave the key reserved. The context of next ends at nine tenths of Options.Lease, but
// not if the client disconnects. If next answers after its lease, the stored answer of another request is
// sent. Put http.TimeoutHandler outside of Wrap: inside, its 503 would free the key during the work. Handle
// does not see reservations of Wrap, so give a changed endpoint a new name.
func Wrap(db LeaseStore, name string, tenant Tenant, o *Options, next http.Handler) http.Handler {
	d := newDoor(name, tenant, o, db)
	if d.o.Entities != nil {
		d.check = func(context.Context) error { return errNoTransaction }
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		d.serve(w, r, func(ctx context.Context, q *asked) (answer, error) {
			key, err := d.reserve(ctx, db, q)
			if err != nil {
				return answer{}, err
			}
			if kept, done := key.Answer(); done {
				return restore(kept)
			}
			return d.working(ctx, func(ctx context.Context) (answer, error) {
				began := time.Now()
				life, cancel := context.WithTimeout(ctx, d.o.Lease*9/10)
				defer cancel()
				rec, err := record(life, r, q.body, next)
				if err != nil {
					// the effect is unknown, so the key stays reserved until the lease ends
					return answer{}, err
				}
				return d.finish(ctx, key, q, r, rec, began)
			})
		})
	})
}

var errNoTransaction = errors.New("httpidem.Options.Entities are locked until a commit, and Wrap has no transaction: use Handle, or lock them in the handler (redislock)")

// reserve reserves the key. While another request has the key, it retries until Options.Wait is over.
func (d *door) reserve(ctx context.Context, db LeaseStore, q *asked) (*once.Reservation, error) {
	ends := time.Now().Add(d.o.Wait)
	for attempt := 1; ; attempt++ {
		key, err := once.Reserve(ctx, db, q.request, d.o.Lease)
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

// record runs next. It returns an error for a panic, for the end of the goroutine, or for an invalid
// status.
func record(ctx context.Context, r *http.Request, body []byte, next http.Handler) (rec *recorder, err error) {
	rec = &recorder{header: http.Header{}}
	inner := r.Clone(ctx)
	// An encoded answer could not be replayed to every client, so compression belongs outside.
	inner.Header.Set("Accept-Encoding", "identity")
	inner.Body, inner.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	err = failure.Run(func() error {
		next.ServeHTTP(rec, inner)
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
func (d *door) finish(ctx context.Context, key *once.Reservation, q *asked, r *http.Request, rec *recorder,
	began time.Time) (answer, error) {
	a := rec.answer()
	a.negotiated = negotiates(r, a.header)
	kind := typeStreaming
	if storable(a.code) && bodyAllowed(a.code) && r.Method != http.MethodHead && rec.refused == nil {
		rec.refused, kind = declared(a.header, max(a.dropped, int64(len(a.body)))), typeLength
	}
	if rec.refused != nil {
		a = (&Problem{Type: kind, Status: http.StatusInternalServerError,
			Detail: rec.refused.Error()}).answer()
		a.outcome = telemetry.KeyFailed
		d.o.Logger.ErrorContext(ctx, "httpidem: request failed", "endpoint", d.name, "method", r.Method,
			"path", r.URL.Path, "error", rec.refused)
	}
	if rec.refused != nil { // the effect is unknown, so the key stays reserved
		return a, nil
	}
	if a.stored = storable(a.code); !a.stored {
		end, cancel := context.WithTimeout(context.WithoutCancel(ctx), d.o.silence())
		defer cancel()
		return a, d.giveBack(end, key)
	}
	kept, err := a.keep(r.URL.EscapedPath())
	if err != nil {
		return a, err
	}
	return d.storing(ctx, func(ctx context.Context) (answer, error) {
		end, cancel := context.WithDeadline(ctx, later(began.Add(d.o.Lease), time.Now().Add(finishing)))
		defer cancel()
		return d.store(end, key, q, a, kept)
	})
}

// storing waits for do within the silence limit. After that the client gets 503, and do continues: a repeat
// gets the answer after it is stored.
func (d *door) storing(ctx context.Context, do func(context.Context) (answer, error)) (answer, error) {
	late, end := context.WithTimeout(context.Background(), d.o.silence())
	defer end()
	return until(ctx, late, do)
}

// working waits for do until the database has an outage. Then the client gets 503, and do continues,
// because its other effects are unknown. A repeat gets the answer after it is stored.
func (d *door) working(ctx context.Context, do func(context.Context) (answer, error)) (answer, error) {
	away, end := context.WithCancel(context.Background())
	defer end()
	defer d.watch(away, end).Stop()
	return until(ctx, away, do)
}

// until returns the result of do, or an outage after over ends.
func until(ctx, over context.Context, do func(context.Context) (answer, error)) (answer, error) {
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
	case <-over.Done():
		return answer{}, skald.Outage(errSilent)
	}
}

// store stores the answer of finished work. It retries until the lease ends.
func (d *door) store(end context.Context, key *once.Reservation, q *asked, a answer,
	kept once.Answer) (answer, error) {
	for attempt := 1; ; attempt++ {
		err := d.tryFinish(end, key, kept)
		if err == nil {
			a.kept = &kept
			return a, nil
		}
		if errors.Is(err, store.ErrLost) {
			other, err := d.again(end, q, store.ErrBusy)
			if other.outcome = telemetry.KeyOvertaken; attempt > 1 && err == nil && other.equals(a) {
				other.outcome = telemetry.KeyDone // an earlier attempt took effect
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

// tryFinish makes one attempt to store the answer, within the silence limit.
func (d *door) tryFinish(ctx context.Context, key *once.Reservation, kept once.Answer) error {
	ctx, cancel := context.WithTimeout(ctx, d.o.silence())
	defer cancel()
	return key.Finish(ctx, kept)
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// giveBack frees the key. If that fails, the key is free when the lease ends.
func (d *door) giveBack(ctx context.Context, key *once.Reservation) error {
	if err := key.GiveBack(ctx); err != nil && !errors.Is(err, store.ErrLost) {
		d.o.Logger.WarnContext(ctx, "httpidem: the key stays until its lease ends", "endpoint", d.name,
			"error", err)
	}
	return nil
}
