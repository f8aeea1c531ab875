package saga

import (
	"fmt"
	"reflect"
	"time"

	"github.com/skald-go/skald/internal/saga/engine"
	"github.com/skald-go/skald/internal/saga/plan"
)

// Handle is a step with any types, for use in After.
type Handle interface {
	// Name returns the name of the step.
	Name() string
	of() *spec
}

// Option is an option of a step.
type Option func(*spec)

// Policy limits the attempts of a step, or of its undo.
type Policy struct {
	// Attempts is the limit of attempts. Default: 10; 20 for an undo and for steps after the pivot; 1 for a
	// Command. Negative means no limit.
	Attempts        int
	InitialInterval time.Duration // wait after the first failure; doubles with each failure. Default 100 ms
	MaxInterval     time.Duration // longest wait; jitter adds up to 50 %. Default 1 min
	// Timeout limits one attempt of a Do: its function's context ends. Default 30 s. If the function ignores
	// its context, the attempt counts as failed, and the function keeps a connection until it returns. This
	// process does not call the function again before that.
	//
	// For other steps, Timeout limits the wait: of a Command for its reply, of a Child for its end, of a Wait
	// for its signal, of a Lock for its entities. By default these waits have no limit, except 5 min for the
	// reply to an undo. A Call ignores Timeout, and has the timeout of its provider.
	Timeout time.Duration
}

// spec is a step while its definition is built.
type spec struct {
	name     string
	kind     plan.Kind
	in, out  reflect.Type
	after    []Handle
	placed   bool // After or AtStart is given
	pivot    bool
	noEffect bool
	lapses   bool
	own      bool // OwnCommit is given
	undo     bool
	signal   string
	child    string // of a Child: the name of its definition
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

// After lets a step begin when all of these steps are done or skipped. Without After and AtStart, a step
// follows the step listed before it.
func After(steps ...Handle) Option {
	return func(s *spec) {
		s.placed, s.after = true, append(s.after, steps...)
		if len(steps) == 0 {
			s.fault("After names no step: name some, or use AtStart")
		}
	}
}

// AtStart lets a step begin when the saga starts.
func AtStart() Option { return func(s *spec) { s.placed = true } }

// Pivot makes a step the point of no return: after it is done, no step is undone. Each other step must come
// before or after the pivot. Steps after the pivot are retried until they succeed, or get stuck.
func Pivot() Option { return func(s *spec) { s.pivot = true } }

// NoEffect declares that a step before the pivot needs no undo, because it only reads or its effect is
// harmless.
func NoEffect() Option { return func(s *spec) { s.noEffect = true } }

// OwnCommit runs a Do and its undo in a transaction that no other step shares. By default consecutive local
// steps share a transaction. Use OwnCommit for a step that is slow, that changes settings of the transaction,
// or that holds locks that others need. On database/sql, also use it for a step that leaves a goroutine or a
// savepoint behind, because a *sql.Tx is still usable after the step's function returns.
func OwnCommit() Option { return func(s *spec) { s.own, s.body.OwnCommit = true, true } }

// SkipOnTimeout skips a Wait when its Timeout ends. By default the Wait fails then.
func SkipOnTimeout() Option { return func(s *spec) { s.lapses = true } }

// Retry sets the policy of a step. If p has no Timeout, the Timeout of an earlier option stays.
func Retry(p Policy) Option {
	return func(s *spec) {
		if p.Timeout == 0 {
			p.Timeout = s.try.Timeout
		}
		s.try = p
	}
}

// RetryUndo sets the policy for the undo of a step. It also applies when the engine finds out, before the
// undo, whether the step took effect.
func RetryUndo(p Policy) Option { return func(s *spec) { s.back = p } }

// Timeout sets only Policy.Timeout.
func Timeout(d time.Duration) Option { return func(s *spec) { s.try.Timeout = d } }

// When skips a step if the function condition returns false. The next steps then begin; they read the
// output with OutputIfRun. The engine calls condition once, when the previous steps are done or skipped.
// The function must depend only on r.
func When[In any](condition func(r Run[In]) bool) Option {
	return func(s *spec) {
		if s.in != typeOf[In]() {
			s.fault("its When takes %v, and the step takes %v", typeOf[In](), s.in)
		}
		if condition == nil {
			s.fault("its When has no function")
		}
		s.body.When = func(f *engine.Facts) (bool, error) {
			r, err := runOf[In](f)
			if err != nil {
				return false, err
			}
			yes := condition(r)
			return yes, f.Fault(nil)
		}
	}
}

// Each runs a step once for each occurrence, in parallel: for example for each line of an order. The engine
// calls the function occurrences once, when the previous steps are done or skipped. The function returns
// different texts of 1 to 255 bytes. If it returns no text, the step is skipped. Run.Occurrence is the
// occurrence for which a function is called.
func Each[In any](occurrences func(r Run[In]) []string) Option {
	return func(s *spec) {
		if s.in != typeOf[In]() {
			s.fault("its Each takes %v, and the step takes %v", typeOf[In](), s.in)
		}
		if occurrences == nil {
			s.fault("its Each has no function")
		}
		s.body.Each = func(f *engine.Facts) ([]string, error) {
			r, err := runOf[In](f)
			if err != nil {
				return nil, err
			}
			all := occurrences(r)
			return all, f.Fault(validOccurrences(all))
		}
	}
}
