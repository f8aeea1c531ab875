// Package httpidem makes HTTP endpoints idempotent. If two requests have the same Idempotency-Key, the
// endpoint does the work once and sends the same answer twice.
//
// Handle runs a handler in a transaction with its rows, its messages and the stored answer. Wrap is for
// handlers with a transaction of their own, or without one. Transport is the client side: it sends the key.
//
// The package follows the IETF draft "The Idempotency-Key HTTP Header Field". Problems are
// application/problem+json (RFC 9457).
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
	// KeyHeader is the header with the key: 1 to 255 visible ASCII characters, as a structured string ("…")
	// or without quotes.
	KeyHeader = "Idempotency-Key"
	// ReplayedHeader is the header of an answer that was stored before; its value is "true".
	ReplayedHeader = "Idempotent-Replayed"

	maxKey        = 255
	finishTimeout = 10 * time.Second // time limit of the commit, even if the client has disconnected
	retryAfter    = time.Second
	networkTime   = time.Second // in addition to Options.Wait, for the network
)

// errSilent is the reason for status 503 if the database does not answer in time.
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

// Tenant returns the tenant of a request from its authentication. Keys of different tenants are independent.
// If Tenant returns an error, the endpoint logs it and answers 401. It answers 503 for an outage:
// skald.Outage, a context that ended, or an error of the network or the database. The client does not see the
// error, unless it is a *Problem.
type Tenant func(r *http.Request) (string, error)

// OneTenant is the Tenant function of a service with one tenant. It returns an empty tenant, so skald
// consumer import reads its keys without --source.
func OneTenant(*http.Request) (string, error) { return "", nil }

