package saga

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/skald-go/skald/internal/saga/engine"
	"github.com/skald-go/skald/internal/saga/plan"
)

// assemble returns the graph and the bodies of the listed steps, and all errors that it finds. A step without
// After or AtStart follows the step listed before it.
func assemble(name string, steps []Handle) (plan.Graph, []engine.StepBody, []error) {
	g := plan.Graph{Name: name}
	var bodies []engine.StepBody
	var faults []error
	var tx reflect.Type
	listed := map[string][]*spec{} // by name; Graph.Faults reports duplicate names
	for i, h := range steps {
		if h == nil || h.of() == nil {
			faults = append(faults, fmt.Errorf("step %d is nil", i+1))
			continue
		}
		s := h.of()
		listed[s.name] = append(listed[s.name], s)
		faults = append(faults, s.ownFaults()...)
		if t := s.body.Tx; t != nil && !engine.AnyTx(t) {
			if tx == nil {
				tx = t.Type()
			} else if tx != t.Type() {
				faults = append(faults,
					fmt.Errorf(
						"step %q takes %v, and a step before it %v: a saga has one type of transactions",
						s.name, t.Type(), tx))
			}
		}
		g.Steps = append(g.Steps, s.node(g.Steps))
		bodies = append(bodies, s.body)
	}
	for _, h := range steps {
		if h == nil || h.of() == nil {
			continue
		}
		for _, a := range h.of().after {
			if a == nil || a.of() == nil {
				faults = append(faults, fmt.Errorf("step %q: its After names a nil step", h.Name()))
			} else if all := listed[a.Name()]; len(all) > 0 && !slices.Contains(all, a.of()) {
				faults = append(faults,
					fmt.Errorf("step %q: its After names a step %q that is not the one listed here",
						h.Name(), a.Name()))
			}
		}
	}
	policies(g.Steps)
	return g, bodies, faults
}

// node returns the step for a graph. The argument previous has the steps that are listed before it.
func (s *spec) node(previous []plan.Step) plan.Step {
	n := plan.Step{Name: s.name, Kind: s.kind, Pivot: s.pivot, Undo: s.undo, NoEffect: s.noEffect,
		When: s.body.When != nil,
		Each: s.body.Each != nil, Signal: s.signal, Child: s.child, Locks: s.locks,
		Lapses: s.lapses, Shape: s.shape, Reads: s.reads,
		Try: plan.Policy(s.try), Back: plan.Policy(s.back)}
	for _, a := range s.after {
		if a != nil && a.of() != nil && !slices.Contains(n.After, a.Name()) {
			n.After = append(n.After, a.Name())
		}
	}
	if !s.placed && len(previous) > 0 {
		n.After = []string{previous[len(previous)-1].Name}
	}
	return n
}

func (s *spec) ownFaults() (out []error) {
	for _, err := range s.faults {
		out = append(out, fmt.Errorf("step %q: %w", s.name, err))
	}
	if s.lapses && (s.kind != plan.Wait || s.signal == "" || s.try.Timeout <= 0) {
		out = append(out, fmt.Errorf("step %q: SkipOnTimeout is for a Wait with a Timeout", s.name))
	}
	if s.own && s.kind != plan.Do {
		out = append(out,
			fmt.Errorf("step %q: OwnCommit is for a Do: a %s shares its transaction with no other "+
				"step", s.name, s.kind))
	}
	return out
}

// policies fills in the defaults of the policies of steps.
func policies(steps []plan.Step) {
	p := plan.New(plan.Graph{Steps: steps})
	pivot := ""
	for _, s := range steps {
		if s.Pivot {
			pivot = s.Name
		}
	}
	for i := range steps {
		s := &steps[i]
		tries := 10
		switch {
		case s.Kind == plan.Command:
			tries = 1
		case pivot != "" && p.Before(pivot, s.Name):
			tries = 20
		}
		var try, back time.Duration
		if s.Kind == plan.Do {
			try, back = 30*time.Second, 30*time.Second
		} else if s.Kind == plan.Command {
			back = 5 * time.Minute
		}
		s.Try, s.Back = filled(s.Try, tries, try), filled(s.Back, 20, back)
	}
}

func filled(p plan.Policy, tries int, timeout time.Duration) plan.Policy {
	switch {
	case p.Attempts == 0:
		p.Attempts = tries
	case p.Attempts < 0:
		p.Attempts = 0
	}
	if p.InitialInterval <= 0 {
		p.InitialInterval = 100 * time.Millisecond
	}
	if p.MaxInterval <= 0 {
		p.MaxInterval = time.Minute
	}
	p.MaxInterval = max(p.MaxInterval, p.InitialInterval)
	if p.Timeout <= 0 {
		p.Timeout = timeout
	}
	return p
}

// validText returns an error if a name, a key or an occurrence cannot be stored.
func validText(what, s string) error {
	switch {
	case s == "":
		return fmt.Errorf("the %s is empty", what)
	case len(s) > MaxKey:
		return fmt.Errorf("the %s %.40q is %d bytes, at most %d are possible", what, s, len(s), MaxKey)
	case !utf8.ValidString(s) || strings.ContainsRune(s, 0):
		return fmt.Errorf("the %s %.40q is not UTF-8 text without NUL", what, s)
	}
	return nil
}

func validOccurrences(all []string) error {
	seen := make(map[string]bool, len(all))
	var faults []error
	for _, o := range all {
		if err := validText("occurrence", o); err != nil {
			faults = append(faults, err)
		} else if seen[o] {
			faults = append(faults, fmt.Errorf("the occurrence %.40q is given twice", o))
		}
		seen[o] = true
		if len(faults) == 5 {
			break
		}
	}
	return errors.Join(faults...)
}
