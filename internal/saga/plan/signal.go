package plan

import (
	"fmt"
	"slices"
	"strings"
)

// mostNamed limits the occurrences that an error lists.
const mostNamed = 10

func (s *Step) waitsFor(signal string) bool {
	return signal != "" && s.Kind == Wait && s.Signal == signal
}

func (w *work) signal(e Event) Outcome {
	known, begun := false, false
	for i := range w.p.Graph.Steps {
		step := &w.p.Graph.Steps[i]
		if !step.waitsFor(e.Name) || step.Each != (e.Occurrence != "") {
			continue
		}
		known = true
		for n := range w.s.Runs {
			r := &w.s.Runs[n]
			if r.Step != step.Name || r.Occurrence != e.Occurrence {
				begun = begun || r.Step == step.Name && r.Phase != Deciding
				continue
			}
			if r.Phase == Waiting && w.s.Status == Running {
				w.finishRun(r, e)
				return Taken
			}
			if r.Phase != Deciding {
				return lateOutcome(r.Phase == IsDone)
			}
		}
	}
	switch {
	case !known:
		return Unknown
	case w.s.Status != Running:
		return NotWaiting
	case begun: // the occurrences are known, and e.Occurrence is none of them
		return Unknown
	case slices.ContainsFunc(w.s.Early,
		func(d Data) bool { return d.Name == e.Name && d.Occurrence == e.Occurrence }):
		return Repeat
	case len(w.s.Early) >= MaxEarly:
		return Full
	}
	w.s.Early = append(slices.Clone(w.s.Early), Data{Name: e.Name, Occurrence: e.Occurrence, Data: e.Output})
	return Early
}

// NoSignal returns an error with the reason for which the outcome of a signal is Unknown.
func (p *Plan) NoSignal(s State, signal, occurrence string) error {
	at := slices.IndexFunc(p.Graph.Steps, func(s Step) bool { return s.waitsFor(signal) })
	if at < 0 {
		return fmt.Errorf("no step of the saga waits for the signal %q", signal)
	}
	step := p.Graph.Steps[at]
	if !step.Each {
		return fmt.Errorf("the signal %s came for the occurrence %q, but its step %s has no occurrences: "+
			"send it without one", signal, occurrence, step.Name)
	}
	of := fmt.Sprintf("the occurrence %q", occurrence)
	if occurrence == "" {
		of = "no occurrence"
	}
	var has []string
	for _, r := range s.Runs {
		if r.Step == step.Name && r.Occurrence != "" {
			has = append(has, r.Occurrence)
		}
	}
	which := "is one for each occurrence, which are not known yet"
	switch n := len(has) - mostNamed; {
	case n > 0:
		which = fmt.Sprintf("has the occurrences %s and %d more", strings.Join(has[:mostNamed], ", "), n)
	case len(has) > 0:
		which = "has the occurrences " + strings.Join(has, ", ")
	}
	return fmt.Errorf("the signal %s came for %s, but its step %s %s", signal, of, step.Name, which)
}
