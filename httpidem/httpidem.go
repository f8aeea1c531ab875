// Package httpidem makes HTTP endpoints idempotent. A request that arrives twice with one Idempotency-Key
// is done once, and gets the same answer. Handle runs a handler in a transaction with its rows, its
// messages and the stored answer. Wrap is for handlers with a transaction of their own, or without one.
// Transport is the client side: it sends the key.
//
// It follows the IETF draft "The Idempotency-Key HTTP Header Field"; problems are application/problem+json
// (RFC 9457).
package httpidem

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/metric"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/internal/telemetry"
	"github.com/skald-go/skald/internal/vitals"
	"github.com/skald-go/skald/once"
	"github.com/skald-go/skald/store"
)

const (
	// KeyHeader carries the key, 1 to 255 visible ASCII characters, as a structured string ("…") or bare.
	KeyHeader = "Idempotency-Key"
	// ReplayedHeader is "true" on an answer that was stored before.
	ReplayedHeader = "Idempotent-Replayed"

	maxKey     = 255
	finishing  = 10 * time.Second // limits the commit, even if the client is gone
	retryAfter = time.Second
	onTheWay   = time.Second // in addition to Options.Wait, which the database may use up
)

// errSilent is the reason for status 503 if the database does not answer.
var errSilent = errors.New("httpidem: the database has not answered for longer than Options.Wait")

// Store is the part of a database that Handle needs. Each store.Driver implements it.
type Store[TTx any] interface {
	once.Store[TTx]
	once.Seer
	Runner
	Outage(err error) bool
	Probe(ctx context.Context) error
}

// LeaseStore is the part of a database that Wrap needs. Each store.Driver implements it.
type LeaseStore interface {
	once.Reserver
	once.Seer
	Runner
	Outage(err error) bool
	Probe(ctx context.Context) error
}

// Tenant returns the tenant of a request from its authentication. Keys of different tenants are
// independent. An error refuses the request with 401 and is logged. An outage refuses it with 503:
// skald.Outage, a context that ended, or an error of the network or the database. The client does not see
// the error, unless it is a *Problem.
type Tenant func(r *http.Request) (string, error)

// OneTenant is the Tenant of a service with one tenant. The tenant is empty, so skald consumer import takes
// its keys without --source.
func OneTenant(*http.Request) (string, error) { return "", nil }

// Options configures Handle and Wrap. Nil means the defaults.
type Options struct {
	// Wait limits the wait for another request with the same key; then the answer is 409. Under Handle it
	// also limits how long a statement of the handler waits for a lock. Default 5 s; negative does not
	// wait. If the database does not answer for one more second, the answer is 503; with a negative Wait,
	// after 6 s.
	Wait time.Duration
	// MaxBody limits the body of a request, in bytes; a larger body gets 413. Default 1 MiB.
	MaxBody int64
	// Headers names headers that affect the handler. Requests with one key must have equal values of them,
	// as well as equal method, path, query, Content-Type and body.
	Headers []string
	// Entities returns the entities that a request under Handle changes. They are locked with its key, in
	// the same round trip, until its commit. Requests with several entities cannot deadlock. Each commit
	// raises their versions by one, even that of a final refusal. If another request has an entity for
	// longer than Wait, the answer is 409. Space and Key are text without NUL. Wrap refuses this option.
	Entities func(r *http.Request, body []byte) []store.Lock
	// Lease limits the time of a handler under Wrap. Its context ends at nine tenths of the lease. A crash
	// blocks the key for the lease. Default 1 min.
	Lease time.Duration
	// Keep is how long an answer is stored, from the reservation of its key, by the database's clock. After
	// that the key is fresh, even if its row still exists. A key that is a UUID of version 7 is answered
	// until its row is deleted, and then is too old (422). Default: the retention of marks (30 days).
	Keep time.Duration
	// Cache stores committed answers. The endpoint reads it before the database, so a hit costs no
	// statement, and verifies each answer: see once.Sealed. Its TTL must not exceed Keep. Answers above 8
	// KiB are not cached. Package rediscache has one. Default: none.
	Cache once.Cache
	// Logger receives errors of handlers and of the database, which clients do not see. Default
	// slog.Default.
	Logger *slog.Logger

	MeterProvider metric.MeterProvider // default OpenTelemetry's global one
}

func (o *Options) orDefaults() Options {
	var out Options
	if o != nil {
		out = *o
	}
	out.Wait = cmp.Or(out.Wait, 5*time.Second)
	out.MaxBody = cmp.Or(out.MaxBody, 1<<20)
	out.Lease = cmp.Or(out.Lease, time.Minute)
	if out.Logger == nil {
		out.Logger = slog.Default()
	}
	return out
}

// silence limits the wait for the database in one call.
func (o *Options) silence() time.Duration {
	if o.Wait < 0 {
		return 5*time.Second + onTheWay
	}
	return o.Wait + onTheWay
}

// door is the common part of Handle and Wrap.
type door struct {
	name   string
	tenant Tenant
	o      Options
	db     once.Seer
	outage func(error) bool
	front  *front // nil without a cache
	tel    *telemetry.Endpoint
	check  func(ctx context.Context) error
	probe  *vitals.Probe
	well   atomic.Bool // check has succeeded
	flights
}

