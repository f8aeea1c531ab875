// This file reads the databases of several services for a page: all at once, each within a deadline
// and by so many at a time, and names those that did not answer.

package page

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

	"github.com/skald-go/skald/operate"
	"github.com/skald-go/skald/store"
)

// A Database is that of a service, as a driver knows it.
type Database struct {
	DB store.Store
	At string // how the command finds it: flags
	// nil: its driver tracks nothing
	Compensate    func(context.Context, operate.Wish, operate.Order) (operate.CompensateReport, error)
	CompensateAll func(context.Context, operate.FlowSelection, operate.Order) (operate.SagaReport, error)
}

// Needs says what a command that is shown supposes of the shell.
func (s *Source) Needs() string {
	if strings.Contains(s.At, "--store ") && !strings.Contains(s.At, "$SKALD_STORE") {
		return ""
	}
	return ", where SKALD_STORE is the URL of the database of " + s.Name
}

// A Source is a database under its name in a console.
type Source struct {
	Database
	Name string
	room chan struct{} // of those who ask it at once
	now  shared[Standing]
	hour trace
}

// mostAsks bounds how many requests ask a database at once: those above it find it busy.
const mostAsks = 8

// A set is the sources of a console.
type set struct {
	Names    []string // sorted
	all      map[string]*Source
	deadline time.Duration // of an answer
	log      *slog.Logger  // why a source did not answer
}

// NewSource is a set of databases by name.
func NewSource(of map[string]Database, deadline time.Duration, log *slog.Logger) *set {
	out := &set{Names: slices.Sorted(maps.Keys(of)), all: map[string]*Source{}, deadline: deadline, log: log}
	for name, is := range of {
		out.all[name] = &Source{Database: is, Name: name, room: make(chan struct{}, mostAsks)}
	}
	return out
}

// Find is the source of a name.
func (t *set) Find(name string) (*Source, error) {
	if s := t.all[name]; s != nil {
		return s, nil
	}
	if name == "" {
		return nil, NewRefusal(http.StatusBadRequest,
			"which source? Give in=NAME, one of those of the overview")
	}
	return nil, NewRefusal(http.StatusNotFound, "there is no source %.64q", name)
}

// An Away is a source that did not answer, and why: the others are shown.
type Away struct {
	Source string `json:"source"`
	Why    string `json:"why"`
}

// A part is what one source answered.
type part[T any] struct {
	*Source
	Is T
}

// ErrBusy is the answer of a source that mostAsks requests ask already.
var ErrBusy = errors.New("too many ask this source at once")

// Each asks the sources that are meant, all at once; only "": all. Who does not answer in time is named.
func Each[T any](ctx context.Context, of *set, only string,
	ask func(context.Context, *Source) (T, error)) (got []part[T], away []Away) {
	type answer struct {
		is  T
		err error
	}
	var names []string
	for _, name := range of.Names {
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
			away = append(away, Away{name, of.Why(ctx, name, a.err)})
			continue
		}
		got = append(got, part[T]{of.all[name], a.is})
	}
	return got, away
}

// bounded asks one source, for the deadline at most. A driver that does not heed it keeps its room until it
// returns.
func bounded[T any](ctx context.Context, of *set, s *Source,
	ask func(context.Context, *Source) (T, error)) (is T, err error) {
	ctx, stop := context.WithTimeout(ctx, of.deadline)
	select {
	case s.room <- struct{}{}:
	case <-ctx.Done():
		stop()
		return is, ErrBusy
	}
	type answer struct {
		is  T
		err error
	}
	done := make(chan answer, 1)
	go func() {
		defer func() { <-s.room; stop() }()
		is, err := Rescued(ctx, func(ctx context.Context) (T, error) { return ask(ctx, s) })
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

// Rescued reads, and takes a panic as an error: in a goroutine of its own it would end the service.
func Rescued[T any](ctx context.Context, read func(context.Context) (T, error)) (is T, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("panic: %v: %s", r, debug.Stack())
		}
	}()
	return read(ctx)
}

// one asks one source.
func one[T any](ctx context.Context, of *set, s *Source,
	ask func(context.Context, *Source) (T, error)) (T, error) {
	is, err := bounded(ctx, of, s, ask)
	if err != nil {
		return is, of.unanswered(ctx, s.Name, err)
	}
	return is, nil
}
