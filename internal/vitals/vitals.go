// Package vitals tracks whether a database or a broker answers. Components record the answers to their
// calls. If there is no answer for a while, the package sends a probe to the server.
package vitals

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"time"

	"github.com/skald-go/skald/broker"
	"github.com/skald-go/skald/internal/backoff"
	"github.com/skald-go/skald/store"
)

const (
	// quiet is the time without an answer after which a server gets a probe. Idle components call their store
	// every 8 s.
	quiet = 9 * time.Second
	// enough is the number of consecutive failed probes after which a server counts as away. A single failure
	// may have a harmless cause.
	enough = 2
)

// Server is the state of a database or a broker for one component. It is safe for concurrent use.
type Server struct {
	name  string // "the database"
	log   *slog.Logger
	probe *Probe // nil if the server has no probe

	mu       sync.Mutex
	asked    time.Time        // the time at which the last probe began
	answered time.Time        // the time of the last answer
	since    time.Time        // the begin of the first of the failed probes in a row; zero without a failure
	misses   int              // the number of failed probes in a row
	why      error            // the error of the last failed probe
	logged   backoff.LogLimit // limits the log lines
	nudge    chan struct{}    // requests a probe at once
}

// New returns a server with an unknown state. The function probe sends a probe and returns its error. If
// probe is nil, the server always counts as answering. The function now is the clock that limits the rate
// of probes.
func New(name string, log *slog.Logger, now func() time.Time, probe func(ctx context.Context) error) *Server {
	s := &Server{name: name, log: log, logged: backoff.NewLogLimit(), nudge: make(chan struct{}, 1)}
	if probe != nil {
		s.probe = NewProbe(func(ctx context.Context) error {
			s.mu.Lock()
			s.asked = time.Now()
			s.mu.Unlock()
			return probe(ctx)
		}, store.ProbeWait, now, s.recordProbe)
	}
	return s
}

// Store returns a Server for the database db. If db has a method Probe, the Server uses it.
func Store(db any, log *slog.Logger, now func() time.Time) *Server {
	p, can := db.(interface {
		Probe(ctx context.Context) error
	})
	if !can {
		return New("the database", log, now, nil)
	}
	return New("the database", log, now, p.Probe)
}

// Broker returns a Server for the broker bus. The probe reads the incarnation of the broker, because no
// driver caches it.
func Broker(bus any, log *slog.Logger) *Server {
	b, can := bus.(interface {
		Incarnation(ctx context.Context) (string, error)
	})
	if !can {
		return New("the broker", log, time.Now, nil)
	}
	return New("the broker", log, time.Now, func(ctx context.Context) error {
		_, err := b.Incarnation(ctx)
		var line net.Error
		if err != nil && ctx.Err() != nil || errors.Is(err, broker.ErrUnavailable) || errors.As(err, &line) {
			return err
		}
		return nil // a refusal is an answer, too
	})
}

// Probe returns the probe of the server. Use it for other probes of this server, too, so that it limits
// their rate.
func (s *Server) Probe() *Probe { return s.probe }

// Answered records that the server answered a call.
func (s *Server) Answered() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.answered, s.since, s.misses, s.why = time.Now(), time.Time{}, 0, nil
	if s.logged.Over() {
		s.log.Info(s.name + " answers again")
	}
}

// Suspect requests a probe at once. Call Suspect if the error of a call may mean an outage.
func (s *Server) Suspect() {
	select {
	case s.nudge <- struct{}{}:
	default:
	}
}

// Away returns the reason why the server counts as away, and the time at which it stopped answering. The
// reason is "" if the server answers.
func (s *Server) Away() (reason string, since time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.misses < enough {
		return "", time.Time{}
	}
	return fmt.Sprintf("%s has not answered since %s: %s", s.name, s.since.UTC().Format(time.TimeOnly),
		Why(s.why)), s.since
}

// Watch probes the server after each silence, until ctx ends.
func (s *Server) Watch(ctx context.Context) {
	if s.probe == nil {
		return
	}
	s.Answered() // the server counts as answering until a probe fails
	timer := time.NewTimer(quiet)
	defer timer.Stop()
	for suspected := false; ; {
		select {
		case <-ctx.Done():
			return
		case <-s.nudge:
			suspected = true
		case <-timer.C:
		}
		if suspected || s.untilProbe() <= 0 {
			suspected = !s.probe.AskNow(ctx) && suspected
		}
		wait := s.untilProbe()
		if suspected || wait <= 0 {
			wait = max(s.probe.Wait(), time.Millisecond)
		}
		timer.Reset(wait)
	}
}

// untilProbe returns the time until the next probe.
func (s *Server) untilProbe() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.misses > 0 {
		return 0
	}
	return time.Until(s.answered.Add(quiet))
}

// recordProbe records the result of a probe.
func (s *Server) recordProbe(err error) {
	if err == nil {
		s.Answered()
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.answered.After(s.asked) {
		return // the server answered another call meanwhile
	}
	if s.misses++; s.since.IsZero() {
		s.since = s.asked
	}
	if s.why = err; s.misses >= enough && s.logged.Due(time.Now()) {
		s.log.Log(context.Background(), Level(err), s.name+" does not answer", "since", s.since, "error", err)
	}
}
