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
	// Name returns the name of the step.
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
	MaxInterval     time.Duration // longest wait, before jitter of up to 50 %. Default 1 min
	// Timeout of one attempt. For Do it limits the function's context; default 30 s. If the function
	// ignores its context, the attempt counts, and this process does not call the function again before it
	// returns. The function keeps a connection until then. For Command and Child, Timeout limits the wait
	// for the reply, for Wait the wait for the signal, for Lock the wait for the entities. Default there:
	// as long as the saga lasts, and 5 min for the reply to an undo. A Call has the timeout of its
	// provider.
	Timeout time.Duration
}

// spec is a step before it is listed in a saga.
type spec struct {
	name     string
	kind     plan.Kind
	in, out  reflect.Type
	after    []Handle
	placed   bool // by After or AtStart
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

// After begins a step once all of these steps are done or skipped. By default a step follows the step
// listed before it.
func After(steps ...Handle) Option {
	return func(s *spec) {
		s.placed, s.after = true, append(s.after, steps...)
		if len(steps) == 0 {
			s.fault("After names no step: name some, or use AtStart")
		}
	}
}

// AtStart begins a step at the start of the saga.
func AtStart() Option { return func(s *spec) { s.placed = true } }

// Pivot marks a step as the point of no return: once it is done, nothing is undone. Each other step must
// come before or after the pivot. Steps after it are retried until they succeed, or get stuck.
func Pivot() Option { return func(s *spec) { s.pivot = true } }

// NoEffect declares that a step before the pivot needs no undo: it only reads, or its effect is harmless.
func NoEffect() Option { return func(s *spec) { s.noEffect = true } }

// OwnCommit runs a Do, and its undo, in a transaction that no other step shares. By default consecutive
// local steps share a transaction. Use OwnCommit for a step that changes settings of the transaction, holds
// locks that others need, or is slow. On database/sql, use it for a step that leaves a goroutine or a
// savepoint behind: a *sql.Tx stays usable after its function returns.
func OwnCommit() Option { return func(s *spec) { s.own, s.body.OwnCommit = true, true } }

// SkipOnTimeout skips a Wait after its Timeout. By default the Wait fails then.
func SkipOnTimeout() Option { return func(s *spec) { s.lapses = true } }

// Retry sets the policy of a step. If p has no Timeout, an earlier Timeout option remains in force.
func Retry(p Policy) Option {
	return func(s *spec) {
		if p.Timeout == 0 {
			p.Timeout = s.try.Timeout
		}
		s.try = p
	}
}

// RetryUndo sets the policy for the undo of a step, and for finding out before that whether the step took
// effect.
func RetryUndo(p Policy) Option { return func(s *spec) { s.back = p } }

// Timeout sets only Policy.Timeout.
func Timeout(d time.Duration) Option { return func(s *spec) { s.try.Timeout = d } }

// When skips a step if is returns false. The next steps then begin; read the output with OutputIfRun. The
// engine calls is once, when the steps before are done or skipped. The function must depend only on r.
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

// Each runs a step once for each occurrence, in parallel: for example, for each line of an order. The
// engine calls of once, when the steps before are done or skipped. An occurrence is a text of 1 to 255
// bytes, and no two are equal. Without an occurrence the step is skipped. Run.Occurrence is the occurrence
// of a call.
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
