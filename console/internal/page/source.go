// This file queries the databases of several services concurrently. Each query has a deadline, and each
// database a limit of concurrent queries.

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

// Database is the database of a service.
type Database struct {
	DB store.Store
	At string // the flags that select it for the skald command
	// Compensate and CompensateAll are nil if the driver has no tracker.
	Compensate func(context.Context, operate.CompensateRequest, operate.Order) (operate.CompensateReport,
		error)
	CompensateAll func(context.Context, operate.FlowSelection, operate.Order) (operate.SagaReport, error)
}

// Needs returns a text about the environment variable that a displayed command needs, or "" if it needs none.
func (s *Source) Needs() string {
	if strings.Contains(s.At, "--store ") && !strings.Contains(s.At, "$SKALD_STORE") {
		return ""
	}
	return ", where SKALD_STORE is the URL of the database of " + s.Name
}

// Source is a database under its name in the console.
type Source struct {
	Database
	Name string
	room chan struct{} // has a token for each query in progress
	now  shared[SourceState]
	hour trace
}

// mostAsks limits the concurrent queries of a database. Further queries wait, and fail with ErrBusy at the
// deadline.
const mostAsks = 8

// set has all sources of a console.
type set struct {
	Names    []string // sorted
	all      map[string]*Source
	deadline time.Duration // the deadline of each query
	log      *slog.Logger  // logs why a source did not answer
}

// NewSource returns the set of the databases by name.
func NewSource(databases map[string]Database, deadline time.Duration, log *slog.Logger) *set {
	out := &set{Names: slices.Sorted(maps.Keys(databases)), all: map[string]*Source{},
		deadline: deadline, log: log}
	for name, is := range databases {
		out.all[name] = &Source{Database: is, Name: name, room: make(chan struct{}, mostAsks)}
	}
	return out
}

// Find returns the source with that name.
func (t *set) Find(name string) (*Source, error) {
	if s := t.all[name]; s != nil {
		return s, nil
	}
	if name == "" {
		return nil, NewRefusal(http.StatusBadRequest,
			"which source? Give in=NAME with a name from the overview")
	}
	return nil, NewRefusal(http.StatusNotFound, "there is no source %.64q", name)
}

// Unreachable is a source that did not answer, with the reason. The page shows the other sources.
type Unreachable struct {
	Source string `json:"source"`
	Why    string `json:"why"`
}

// part is the answer of one source.
type part[T any] struct {
	*Source
	Is T
}

// ErrBusy reports that a source has mostAsks queries in progress.
var ErrBusy = errors.New("too many concurrent requests to this source")

// Each queries all sources concurrently. If onlyName is not "", it queries only the source with this name.
// The result failed has the sources that failed or did not answer in time.
func Each[T any](ctx context.Context, of *set, onlyName string,
	ask func(context.Context, *Source) (T, error)) (got []part[T], failed []Unreachable) {
	type answer struct {
		is  T
		err error
	}
	var names []string
	for _, name := range of.Names {
		if onlyName == "" || onlyName == name {
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
			failed = append(failed, Unreachable{name, of.Why(ctx, name, a.err)})
			continue
		}
		got = append(got, part[T]{of.all[name], a.is})
	}
	return got, failed
}

// bounded queries one source within the deadline. If a driver ignores the deadline, bounded returns, but the
// query counts against mostAsks until the driver returns.
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
	case a := <-done: // ask returned at the moment when ctx ended
		return a.is, a.err
	default:
		return is, ctx.Err()
	}
}

// Rescued calls the function read, and converts a panic to an error. A panic outside the goroutine of an
// HTTP request would end the process.
func Rescued[T any](ctx context.Context, read func(context.Context) (T, error)) (is T, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("panic: %v: %s", r, debug.Stack())
		}
	}()
	return read(ctx)
}

// queryOne queries one source. It converts errors to texts for the user.
func queryOne[T any](ctx context.Context, of *set, s *Source,
	ask func(context.Context, *Source) (T, error)) (T, error) {
	is, err := bounded(ctx, of, s, ask)
	if err != nil {
		return is, of.unanswered(ctx, s.Name, err)
	}
	return is, nil
}
