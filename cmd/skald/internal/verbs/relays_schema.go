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
	// retryEvery is the pause before a schema that failed is retried.
	retryEvery = 5 * time.Second
	// logStuckEvery is the shortest pause between two log lines about such a schema.
	logStuckEvery = time.Minute
)

// schemaRelay runs the relay of one schema. While another schema is served, a missing right or table does
// not end the process. The schema is retried, and the process is not ready and names it.
type schemaRelay struct {
	name   string // empty for the only schema
	source relay.Source
	make   func() *relay.Relay
	log    *slog.Logger
	all    *supervisor

	mu     sync.Mutex
	relay  *relay.Relay // nil while it does not run
	why    error        // why the schema cannot be served; nil if it is
	closed time.Time    // when why was last logged
}

// supervisor counts the schemas that are served. The process ends when none of them is left.
type supervisor struct {
	mu   sync.Mutex
	open int
}

// stop counts a schema that cannot be served. It returns true if it was the last one.
func (s *supervisor) stop() (last bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.open--
	return s.open == 0
}

// resume counts a schema that is served again.
func (s *supervisor) resume() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.open++
}

// Run serves the schema until ctx is done, or until no schema can be served.
func (r *schemaRelay) Run(ctx context.Context) error {
	for stuck := false; ; {
		err := r.source.Check(ctx, store.Relay)
		if err == nil || cli.Away(err) { // the relay waits for a server that is down
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

// serve runs the relay once.
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

// Status returns the state of its relay. The process is live while another schema is relayed.
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

// checkAny returns nil if one of the schemas can be served, else the errors of all. If the server is down
// it returns that error.
func checkAny(ctx context.Context, all []relay.Source) error {
	var errs []error
	for _, one := range all {
		err := one.Check(ctx, store.Relay)
		if err == nil || cli.Away(err) {
			return err
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}
