package saga

import (
	"fmt"
	"reflect"
	"time"

	"github.com/skald-go/skald/internal/saga/engine"
	"github.com/skald-go/skald/internal/saga/plan"
)

// Handle is a step of any type, for After.
type Handle interface {
	// Name is the step's.
	Name() string
	of() *spec
}

// Option of a step.
type Option func(*spec)

// Policy limits the attempts of a step, or of its undo.
type Policy struct {
	// Attempts is the limit. Default: 10; 20 for an undo and after the pivot; 1 for a Command. Negative means
	// no limit.
	Attempts        int
	InitialInterval time.Duration // wait after the first failure; it doubles. Default 100 ms
	MaxInterval     time.Duration // longest wait, plus up to a half of it as jitter. Default 1 min
	// Timeout of one attempt. For Do it bounds the function's context; default 30 s. One that ignores it is
	// charged, and is not called again in its process before it returns: it keeps a connection until then.
	// For Command and Child it is how long a reply is waited for, for Wait how long the signal is, for Lock
	// how long its entities are; default: as long as the saga lasts, and 5 min for the reply to an undo. A
	// Call has the timeout of its provider.
	Timeout time.Duration
}

// spec is a step before it is listed in a saga.
type spec struct {
	name     string
	kind     plan.Kind
	in, out  reflect.Type
	after    []Handle
	placed   bool // After or AtStart was said
	pivot    bool
	noEffect bool
	lapses   bool
	own      bool // OwnCommit
	undo     bool
	signal   string
	child    string // the name of its definition
	locks    bool   // of a Child: its definition locks entities
	shape    string
	reads    string
	try      Policy
	back     Policy
	body     engine.StepBody
	faults   []error
}

func (s *spec) fault(format string, args ...any) {
	s.faults = append(s.faults, fmt.Errorf(format, args...))
}

// After has a step begin once all of these are passed. Without it a step follows the one that is listed
// before it.
func After(steps ...Handle) Option {
	return func(s *spec) {
		s.placed, s.after = true, append(s.after, steps...)
		if len(steps) == 0 {
			s.fault("After names no step: name some, or say AtStart")
		}
	}
}

// AtStart has a step begin with the saga.
func AtStart() Option { return func(s *spec) { s.placed = true } }

// Pivot marks the step after which nothing is undone any more. Each other step of the saga has to come before
// it or after it; those after it are tried until they succeed, or are stuck.
func Pivot() Option { return func(s *spec) { s.pivot = true } }

// NoEffect says that a step before the pivot needs no undo: it only reads, or what it leaves does no harm.
func NoEffect() Option { return func(s *spec) { s.noEffect = true } }

// OwnCommit runs a Do, and its undo, in a transaction that no other step shares. By default consecutive local
// steps share one. Use it for a step with statements that set something for the rest of the transaction, that
// holds locks which others wait for, or that is slow. On database/sql, use it for a step that leaves a
// goroutine or a savepoint behind: a *sql.Tx is not revoked when its function returns.
func OwnCommit() Option { return func(s *spec) { s.own, s.body.OwnCommit = true, true } }

// SkipOnTimeout has a Wait be skipped once its Timeout is over. Without it the Wait fails then.
func SkipOnTimeout() Option { return func(s *spec) { s.lapses = true } }

// Retry says how a step is tried. A Timeout that was given stays, where p has none.
func Retry(p Policy) Option {
	return func(s *spec) {
		if p.Timeout == 0 {
			p.Timeout = s.try.Timeout
		}
		s.try = p
	}
}

// RetryUndo says how the undo of a step is tried, and how the step is settled before that where it may have
// taken effect.
func RetryUndo(p Policy) Option { return func(s *spec) { s.back = p } }

// Timeout is Policy.Timeout alone.
func Timeout(d time.Duration) Option { return func(s *spec) { s.try.Timeout = d } }

// When skips a step if the condition is false: the step counts as passed, and is read with OutputIfRun. The
// engine asks once, when the steps before it are passed. The condition must depend on nothing but r.
func When[In any](is func(r Run[In]) bool) Option {
	return func(s *spec) {
		if s.in != typeOf[In]() {
			s.fault("its When takes %v, and the step takes %v", typeOf[In](), s.in)
		}
		if is == nil {
			s.fault("its When has no function")
		}
		s.body.When = func(f *engine.Facts) (bool, error) {
			r, err := runOf[In](f)
			if err != nil {
				return false, err
			}
			yes := is(r)
			return yes, f.Fault(nil)
		}
	}
}

// Each runs a step once for each occurrence, side by side: the lines of an order. They are asked once, when
// the steps before it are passed; each is a text of at most 255 bytes, no two are equal. Without any the step
// is skipped. Its functions find theirs in Run.Occurrence.
func Each[In any](of func(r Run[In]) []string) Option {
	return func(s *spec) {
		if s.in != typeOf[In]() {
			s.fault("its Each takes %v, and the step takes %v", typeOf[In](), s.in)
		}
		if of == nil {
			s.fault("its Each has no function")
		}
		s.body.Each = func(f *engine.Facts) ([]string, error) {
			r, err := runOf[In](f)
			if err != nil {
				return nil, err
			}
			all := of(r)
			return all, f.Fault(validOccurrences(all))
		}
	}
}
