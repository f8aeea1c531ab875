package verbs

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/cmd/skald/internal/cli"
	"github.com/skald-go/skald/relay"
	"github.com/skald-go/skald/store"
)

const (
	// retryEvery is the pause before the relay of a failed schema starts again.
	retryEvery = 5 * time.Second
	// logStuckEvery is the shortest pause between two log lines about such a schema.
	logStuckEvery = time.Minute
)

// schemaRelay runs the relay of one schema. If this schema lacks a right or a table, and the process serves
// other schemas, the process goes on. schemaRelay then retries the schema, and reports that the process is
// not ready.
type schemaRelay struct {
	name   string // empty for the only schema
	source relay.Source
	make   func() *relay.Relay
	log    *slog.Logger
	all    *supervisor

	mu     sync.Mutex
	relay  *relay.Relay // nil while it does not run
	why    error        // the reason why the schema cannot be served, or nil
	closed time.Time    // the time of the last log line about why
}

// supervisor counts the schemas that the process serves. When the count reaches 0, the process ends.
type supervisor struct {
	mu   sync.Mutex
	open int
}

// stop removes one schema from the count. It returns true if no schema is left.
func (s *supervisor) stop() (last bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.open--
	return s.open == 0
}

// resume adds a schema to the count again.
func (s *supervisor) resume() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.open++
}

// Run serves the schema until ctx is done, or until the process cannot serve any schema.
func (r *schemaRelay) Run(ctx context.Context) error {
	for stuck := false; ; {
		err := r.source.Check(ctx, store.Relay)
		if err == nil || cli.Away(err) { // an outage is temporary, so the schema still counts as served
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
		r.fail(err)
		select {
		case <-ctx.Done():
		case <-time.After(retryEvery):
		}
	}
}

// serve runs a new relay until it ends.
func (r *schemaRelay) serve(ctx context.Context) error {
	one := r.make()
	r.mu.Lock()
	r.relay, r.why, r.closed = one, nil, time.Time{}
	r.mu.Unlock()
	return skald.Run(ctx, one, relayLog{one, r.log})
}

// fail records why the schema cannot be served, and logs it.
func (r *schemaRelay) fail(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.relay, r.why = nil, err
	if time.Since(r.closed) >= logStuckEvery {
		r.closed = time.Now()
		r.log.Error("this schema cannot be relayed; it is retried, and the other schemas are served", "error", err)
	}
}

// Status returns the status of the relay. A schema that cannot be served does not make the process dead.
func (r *schemaRelay) Status() skald.Status {
	r.mu.Lock()
	defer r.mu.Unlock()
	is := skald.Status{Live: true, Why: "not started yet"}
	switch {
	case r.why != nil:
		is.Why = r.why.Error()
	case r.relay != nil:
		is = r.relay.Status()
	}
	is.Name, is.Stage = "relay", skald.Publishing
	if r.name != "" && is.Why != "" {
		is.Why = "schema " + r.name + ": " + is.Why
	}
	return is
}

// checkAny returns nil if a relay can serve at least one of the sources. If the server is down, checkAny
// returns that error. Otherwise it returns the errors of all sources.
func checkAny(ctx context.Context, sources []relay.Source) error {
	var errs []error
	for _, one := range sources {
		err := one.Check(ctx, store.Relay)
		if err == nil || cli.Away(err) {
			return err
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}
