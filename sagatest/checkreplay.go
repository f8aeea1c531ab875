package sagatest

import (
	"fmt"
	"strings"
)

func (c *checker[TTx]) replay(t T, text string) Checked {
	t.Helper()
	s, err := parseSchedule(text, checkModes())
	if err != nil {
		t.Fatalf("%s: %v", Replay, err)
	}
	run, values := c.begin(), s.values()
	for i, f := range values {
		if f.At > len(c.values) {
			t.Fatalf("%s: there are %d values in addition to the first ones, and no %v", Replay, len(c.values), Schedule{f})
		}
		run = c.try(values[:i+1])
	}
	if len(s) > len(values) {
		run = c.try(s)
	}
	if len(s) > 0 && run != nil {
		t.Logf("schedule %s\n%s", text, run.trace())
		for _, f := range s {
			if why := run.unmet(f); why != "" {
				t.Errorf("%s: the fault %v never came up: %s", Replay, Schedule{f}, why)
			}
		}
	}
	for _, f := range c.failures {
		t.Errorf("%s", strings.Join(f.Broken, "\n"))
	}
	return Checked{Runs: c.runs, Refused: c.refused, Failures: c.failures}
}

// unmet returns the reason why a fault was not injected in the run, or "".
func (r *sagaRun[TTx]) unmet(f Fault) string {
	switch {
	case f.Mode == Value && !r.met[r.c.values[f.At-1].of]:
		return fmt.Sprintf("this run does not come to a step that waits for %v", r.c.values[f.At-1].of)
	case f.Mode == Value:
	case f.Mode == Deploys && !r.mixed:
		return "it must be the first fault, and Check needs an Older definition"
	case f.Mode == Deploys && (r.d == r.c.d || !r.state.Status.Final()): // moved, or refused
	case f.Mode == Deploys || f.At > len(r.log):
		return fmt.Sprintf("this run has %d steps", len(r.log))
	case r.log[f.At-1].mode != f.Mode:
		return fmt.Sprintf("step %d of this run is %q, which allows %v", f.At, r.log[f.At-1].what,
			r.log[f.At-1].modes)
	}
	return ""
}
