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

// Wrap makes next idempotent by a lease: the key is reserved in a commit of its own, next runs, and its
// answer is stored. What next writes is not in that commit, so a process that dies in between leaves an
// effect without an answer, and once the lease has ended a repeat runs next again. The same goes for an
// answer of 5xx (and 401, 403, 408, 409, 425, 429), which is not stored: next should undo what it did before
// it answers so. Where that must not be, use Handle.
//
// The answer is held in memory until it is stored: up to 32 MiB are sent, up to 64 KiB are kept; of a larger
// one it is kept that it was done, and a repeat is 409. There is nothing to flush, and hijacking and
// text/event-stream fail by name, with 500, and leave the key reserved. The context of next ends at nine
// tenths of Options.Lease, not when the client goes. Whoever answers later than the lease cannot overwrite:
// the answer that is stored is sent. Keep http.TimeoutHandler outside: inside, its 503 frees the key while
// the work goes on. Handle does not see what Wrap reserved: a new endpoint has a new name.
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
					// what was done is not known, so the key stays until the lease ends
					return answer{}, err
				}
				return d.finish(ctx, key, q, r, rec, began)
			})
		})
	})
}

var errNoTransaction = errors.New("httpidem.Options.Entities are locked until a commit, and Wrap has no transaction: take Handle, or lock them in the handler (redislock)")

// reserve reserves the key. Where another one has it in hand, it asks again until Options.Wait is over.
func (d *door) reserve(ctx context.Context, db LeaseStore, q *asked) (*once.Reservation, error) {
	ends := time.Now().Add(d.o.Wait)
	for attempt := 1; ; attempt++ {
		key, err := once.Reserve(ctx, db, q.request, d.o.Lease)
		held := (*once.InHandError)(nil)
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

// record runs next. An error is a panic of it, the end of its goroutine, or a status that HTTP does not have.
func record(ctx context.Context, r *http.Request, body []byte, next http.Handler) (rec *recorder, err error) {
	rec = &recorder{header: http.Header{}}
	inner := r.Clone(ctx)
	// An answer in a coding could not be replayed to every client: compression belongs outside.
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

// finish stores what next answered, or gives the key back.
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
	if rec.refused != nil { // what was done is not known, so the key stays until the lease ends
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

// storing waits for do for as long as the database may be silent. Then the client gets 503, and do goes on:
// a repeat gets the answer once it is stored.
func (d *door) storing(ctx context.Context, do func(context.Context) (answer, error)) (answer, error) {
	late, end := context.WithTimeout(context.Background(), d.o.silence())
	defer end()
	return until(ctx, late, do)
}

// working waits for do until the database has an outage. Then the client gets 503, and do goes on: what it
// does outside of the database is not known, and a repeat gets the answer once it is stored.
func (d *door) working(ctx context.Context, do func(context.Context) (answer, error)) (answer, error) {
	away, end := context.WithCancel(context.Background())
	defer end()
	defer d.watch(away, end).Stop()
	return until(ctx, away, do)
}

// until returns what do returns, or 503 once over ends.
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

// store stores the answer to work that is done: as long as the lease lasts it is worth another try.
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

// tryFinish is one attempt to store the answer: a connection that is silent is not waited for again.
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

// giveBack frees the key; where that fails, the end of the lease does.
func (d *door) giveBack(ctx context.Context, key *once.Reservation) error {
	if err := key.GiveBack(ctx); err != nil && !errors.Is(err, store.ErrLost) {
		d.o.Logger.WarnContext(ctx, "httpidem: the key stays until its lease ends", "endpoint", d.name,
			"error", err)
	}
	return nil
}
