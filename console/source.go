package console

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"strings"
	"sync"
	"time"

	"github.com/skald-go/skald/operate"
	"github.com/skald-go/skald/store"
)

// A Source is the database of a service.
type Source struct {
	db store.Store
	at string
	// nil: its driver tracks nothing
	compensate    func(context.Context, operate.Wish, operate.Order) (operate.CompensateReport, error)
	compensateAll func(context.Context, operate.FlowSelection, operate.Order) (operate.SagaReport, error)
}

// Of is the source that a driver knows. Its user needs the rights of a reader, and those of an app for the
// verbs.
func Of[TTx any](db store.Driver[TTx]) Source {
	s := Source{db: db}
	if c, ok := db.(operate.Compensator[TTx]); ok {
		s.compensate = func(ctx context.Context, w operate.Wish, o operate.Order) (operate.CompensateReport, error) {
			return operate.Compensate(ctx, c, w, o)
		}
		s.compensateAll = func(ctx context.Context, sel operate.FlowSelection, o operate.Order) (operate.SagaReport, error) {
			return operate.CompensateAll(ctx, c, sel, o)
		}
	}
	return s
}

// At says how the command finds the database, "--store @orders.url": part of the commands that are shown, so
// no place for a password. Without it they suppose SKALD_STORE.
func (s Source) At(flags string) Source {
	s.at = flags
	return s
}

// needs says what a command that is shown supposes of the shell.
func (s *source) needs() string {
	if strings.Contains(s.at, "--store ") && !strings.Contains(s.at, "$SKALD_STORE") {
		return ""
	}
	return ", where SKALD_STORE is the URL of the database of " + s.name
}

// A source is a Source of a console.
type source struct {
	Source
	name string
	room chan struct{} // of those who ask it at once
	now  shared[standing]
	hour trace
}

// mostAsks bounds how many requests ask a database at once: those above it find it busy.
const mostAsks = 8

func newSource(name string, s Source) *source {
	return &source{Source: s, name: name, room: make(chan struct{}, mostAsks)}
}

// An Away is a source that did not answer, and why: the others are shown.
type Away struct {
	Source string `json:"source"`
	Why    string `json:"why"`
}

// A part is what one source answered.
type part[T any] struct {
	*source
	is T
}

var errBusy = errors.New("too many ask this source at once")

// each asks the sources that are meant, all at once; only "": all. Who does not answer in time is named.
func each[T any](ctx context.Context, h *handler, only string, ask func(context.Context, *source) (T, error)) (got []part[T], away []Away) {
	type answer struct {
		is  T
		err error
	}
	var names []string
	for _, name := range h.names {
		if only == "" || only == name {
			names = append(names, name)
		}
	}
	answers := make([]chan answer, len(names))
	for i, name := range names {
		answers[i] = make(chan answer, 1)
		go func() {
			is, err := bounded(ctx, h, h.sources[name], ask)
			answers[i] <- answer{is, err}
		}()
	}
	for i, name := range names {
		a := <-answers[i]
		if a.err != nil {
			away = append(away, Away{name, h.why(ctx, name, a.err)})
			continue
		}
		got = append(got, part[T]{h.sources[name], a.is})
	}
	return got, away
}

// bounded asks one source, for the deadline at most. A driver that does not heed it keeps its room until it
// returns.
func bounded[T any](ctx context.Context, h *handler, s *source, ask func(context.Context, *source) (T, error)) (is T, err error) {
	ctx, stop := context.WithTimeout(ctx, h.o.Deadline)
	select {
	case s.room <- struct{}{}:
	case <-ctx.Done():
		stop()
		return is, errBusy
	}
	type answer struct {
		is  T
		err error
	}
	done := make(chan answer, 1)
	go func() {
		defer func() { <-s.room; stop() }()
		is, err := rescued(ctx, func(ctx context.Context) (T, error) { return ask(ctx, s) })
		done <- answer{is, err}
	}()
	select {
	case a := <-done:
		return a.is, a.err
	case <-ctx.Done():
	}
	select {
	case a := <-done: // its end ended ctx
		return a.is, a.err
	default:
		return is, ctx.Err()
	}
}

// rescued reads, and takes a panic as an error: in a goroutine of its own it would end the service.
func rescued[T any](ctx context.Context, read func(context.Context) (T, error)) (is T, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("panic: %v: %s", r, debug.Stack())
		}
	}()
	return read(ctx)
}

// one asks one source.
func one[T any](ctx context.Context, h *handler, s *source, ask func(context.Context, *source) (T, error)) (T, error) {
	is, err := bounded(ctx, h, s, ask)
	if err != nil {
		return is, h.unanswered(ctx, s.name, err)
	}
	return is, nil
}

// why says what to show of an error of a source. What a server said may hold names that are nobody's
// business: it goes to the log.
func (h *handler) why(ctx context.Context, name string, err error) string {
	switch {
	case errors.Is(err, errBusy):
		return "busy: too many pages ask it at once"
	case errors.Is(err, context.DeadlineExceeded):
		return fmt.Sprintf("no answer within %v", h.o.Deadline)
	case errors.Is(err, context.Canceled):
		return "the request ended"
	case store.Incurable(err):
		return strings.ToValidUTF8(err.Error(), "?")
	}
	h.o.Logger.WarnContext(ctx, "console: no answer", "source", name, "error", err)
	return "its database gave no answer: the log of the console says why"
}

// A shared value is read once a second at most, whoever looks.
type shared[T any] struct {
	mu   sync.Mutex
	at   time.Time
	is   T
	busy chan struct{} // closed when the read that is under way has ended; nil: none is
	err  error
}

const sharedFor = time.Second

// get is the value, no older than a second. All who ask at once wait for one read, which outlives those who
// give up.
func (s *shared[T]) get(ctx context.Context, read func(context.Context) (T, error)) (T, time.Time, error) {
	s.mu.Lock()
	if s.busy == nil && time.Since(s.at) < sharedFor {
		defer s.mu.Unlock()
		return s.is, s.at, s.err
	}
	if s.busy == nil {
		s.busy = make(chan struct{})
		deadline, ok := ctx.Deadline()
		apart := context.WithoutCancel(ctx)
		stop := func() {}
		if ok {
			apart, stop = context.WithDeadline(apart, deadline)
		}
		go func() {
			defer stop()
			is, err := rescued(apart, read)
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
