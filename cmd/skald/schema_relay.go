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
	"github.com/skald-go/skald/cmd/skald/internal/connect"
	"github.com/skald-go/skald/cmd/skald/internal/exit"
	"github.com/skald-go/skald/relay"
	"github.com/skald-go/skald/store"
	"github.com/skald-go/skald/store/pgstore"
)

const (
	// retryEvery is the pause before a schema that cannot be relayed is tried again.
	retryEvery = 5 * time.Second
	// sayStuckEvery is the shortest pause between two log lines about it.
	sayStuckEvery = time.Minute
)

// A schemaRelay runs the relay of one schema. While another schema can be relayed, a missing right or table
// does not end the process: the schema is tried again, the process is not ready and names it.
type schemaRelay struct {
	name   string // "": it is the only one
	source relay.Source
	make   func() *relay.Relay
	log    *slog.Logger
	all    *supervisor

	mu     sync.Mutex
	relay  *relay.Relay // nil: none at work
	why    error        // it cannot be served
	closed time.Time    // when that was said
}

// A supervisor counts the schemas that are relayed. The process ends when none is left.
type supervisor struct {
	mu   sync.Mutex
	open int
}

// stop counts a schema that cannot be relayed, and tells whether it was the last.
func (s *supervisor) stop() (last bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.open--
	return s.open == 0
}

// resume counts a schema that is relayed again.
func (s *supervisor) resume() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.open++
}

// Run relays until ctx is done, or no schema is left that can be relayed.
func (r *schemaRelay) Run(ctx context.Context) error {
	for stuck := false; ; {
		err := r.source.Check(ctx, store.Relay)
		if err == nil || exit.Away(err) { // which the relay waits for
			if stuck {
				r.all.resume()
			}
			stuck = false
			err = r.serve(ctx)
		}
		if err == nil || ctx.Err() != nil {
			r.log.Info("stopping")
			return nil
		}
		if !stuck && r.all.stop() {
			return err
		}
		stuck = true
		r.say(err)
		select {
		case <-ctx.Done():
		case <-time.After(retryEvery):
		}
	}
}

// serve is one session of the relay.
func (r *schemaRelay) serve(ctx context.Context) error {
	one := r.make()
	r.mu.Lock()
	r.relay, r.why, r.closed = one, nil, time.Time{}
	r.mu.Unlock()
	return skald.Run(ctx, one, voice{one, r.log})
}

func (r *schemaRelay) say(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.relay, r.why = nil, err
	if time.Since(r.closed) >= sayStuckEvery {
		r.closed = time.Now()
		r.log.Error("this schema cannot be relayed; the others are, and it is tried again", "error", err)
	}
}

// Health is that of its relay. The process lives while another schema is relayed.
func (r *schemaRelay) Health() relay.Health {
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

// schemaStore is a store in a schema that may not be there.
type schemaStore struct {
	*pgstore.Store
	pool   *pgxpool.Pool
	schema string
}

// schemaWAL is one that hears of commits.
type schemaWAL struct {
	*pgstore.WAL
	in schemaStore
}

// Check looks for the schema, too.
func (h schemaWAL) Check(ctx context.Context, as store.Role) error { return h.in.Check(ctx, as) }

// A schemaReadBy is a schema whose outbox somebody else reads.
type schemaReadBy struct {
	*pgstore.ReadBy
	in schemaStore
}

// Check looks for the schema, too.
func (h schemaReadBy) Check(ctx context.Context, as store.Role) error { return h.in.Check(ctx, as) }

// Check looks for the schema, too.
func (h schemaStore) Check(ctx context.Context, as store.Role) error {
	if err := h.there(ctx); err != nil {
		return err
	}
	return h.Store.Check(ctx, as)
}

func (h schemaStore) there(ctx context.Context) error {
	var there bool
	err := h.pool.QueryRow(ctx, "SELECT EXISTS (SELECT FROM pg_catalog.pg_namespace WHERE nspname = $1::text)", h.schema).Scan(&there)
	if err == nil && !there {
		err = fmt.Errorf("%w: there is no schema %s: run: skald migrate --store … --schema %s", exit.ErrNone, h.schema, h.schema)
	}
	return err
}

// checkAny is nil if one of them can be served, and the errors of all if none can be. While the server is
// away it is that.
func checkAny(ctx context.Context, all []relay.Source) error {
	var errs []error
	for _, one := range all {
		err := one.Check(ctx, store.Relay)
		if err == nil || exit.Away(err) {
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
		h, ok := one.(schemaStore)
		if !ok {
			return nil, &exit.UsageError{What: "--listen: only PostgreSQL tells of what others write"}
		}
		stores[i] = h.Store
	}
	heard, err := pgstore.Listen(url, stores...)
	if err != nil {
		return nil, &exit.UsageError{What: err.Error()}
	}
	heard.BeforeConnect, heard.Logger = connect.AskPassword, log
	return heard, nil
}