// Options configures Handle and Wrap. Nil means the defaults.
type Options struct {
	// Wait is how long to wait for another request with the same key. After that the answer is 409. Under
	// Handle it is also how long a statement of the handler may wait for a lock. Default 5 s. A negative
	// value means not to wait.
	//
	// If the database does not answer within Wait and one more second, the answer is 503. With a negative
	// Wait this takes 6 s.
	Wait time.Duration
	// MaxBody is the maximum size of a request body, in bytes. A larger body gets 413. Default 1 MiB.
	MaxBody int64
	// Headers are the names of headers that affect the handler. Two requests with the same key must have
	// equal values of them, and an equal method, path, query, Content-Type and body.
	Headers []string
	// Entities returns the entities that a request under Handle changes. The endpoint locks them together
	// with the key, in the same round trip, until the commit. Requests with several entities cannot deadlock.
	// Each commit increases their versions by one, even the commit of a final refusal. If another request
	// locks an entity for longer than Wait, the answer is 409. Space and Key are text without NUL. Wrap does
	// not support this option.
	Entities func(r *http.Request, body []byte) []store.Lock
	// Lease is the time limit of a handler under Wrap. The handler's context ends at nine tenths of the
	// lease. After a crash the key stays reserved until the lease ends. Default 1 min.
	Lease time.Duration
	// Keep is how long an answer is stored, from the reservation of its key, by the database's clock. After
	// that the key is fresh, even if its row still exists. A key that is a UUID of version 7 is answered
	// until its row is deleted, and then is too old (422). Default: the retention of marks (30 days).
	Keep time.Duration
	// Cache stores committed answers. The endpoint reads it before the database, so a hit costs no statement.
	// It verifies each answer: see once.Sealed. The TTL must not exceed Keep. Answers above 8 KiB are not
	// cached. Package rediscache has a Cache. Default: none.
	Cache once.Cache
	// Logger receives the errors of handlers and of the database, which clients do not see. Default
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

// dbTimeout returns how long one call may wait for the database.
func (o *Options) dbTimeout() time.Duration {
	if o.Wait < 0 {
		return 5*time.Second + networkTime
	}
	return o.Wait + networkTime
}

// endpoint has the parts that Handle and Wrap share.
type endpoint struct {
	name        string
	tenant      Tenant
	o           Options
	db          once.Seer
	outage      func(error) bool
	front       *front // nil without a cache
	tel         *telemetry.Endpoint
	check       func(ctx context.Context) error
	probe       *vitals.Probe
	checkPassed atomic.Bool // check has succeeded once
	flights
}

// base is the part of a database that both Handle and Wrap need.
type base interface {
	once.Seer
	Runner
	Outage(err error) bool
	Probe(ctx context.Context) error
}

func newEndpoint(name string, tenant Tenant, o *Options, db base) *endpoint {
	ep := &endpoint{name: name, tenant: tenant, o: o.orDefaults(), outage: db.Outage, flights: newFlights()}
	ep.db, ep.front = newSeer(db, ep.scope(), ep.o.dbTimeout()), newFront(ep.o.Cache, db, ep.o.Keep)
	ep.tel = telemetry.NewEndpoint(telemetry.Providers{Meter: ep.o.MeterProvider}, name)
	ep.check = func(ctx context.Context) error { return Check(ctx, db, o) }
	ep.probe = vitals.NewProbe(db.Probe, store.ProbeWait, time.Now, nil)
	return ep
}

// scope returns the consumer of the endpoint's marks.
func (ep *endpoint) scope() string { return Scope(ep.name) }

// serve answers r and records its outcome. If no answer is stored yet, it calls the function do.
func (ep *endpoint) serve(w http.ResponseWriter, r *http.Request,
	do func(ctx context.Context, q *keyedRequest) (answer, error)) {
	began := time.Now()
	a, err := ep.decide(w, r, do)
	var p *Problem
	if err != nil {
		p = ep.problem(err)
	}
	ep.tel.Answered(outcome(r.Context(), a, p), time.Since(began)) // without the time to send a
	switch {
	case p != nil:
		ep.fail(w, r, p, err)
	case a.replayed || a.lost:
		a.replay(w, r)
	default:
		a.send(w)
	}
}

// decide returns the answer to r. It is the stored answer, or the result of the function do.
func (ep *endpoint) decide(w http.ResponseWriter, r *http.Request,
	do func(ctx context.Context, q *keyedRequest) (answer, error)) (a answer, err error) {
	if err := ep.checked(r.Context()); err != nil {
		return answer{}, err
	}
	q, err := ep.readRequest(w, r)
	if errors.Is(err, errTaken) {
		return answer{}, err
	}
	if err != nil {
		return answer{outcome: telemetry.KeyInvalid}, err
	}
	flight, shared, err := ep.join(r.Context(), q, ep.o.Wait)
	if err != nil {
		return answer{}, err
	}
	if shared != nil {
		return *shared, nil
	}
	var result answer
	defer func() { ep.end(flight, result) }() // runs also if do panics
	early, cancel := context.WithTimeout(r.Context(), ep.o.dbTimeout())
	defer cancel()
	kept, hit, at := ep.front.get(early, ep.db.Secret, q)
	if hit {
		if a, err = restore(kept); err == nil {
			a.outcome, result = telemetry.KeyCached, a
			return a, nil
		}
	}
	a, done, err := ep.look(early, q)
	if err == nil && !done {
		a, err = do(r.Context(), q)
	}
	switch {
	case err == nil:
		if result = a; a.stored && a.kept != nil {
			ep.front.put(at, *a.kept, a.replayed)
		}
	case ep.outage(err):
		ep.front.forget()
	}
	return a, err
}

// checked checks the options, until a check has succeeded.
func (ep *endpoint) checked(ctx context.Context) error {
	if ep.checkPassed.Load() {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, ep.o.dbTimeout())
	defer cancel()
	if err := ep.check(ctx); err != nil {
		return err
	}
	ep.checkPassed.Store(true)
	return nil
}

// untilOutage returns a context for a transaction. The context ends if the caller does not call began within
// dbTimeout. A transaction may take longer than that. So after began, the context ends only if the database
// has an outage.
func (ep *endpoint) untilOutage(ctx context.Context) (life context.Context, began func(), cancel func()) {
	life, end := context.WithCancelCause(ctx)
	late := time.AfterFunc(ep.o.dbTimeout(), func() { end(errSilent) })
	began = func() {
		late.Stop()
		late = ep.watch(life, func() { end(errSilent) })
	}
	return life, began, func() { late.Stop(); end(context.Canceled) }
}

// watch calls onOutage after a failed probe of the database, until ctx ends. The first probe comes after
// dbTimeout, so most requests need no probe.
func (ep *endpoint) watch(ctx context.Context, onOutage func()) *time.Timer {
	return time.AfterFunc(ep.o.dbTimeout(), func() {
		for ctx.Err() == nil {
			ep.probe.AskNow(ctx)
			if last := ep.probe.Last(); last.Err != nil && time.Since(last.At) < ep.o.dbTimeout() {
				onOutage()
				return
			}
			select {
			case <-time.After(ep.o.dbTimeout()):
			case <-ctx.Done():
			}
		}
	})
}

// asOutage returns err, or an outage if ctx ended because the database did not answer.
func asOutage(ctx context.Context, err error) error {
	if errors.Is(context.Cause(ctx), errSilent) {
		return skald.Outage(fmt.Errorf("%w: %w", errSilent, err))
	}
	return err
}

// look reads the answer to a key from the database, if this process has recently seen one. This takes one
// round trip without a lock. For another key the reservation finds the answer.
func (ep *endpoint) look(ctx context.Context, q *keyedRequest) (a answer, done bool, err error) {
	if !ep.answered(q.flightKey) {
		return a, false, nil
	}
	kept, done, err := once.Look(ctx, ep.db, q.request)
	if err != nil || !done {
		return a, false, err
	}
	a, err = restore(kept)
	return a, err == nil, err
}

// readAgain reads the stored answer after a failed commit. Another request may have been faster, or the
// commit may have taken effect. If no answer is stored, readAgain returns the error cause.
func (ep *endpoint) readAgain(ctx context.Context, q *keyedRequest, cause error) (answer, error) {
	kept, done, err := once.Look(ctx, ep.db, q.request)
	if err != nil || !done {
		return answer{}, cause
	}
	return restore(kept)
}