// base is the part of a database that both Handle and Wrap need.
type base interface {
	once.Seer
	Runner
	Outage(err error) bool
	Probe(ctx context.Context) error
}

func newDoor(name string, tenant Tenant, o *Options, db base) *door {
	d := &door{name: name, tenant: tenant, o: o.orDefaults(), outage: db.Outage, flights: newFlights()}
	d.db, d.front = newSeer(db, d.scope(), d.o.silence()), newFront(d.o.Cache, db, d.o.Keep)
	d.tel = telemetry.NewEndpoint(telemetry.Providers{Meter: d.o.MeterProvider}, name)
	d.check = func(ctx context.Context) error { return Check(ctx, db, o) }
	d.probe = vitals.NewProbe(db.Probe, store.ProbeWait, time.Now, nil)
	return d
}

// scope returns the consumer of the endpoint's marks.
func (d *door) scope() string { return Scope(d.name) }

// serve answers r and counts its outcome.
func (d *door) serve(w http.ResponseWriter, r *http.Request,
	do func(ctx context.Context, q *asked) (answer, error)) {
	began := time.Now()
	a, err := d.decide(w, r, do)
	var p *Problem
	if err != nil {
		p = d.problem(err)
	}
	d.tel.Answered(outcome(r.Context(), a, p), time.Since(began)) // without the time of the client's read
	switch {
	case p != nil:
		d.fail(w, r, p, err)
	case a.replayed || a.lost:
		a.replay(w, r)
	default:
		a.send(w)
	}
}

// decide returns the answer to r: the stored answer of another request of this process, or the result of
// do.
func (d *door) decide(w http.ResponseWriter, r *http.Request,
	do func(ctx context.Context, q *asked) (answer, error)) (a answer, err error) {
	if err := d.checked(r.Context()); err != nil {
		return answer{}, err
	}
	q, err := d.ask(w, r)
	if errors.Is(err, errTaken) {
		return answer{}, err
	}
	if err != nil {
		return answer{outcome: telemetry.KeyInvalid}, err
	}
	flight, shared, err := d.lead(r.Context(), q, d.o.Wait)
	if err != nil {
		return answer{}, err
	}
	if shared != nil {
		return *shared, nil
	}
	var result answer
	defer func() { d.land(flight, result) }() // also if do panics
	early, cancel := context.WithTimeout(r.Context(), d.o.silence())
	defer cancel()
	kept, hit, at := d.front.get(early, d.db.Secret, q)
	if hit {
		if a, err = restore(kept); err == nil {
			a.outcome, result = telemetry.KeyCached, a
			return a, nil
		}
	}
	a, done, err := d.look(early, q)
	if err == nil && !done {
		a, err = do(r.Context(), q)
	}
	switch {
	case err == nil:
		if result = a; a.stored && a.kept != nil {
			d.front.put(at, *a.kept, a.replayed)
		}
	case d.outage(err):
		d.front.forget()
	}
	return a, err
}

// checked checks the options until the check has succeeded.
func (d *door) checked(ctx context.Context) error {
	if d.well.Load() {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, d.o.silence())
	defer cancel()
	if err := d.check(ctx); err != nil {
		return err
	}
	d.well.Store(true)
	return nil
}

// patiently returns a context that ends if began is not called within the silence limit. A transaction may
// outlive that limit, so after began the context ends only if the database has an outage.
func (d *door) patiently(ctx context.Context) (life context.Context, began func(), cancel func()) {
	life, end := context.WithCancelCause(ctx)
	late := time.AfterFunc(d.o.silence(), func() { end(errSilent) })
	began = func() {
		late.Stop()
		late = d.watch(life, func() { end(errSilent) })
	}
	return life, began, func() { late.Stop(); end(context.Canceled) }
}

// watch calls away after a failed probe of the database, while ctx lasts. The first probe comes after the
// silence limit, so most requests need none.
func (d *door) watch(ctx context.Context, away func()) *time.Timer {
	return time.AfterFunc(d.o.silence(), func() {
		for ctx.Err() == nil {
			d.probe.AskNow(ctx)
			if last := d.probe.Last(); last.Err != nil && time.Since(last.At) < d.o.silence() {
				away()
				return
			}
			select {
			case <-time.After(d.o.silence()):
			case <-ctx.Done():
			}
		}
	})
}

// silent returns err, or an outage if the silence of the database ended ctx.
func silent(ctx context.Context, err error) error {
	if errors.Is(context.Cause(ctx), errSilent) {
		return skald.Outage(fmt.Errorf("%w: %w", errSilent, err))
	}
	return err
}

// look reads the answer to a key from the database if this process has seen it answered: one round trip
// without a lock. For another key the reservation finds out.
func (d *door) look(ctx context.Context, q *asked) (a answer, done bool, err error) {
	if !d.answered(q.flightKey) {
		return a, false, nil
	}
	kept, done, err := once.Look(ctx, d.db, q.request)
	if err != nil || !done {
		return a, false, err
	}
	a, err = restore(kept)
	return a, err == nil, err
}

// again reads the stored answer after a failed commit. A rival may have been faster, or the commit may have
// taken effect. If no answer is stored, it returns why.
func (d *door) again(ctx context.Context, q *asked, why error) (answer, error) {
	kept, done, err := once.Look(ctx, d.db, q.request)
	if err != nil || !done {
		return answer{}, why
	}
	return restore(kept)
}
