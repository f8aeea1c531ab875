package page

import (
	"context"
	"sync"
	"time"

	"github.com/skald-go/skald/store"
)

// shared is a value that all requests share. It is read again if it is older than sharedFor.
type shared[T any] struct {
	mu   sync.Mutex
	at   time.Time
	is   T
	busy chan struct{} // closed when the read in progress has ended; nil without a read in progress
	err  error
}

const sharedFor = time.Second

// get returns the value and the time of its read. Concurrent requests share one read. The read continues if
// these requests end.
func (s *shared[T]) get(ctx context.Context, read func(context.Context) (T, error)) (T, time.Time, error) {
	s.mu.Lock()
	if s.busy == nil && time.Since(s.at) < sharedFor {
		defer s.mu.Unlock()
		return s.is, s.at, s.err
	}
	if s.busy == nil {
		s.busy = make(chan struct{})
		deadline, ok := ctx.Deadline()
		detached := context.WithoutCancel(ctx)
		stop := func() {}
		if ok {
			detached, stop = context.WithDeadline(detached, deadline)
		}
		go func() {
			defer stop()
			is, err := Rescued(detached, read)
			s.mu.Lock()
			defer s.mu.Unlock()
			s.is, s.err, s.at = is, err, time.Now()
			close(s.busy)
			s.busy = nil
		}()
	}
	busy := s.busy
	s.mu.Unlock()
	select {
	case <-busy:
		s.mu.Lock()
		defer s.mu.Unlock()
		return s.is, s.at, s.err
	case <-ctx.Done():
		var none T
		return none, time.Time{}, ctx.Err()
	}
}

// State returns the state of the database, cached for one second.
func (s *Source) State(ctx context.Context) (SourceState, error) {
	is, at, err := s.now.get(ctx, func(ctx context.Context) (is SourceState, err error) {
		status, err := s.DB.Status(ctx, store.StatusQuery{Backlog: true, Outbox: true})
		if err != nil {
			return is, err
		}
		store.CountSagas(ctx, s.DB, &status.Backlog)
		return stateOf(s.Name, &status), nil
	})
	is.At = at
	if err == nil {
		is.Hour = s.hour.Add(is.Point())
	}
	return is, err
}
