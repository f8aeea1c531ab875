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
	"github.com/skald-go/skald/store"
)

const (
	// quiet is how long a server may give no sign before it is asked. Idle stations call their store every
	// 8 s.
	quiet = 9 * time.Second
	// enough is how many questions in a row must stay without an answer: one may be chance.
	enough = 2
)

// A Server is a database or a broker as one station sees it. Its methods are safe for concurrent use.
type Server struct {
	what  string // "the database"
	log   *slog.Logger
	probe *Probe // nil: it cannot be asked

	mu       sync.Mutex
	asked    time.Time // when the last question began
	answered time.Time // last
	since    time.Time // of the first question in a row without an answer; zero: it answers
	misses   int       // in a row
	why      error
	say      backoff.Rarely
	nudge    chan struct{}
}

// New returns a server of which nothing is known yet. Ask gets its answer, with an error where there is none;
// nil: it cannot be asked, and counts as answering. Now is the clock that bounds how often it is asked.
func New(what string, log *slog.Logger, now func() time.Time, ask func(ctx context.Context) error) *Server {
	s := &Server{what: what, log: log, say: backoff.Seldom(), nudge: make(chan struct{}, 1)}
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

// Store returns db as a server, which is asked by its Probe.
func Store(db any, log *slog.Logger, now func() time.Time) *Server {
	p, can := db.(interface {
		Probe(ctx context.Context) error
	})
	if !can {
		return New("the database", log, now, nil)
	}
	return New("the database", log, now, p.Probe)
}

// Broker returns bus as a server. It is asked for its incarnation, which no driver knows without asking.
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
		if err != nil && ctx.Err() != nil || errors.Is(err, broker.ErrAway) || errors.As(err, &line) {
			return err
		}
		return nil // it answered, if only that there is none, or that this client may not read it
	})
}

// Probe returns what asks the server. There is no other way that it is asked, so the rate is bounded.
func (s *Server) Probe() *Probe { return s.probe }

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
	if s.probe == nil {
		return
	}
	s.Answered() // nothing is known against it
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

// due is how long the next question can wait.
func (s *Server) due() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.misses > 0 {
		return 0
	}
	return time.Until(s.answered.Add(quiet))
}

// found takes up the end of a question.
func (s *Server) found(err error) {
	if err == nil {
		s.Answered()
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.answered.After(s.asked) {
		return // to another call, meanwhile
	}
	if s.misses++; s.since.IsZero() {
		s.since = s.asked
	}
	if s.why = err; s.misses >= enough && s.say.Due(time.Now()) {
		s.log.Log(context.Background(), Level(err), s.what+" does not answer", "since", s.since, "error", err)
	}
}
