package console

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/skald-go/skald/console/internal/refusal"
	"github.com/skald-go/skald/console/internal/standing"
	"github.com/skald-go/skald/operate"
	"github.com/skald-go/skald/store"
)

// A database is that of a service, as a driver knows it.
type database struct {
	db store.Store
	at string // how the command finds it: flags
	// nil: its driver tracks nothing
	compensate    func(context.Context, operate.Wish, operate.Order) (operate.CompensateReport, error)
	compensateAll func(context.Context, operate.FlowSelection, operate.Order) (operate.SagaReport, error)
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
	database
	name string
	room chan struct{} // of those who ask it at once
	now  shared[standing.Standing]
	hour standing.Trace
}

// mostAsks bounds how many requests ask a database at once: those above it find it busy.
const mostAsks = 8

// A set is the sources of a console.
type set struct {
	names    []string // sorted
	all      map[string]*source
	deadline time.Duration // of an answer
	log      *slog.Logger  // why a source did not answer
}

// newSet is the sources by name.
func newSet(of map[string]database, deadline time.Duration, log *slog.Logger) *set {
	out := &set{names: slices.Sorted(maps.Keys(of)), all: map[string]*source{}, deadline: deadline, log: log}
	for name, is := range of {
		out.all[name] = &source{database: is, name: name, room: make(chan struct{}, mostAsks)}
	}
	return out
}

// find is the source of a name.
func (t *set) find(name string) (*source, error) {
	if s := t.all[name]; s != nil {
		return s, nil
	}
	if name == "" {
		return nil, refusal.New(http.StatusBadRequest, "which source? Give in=NAME, one of those of the overview")
	}
	return nil, refusal.New(http.StatusNotFound, "there is no source %.64q", name)
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
func each[T any](ctx context.Context, of *set, only string, ask func(context.Context, *source) (T, error)) (got []part[T], away []Away) {
	type answer struct {
		is  T
		err error
	}
	var names []string
	for _, name := range of.names {
		if only == "" || only == name {
			names = append(names, name)
		}
	}
	answers := make([]chan answer, len(names))
	for i, name := range names {
		answers[i] = make(chan answer, 1)
		go func() {
			is, err := bounded(ctx, of, of.all[name], ask)
			answers[i] <- answer{is, err}
		}()
	}
	for i, name := range names {
		a := <-answers[i]
		if a.err != nil {
			away = append(away, Away{name, of.why(ctx, name, a.err)})
			continue
		}
		got = append(got, part[T]{of.all[name], a.is})
	}
	return got, away
}

// bounded asks one source, for the deadline at most. A driver that does not heed it keeps its room until it
// returns.
func bounded[T any](ctx context.Context, of *set, s *source, ask func(context.Context, *source) (T, error)) (is T, err error) {
	ctx, stop := context.WithTimeout(ctx, of.deadline)
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
func one[T any](ctx context.Context, of *set, s *source, ask func(context.Context, *source) (T, error)) (T, error) {
	is, err := bounded(ctx, of, s, ask)
	if err != nil {
		return is, of.unanswered(ctx, s.name, err)
	}
	return is, nil
}
