// Package vitals tells from facts whether a server can be worked with: when it last answered, and since when
// it does not. A server that gave no sign is asked.
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
)

const (
	// quiet is how long a server may give no sign before it is asked. Idle stations call their store every
	// 5 s.
	quiet = 6 * time.Second
	// again is how soon a server is asked once more that did not answer.
	again = time.Second
	// enough is how many questions in a row must stay without an answer: one may be chance.
	enough = 2
	// wait bounds a question.
	wait = 2 * time.Second
)

// A Server is a database or a broker as one station sees it. Its methods are safe for concurrent use.
type Server struct {
	what string // "the database"
	log  *slog.Logger
	ask  func(ctx context.Context) error

	mu       sync.Mutex
	answered time.Time // last
	since    time.Time // of the first question in a row without an answer; zero: it answers
	misses   int       // in a row
	why      error
	say      backoff.Rarely
	nudge    chan struct{}
}

// New returns a server of which nothing is known yet. Ask gets its answer, with an error where there is none;
// nil: it cannot be asked, and counts as answering.
func New(what string, log *slog.Logger, ask func(ctx context.Context) error) *Server {
	return &Server{what: what, log: log, ask: ask, say: backoff.Seldom(), nudge: make(chan struct{}, 1)}
}

// Store returns db as a server, which is asked by its Probe.
func Store(db any, log *slog.Logger) *Server {
	p, can := db.(interface {
		Probe(ctx context.Context) error
	})
	if !can {
		return New("the database", log, nil)
	}
	return New("the database", log, p.Probe)
}

// Broker returns bus as a server. It is asked for its incarnation, which no driver knows without asking.
func Broker(bus any, log *slog.Logger) *Server {
	b, can := bus.(interface {
		Incarnation(ctx context.Context) (string, error)
	})
	if !can {
		return New("the broker", log, nil)
	}
	return New("the broker", log, func(ctx context.Context) error {
		_, err := b.Incarnation(ctx)
		var line net.Error
		if err != nil && ctx.Err() != nil || errors.Is(err, broker.ErrAway) || errors.As(err, &line) {
			return err
		}
		return nil // it answered, if only that there is none, or that this client may not read it
	})
}

// Answered notes an answer to any call.
func (s *Server) Answered() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.answered, s.since, s.misses, s.why = time.Now(), time.Time{}, 0, nil
	if s.say.Over() {
		s.log.Info(s.what + " answers again")
	}
}

// Suspect has the server asked at once: a call looked like an outage.
func (s *Server) Suspect() {
	select {
	case s.nudge <- struct{}{}:
	default:
	}
}

// Away returns why the server counts as away, and since when; "": it answers.
func (s *Server) Away() (why string, since time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.misses < enough {
		return "", time.Time{}
	}
	return fmt.Sprintf("%s does not answer since %s: %s", s.what, s.since.UTC().Format(time.TimeOnly),
		Why(s.why)), s.since
}

// Watch asks the server whenever it gave no sign for a while, until ctx ends.
func (s *Server) Watch(ctx context.Context) {
	if s.ask == nil {
		return
	}
	s.Answered() // nothing is known against it
	timer := time.NewTimer(quiet)
	defer timer.Stop()
	for {
		suspected := false
		select {
		case <-ctx.Done():
			return
		case <-s.nudge:
			suspected = true
		case <-timer.C:
		}
		due := s.due()
		if suspected || due <= 0 {
			s.question(ctx)
			due = s.due()
		}
		timer.Reset(max(due, again))
	}
}

// due is how long the next question can wait.
func (s *Server) due() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.misses > 0 {
		return 0
	}
	return time.Until(s.answered.Add(quiet))
}

func (s *Server) question(ctx context.Context) {
	begun := time.Now()
	within, stop := context.WithTimeoutCause(ctx, wait, errors.New("no answer in "+wait.String()))
	defer stop()
	err := s.ask(within)
	switch {
	case ctx.Err() != nil:
	case err == nil:
		s.Answered()
	default:
		if within.Err() != nil {
			err = fmt.Errorf("%w: %w", err, context.Cause(within))
		}
		s.missed(begun, err)
	}
}

func (s *Server) missed(begun time.Time, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.answered.After(begun) {
		return // to another call, meanwhile
	}
	if s.misses++; s.since.IsZero() {
		s.since = begun
	}
	if s.why = err; s.misses >= enough && s.say.Due(time.Now()) {
		s.log.Log(context.Background(), Level(err), s.what+" does not answer", "since", s.since, "error", err)
	}
}
