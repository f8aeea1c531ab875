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
		if err == nil || cli.Away(err) { // which the relay waits for
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

// checkAny is nil if one of them can be served, and the errors of all if none can be. While the server is
// away it is that.
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
