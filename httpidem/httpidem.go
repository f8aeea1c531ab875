// Package httpidem makes HTTP endpoints idempotent: a request that comes twice under one Idempotency-Key is
// done once and answered the same. Handle runs a handler in a transaction that holds its rows, its messages
// and the stored answer: one commit. Wrap stands before handlers that have a transaction of their own, or
// none. Transport is the other side: it sends the key.
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
	finishing  = 10 * time.Second // for the commit, whether or not the client still listens
	retryAfter = time.Second
	onTheWay   = time.Second // above Options.Wait, for which the database may wait by itself
)

// errSilent is why a request is answered 503 whose database does not answer.
var errSilent = errors.New("httpidem: the database has not answered for longer than Options.Wait")

// A Store is what Handle needs of a database. Each store.Driver is one.
type Store[TTx any] interface {
	once.Store[TTx]
	once.Seer
	Runner
	Outage(err error) bool
	Probe(ctx context.Context) error
}

// A LeaseStore is what Wrap needs of a database. Each store.Driver is one.
type LeaseStore interface {
	once.Reserver
	once.Seer
	Runner
	Outage(err error) bool
	Probe(ctx context.Context) error
}

// A Tenant tells whose request it is, from what authentication found: keys of different tenants never meet.
// An error is logged, and refuses the request with 401; with 503 where it is an outage: skald.Outage, a
// context that ended, an error of the network or of the database. Its text does not reach the client,
// unless it is a *Problem.
type Tenant func(r *http.Request) (string, error)

// OneTenant is for a service whose callers all belong together. The tenant is empty: skald inbox import
// takes its keys without --source.
func OneTenant(*http.Request) (string, error) { return "", nil }

