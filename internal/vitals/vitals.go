// Package vitals tracks whether a server can be used: when it last answered, and since when it has not. It
// sends a probe to a server that was silent for a while.
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
	// quiet is how long a server may be silent before it is probed. Idle components call their store every 8
	// s.
	quiet = 9 * time.Second
	// enough is how many consecutive probes must fail: one failure may be chance.
	enough = 2
)

// Server is the state of a database or a broker, as one component sees it. It is safe for concurrent use.
type Server struct {
	name  string // "the database"
	log   *slog.Logger
	probe *Probe // nil if it cannot be probed

	mu       sync.Mutex
	asked    time.Time // when the last probe began
	answered time.Time // last
	since    time.Time // the start of the first consecutive failed probe; zero if it answers
	misses   int       // consecutive
	why      error
	logged   backoff.LogLimit // limits the log lines
	nudge    chan struct{}
}

// New returns a server without a known state. Ask sends a probe and returns its error; if ask is nil, the
// server counts as answering. Now is the clock that limits the rate of probes.
func New(name string, log *slog.Logger, now func() time.Time, ask func(ctx context.Context) error) *Server {
	s := &Server{name: name, log: log, logged: backoff.NewLogLimit(), nudge: make(chan struct{}, 1)}
	if ask != nil {
		s.probe = NewProbe(func(ctx context.Context) error {
			s.mu.Lock()
			s.asked = time.Now()
			s.mu.Unlock()
			return ask(ctx)
		}, store.ProbeWait, now, s.found)
	}
	return s
}

// Store returns db as a server, with the store's Probe.
func Store(db any, log *slog.Logger, now func() time.Time) *Server {
	p, can := db.(interface {
		Probe(ctx context.Context) error
	})
	if !can {
		return New("the database", log, now, nil)
	}
	return New("the database", log, now, p.Probe)
}

// Broker returns bus as a server. The probe reads the broker's incarnation, which no driver caches.
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
		return nil // it answered, even if it has no incarnation or this client may not read it
	})
}

// Probe returns the probe of the server. All probes use it, so that the rate is limited.
func (s *Server) Probe() *Probe { return s.probe }

// Answered records an answer to any call.
func (s *Server) Answered() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.answered, s.since, s.misses, s.why = time.Now(), time.Time{}, 0, nil
	if s.logged.Over() {
		s.log.Info(s.name + " answers again")
	}
}

// Suspect requests a probe immediately, because a call looked like an outage.
func (s *Server) Suspect() {
	select {
	case s.nudge <- struct{}{}:
	default:
	}
}

// Away returns why the server counts as away, and since when; an empty reason means that it answers.
func (s *Server) Away() (why string, since time.Time) {
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
	s.Answered() // until a probe fails
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
		if suspected || s.due() <= 0 {
			suspected = !s.probe.AskNow(ctx) && suspected
		}
		wait := s.due()
		if suspected || wait <= 0 {
			wait = max(s.probe.Wait(), time.Millisecond)
		}
		timer.Reset(wait)
	}
}

// due returns the time until the next probe.
func (s *Server) due() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.misses > 0 {
		return 0
	}
	return time.Until(s.answered.Add(quiet))
}

// found records the result of a probe.
func (s *Server) found(err error) {
	if err == nil {
		s.Answered()
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.answered.After(s.asked) {
		return // it answered another call meanwhile
	}
	if s.misses++; s.since.IsZero() {
		s.since = s.asked
	}
	if s.why = err; s.misses >= enough && s.logged.Due(time.Now()) {
		s.log.Log(context.Background(), Level(err), s.name+" does not answer", "since", s.since, "error", err)
	}
}
