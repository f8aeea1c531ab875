package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/examples/shop/place"
	"github.com/skald-go/skald/relay"
	"github.com/skald-go/skald/store"
	"github.com/skald-go/skald/store/pgstore"
)

const (
	// retryRoom is how long a schema that cannot be served is left alone.
	retryRoom = 5 * time.Second
	// sayStuck is how often it is said that it cannot be.
	sayStuck = time.Minute
)

// A room is one schema and its relay. While another one can be served, a missing right or table ends no process: the
// schema is tried again, the process is not ready and says which it is.
type room struct {
	name   string // "": it is the only one
	source relay.Source
	make   func() *relay.Relay
	log    *slog.Logger
	all    *corridor

	mu     sync.Mutex
	relay  *relay.Relay // nil: none at work
	why    error        // it cannot be served
	closed time.Time    // when that was said
}

// A corridor knows how many rooms are open.
type corridor struct {
	mu   sync.Mutex
	open int
}

// shut tells whether the last one is shut now.
func (c *corridor) shut(by int) (last bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.open -= by
	return c.open == 0
}

// Run relays until ctx is done, or no room is left that can be served.
func (r *room) Run(ctx context.Context) error {
	for stuck := false; ; {
		err := r.source.Check(ctx, store.Relay)
		if err == nil || place.Away(err) { // which the relay waits for
			if stuck {
				r.all.shut(-1)
			}
			stuck = false
			err = r.serve(ctx)
		}
		if err == nil || ctx.Err() != nil {
			r.log.Info("stopping")
			return nil
		}
		if !stuck && r.all.shut(1) {
			return err
		}
		stuck = true
		r.say(err)
		select {
		case <-ctx.Done():
		case <-time.After(retryRoom):
		}
	}
}

// serve is one life of the relay.
func (r *room) serve(ctx context.Context) error {
	one := r.make()
	r.mu.Lock()
	r.relay, r.why, r.closed = one, nil, time.Time{}
	r.mu.Unlock()
	return skald.Run(ctx, one, voice{one, r.log})
}

func (r *room) say(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.relay, r.why = nil, err
	if time.Since(r.closed) >= sayStuck {
		r.closed = time.Now()
		r.log.Error("this schema cannot be relayed; the others are, and it is tried again", "error", err)
	}
}

// Health is that of its relay. The process lives while another room is open.
func (r *room) Health() relay.Health {
	r.mu.Lock()
	defer r.mu.Unlock()
	h := relay.Health{Live: true, Why: "not started yet"}
	switch {
	case r.why != nil:
		h.Why = r.why.Error()
	case r.relay != nil:
		h = r.relay.Health()
	}
	if r.name != "" && h.Why != "" {
		h.Why = "schema " + r.name + ": " + h.Why
	}
	return h
}

// housed is a store in a schema that may not be there.
type housed struct {
	*pgstore.Store
	pool   *pgxpool.Pool
	schema string
}

// Check looks for the schema, too.
func (h housed) Check(ctx context.Context, as store.Role) error {
	if err := h.there(ctx); err != nil {
		return err
	}
	return h.Store.Check(ctx, as)
}

func (h housed) there(ctx context.Context) error {
	var there bool
	err := h.pool.QueryRow(ctx, "SELECT EXISTS (SELECT FROM pg_catalog.pg_namespace WHERE nspname = $1::text)", h.schema).Scan(&there)
	if err == nil && !there {
		err = fmt.Errorf("%w: there is no schema %s: run: skald migrate --store … --schema %s", place.ErrNone, h.schema, h.schema)
	}
	return err
}

// checkAny is nil if one of them can be served, and the errors of all if none can be. While the server is away it is that.
func checkAny(ctx context.Context, all []relay.Source) error {
	var errs []error
	for _, one := range all {
		err := one.Check(ctx, store.Relay)
		if err == nil || place.Away(err) {
			return err
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// listener hears, over one connection, what is written to any of the schemas.
func listener(url string, all []relay.Source, log *slog.Logger) (skald.Runner, error) {
	stores := make([]*pgstore.Store, len(all))
	for i, one := range all {
		h, ok := one.(housed)
		if !ok {
			return nil, &place.UsageError{What: "--listen: only PostgreSQL tells of what others write"}
		}
		stores[i] = h.Store
	}
	heard, err := pgstore.Listen(url, stores...)
	if err != nil {
		return nil, &place.UsageError{What: err.Error()}
	}
	heard.BeforeConnect, heard.Logger = place.AskPassword, log
	return heard, nil
}