// Options; nil: the defaults.
type Options struct {
	// Wait is how long a request waits for another one that has its key in hand, then it is 409; and, under
	// Handle, how long a statement of the handler waits for a lock. Default 5 s; negative: not at all. A
	// second later a request whose database has not answered is 503; 6 s if Wait is negative.
	Wait time.Duration
	// MaxBody bounds a request's body, in bytes: 413. Default 1 MiB.
	MaxBody int64
	// Headers of a request that mean something to the handler: they belong to what must be equal under one
	// key, as method, path, query, Content-Type and body do.
	Headers []string
	// Entities names the entities that a request under Handle is about: they are locked with its key, in the
	// same round trip, until its commit; of several no two requests deadlock, whatever their order. Each
	// commit, of a final "no" too, raises their versions by one. A rival that has one for longer than Wait:
	// 409. Space and Key are text without NUL. Wrap refuses it.
	Entities func(r *http.Request, body []byte) []store.Lock
	// Lease is how long a handler under Wrap may take: its context ends at nine tenths of it, and a crash
	// blocks the key for that long. Default 1 min.
	Lease time.Duration
	// Keep is how long an answer is kept, from the claim of its key, by the database's clock: then its key
	// is fresh again, whether or not the row is still there. A key that is a UUID of version 7 is answered
	// for as long as the row is there, and then too old (422). Default: for as long as the database keeps
	// marks (30 days).
	Keep time.Duration
	// Seen is asked before the database for the answer to a repeat, and told of answers that are committed: a
	// hit costs no statement. What it returns is checked, see once.Sealed. Its TTL must lie within Keep.
	// Answers above 8 KiB are not cached. rediscache has one. Default: none.
	Seen once.Cache
	// Logger gets what a client is not told: errors of handlers and of the database. Default slog.Default.
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

// silence is for how long the database may leave one call without an answer.
func (o *Options) silence() time.Duration {
	if o.Wait < 0 {
		return 5*time.Second + onTheWay
	}
	return o.Wait + onTheWay
}

// A door is what Handle and Wrap share.
type door struct {
	name   string
	tenant Tenant
	o      Options
	db     once.Seer
	outage func(error) bool
	front  *front // nil: no cache
	tel    *telemetry.Endpoint
	check  func(ctx context.Context) error
	probe  *vitals.Probe
	well   atomic.Bool // check has found nothing
	flights
}

// A base is what Handle and Wrap both need of a database.
type base interface {
	once.Seer
	Runner
	Outage(err error) bool
	Probe(ctx context.Context) error
}

func newDoor(name string, tenant Tenant, o *Options, db base) *door {
	d := &door{name: name, tenant: tenant, o: o.orDefaults(), outage: db.Outage, flights: newFlights()}
	d.db, d.front = newSeer(db, d.scope(), d.o.silence()), newFront(d.o.Seen, db, d.o.Keep)
	d.tel = telemetry.NewEndpoint(telemetry.Providers{Meter: d.o.MeterProvider}, name)
	d.check = func(ctx context.Context) error { return Check(ctx, db, o) }
	d.probe = vitals.NewProbe(db.Probe, store.ProbeWait, time.Now, nil)
	return d
}

// scope is the consumer of its marks.
func (d *door) scope() string { return Scope(d.name) }

// serve answers r, and counts what became of it.
func (d *door) serve(w http.ResponseWriter, r *http.Request,
	do func(ctx context.Context, q *asked) (answer, error)) {
	began := time.Now()
	a, err := d.decide(w, r, do)
	var p *Problem
	if err != nil {
		p = d.problem(err)
	}
	d.tel.Answered(outcome(r.Context(), a, p), time.Since(began)) // not how fast the client reads
	switch {
	case p != nil:
		d.fail(w, r, p, err)
	case a.replayed || a.lost:
		a.replay(w, r)
	default:
		a.send(w)
	}
}

// decide is the answer to r: what another request of this process has just stored, or what do returns.
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
	var stands answer
	defer func() { d.land(flight, stands) }() // also where do panics
	early, cancel := context.WithTimeout(r.Context(), d.o.silence())
	defer cancel()
	kept, hit, at := d.front.get(early, d.db.Secret, q)
	if hit {
		if a, err = restore(kept); err == nil {
			a.outcome, stands = telemetry.KeyCached, a
			return a, nil
		}
	}
	a, done, err := d.look(early, q)
	if err == nil && !done {
		a, err = do(r.Context(), q)
	}
	switch {
	case err == nil:
		if stands = a; a.stored && a.kept != nil {
			d.front.put(at, *a.kept, a.replayed)
		}
	case d.outage(err):
		d.front.forget()
	}
	return a, err
}

// checked looks at the options until nothing was wrong with them.
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

// patiently returns a context that ends when began is not called within the time that the database has for
// one answer. A transaction may outlive the call that began it, so the context goes on after that: it ends
// when the database has an outage.
func (d *door) patiently(ctx context.Context) (life context.Context, began func(), cancel func()) {
	life, end := context.WithCancelCause(ctx)
	late := time.AfterFunc(d.o.silence(), func() { end(errSilent) })
	began = func() {
		late.Stop()
		late = d.watch(life, func() { end(errSilent) })
	}
	return life, began, func() { late.Stop(); end(context.Canceled) }
}

// watch calls away once a probe of the database fails while ctx lasts. The first probe is after the time that
// the database has for one answer, so most requests cost none.
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

// silent is err, or that the database was silent if that ended ctx.
func silent(ctx context.Context, err error) error {
	if errors.Is(context.Cause(ctx), errSilent) {
		return skald.Outage(fmt.Errorf("%w: %w", errSilent, err))
	}
	return err
}

// look asks the database for the answer to a key that this process has seen answered: one round trip, and no
// lock. Another key is most likely new, and claiming it tells.
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

// again looks what became of the request after a commit failed: a rival may have been faster, or the commit
// took effect. It returns the answer that is stored, else why.
func (d *door) again(ctx context.Context, q *asked, why error) (answer, error) {
	kept, done, err := once.Look(ctx, d.db, q.request)
	if err != nil || !done {
		return answer{}, why
	}
	return restore(kept)
}
