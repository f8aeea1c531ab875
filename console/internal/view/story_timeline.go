package view

import (
	"fmt"
	"slices"
	"time"

	"github.com/skald-go/skald/console/internal/page"
	"github.com/skald-go/skald/operate"
)

// event is an entry of the timeline.
type event struct {
	At     time.Time `json:"at"`
	Source string    `json:"source"`
	What   string    `json:"what"`
	Where  string    `json:"where,omitempty"` // the consumer or the flow
	Grade  string    `json:"grade,omitempty"` // bad, warn or ""
	// Since is the time of the previous entry with the same source and Where.
	Since *time.Time `json:"since,omitempty"`
}

// timeline returns the events of all sources by time. Events at nearly the same time may be in the wrong
// order, because the clocks of the servers differ.
func timeline(parts []storyPart) []event {
	out, written := []event{}, map[string]bool{}
	for i := range parts {
		for _, w := range parts[i].Written {
			written[w.ID] = true
		}
	}
	for i := range parts {
		out = append(out, parts[i].events(written)...)
	}
	slices.SortStableFunc(out, func(a, b event) int { return a.At.Compare(b.At) })
	last := map[[2]string]*event{}
	for i := range out {
		e := &out[i]
		place := [2]string{e.Source, e.Where}
		if before := last[place]; before != nil {
			e.Since = &before.At
		}
		last[place] = e
	}
	return out
}

// events returns the events of one source. The argument fromOutbox has the messages that timeline has taken
// from an outbox. For these messages, events does not add a second "was published".
func (part *storyPart) events(fromOutbox map[string]bool) (out []event) {
	add := func(at *time.Time, what, where, grade string) {
		if at != nil && !at.IsZero() {
			out = append(out, event{At: *at, Source: part.Source, What: what, Where: where, Grade: grade})
		}
	}
	for i := range part.Sagas {
		s := &part.Sagas[i]
		part.sagaEvents(s, add)
	}
	for i := range part.Kept {
		if m := &part.Kept[i].Message; !fromOutbox[m.ID] {
			add(m.Time, m.Type+" was published", "topic "+m.Topic, "")
		}
		part.keptEvents(&part.Kept[i].Message, add)
	}
	part.finishedEvents(add)
	for i := range part.Quarantined {
		a := &part.Quarantined[i]
		add(&a.At, a.Type+" went into quarantine: "+a.Why, a.Consumer, "warn")
		add(a.Admitted, a.Type+" was admitted by "+a.By, a.Consumer, "")
		add(a.Taken, a.Type+" was taken", a.Consumer, "")
	}
	for i := range part.Steps {
		s := &part.Steps[i]
		what := fmt.Sprintf("step %s is %s", s.Step, s.State)
		if s.OutsideKey != "" {
			what += ", by a call outside under the key " + page.Cut(s.OutsideKey, 80)
		}
		add(&s.ChangedAt, what, s.Consumer, stepGrade(s.State))
	}
	return out
}

func (part *storyPart) sagaEvents(s *operate.SagaProgress,
	add func(at *time.Time, what, where, grade string)) {
	if s.Style == operate.Orchestrated {
		add(&s.Started, "started", "saga "+s.Name, "")
		for i := range s.Steps {
			step := &s.Steps[i]
			what, grade := "step "+step.Name+" is "+step.Outcome, ""
			if step.Attempts > 0 {
				what, grade = fmt.Sprintf("%s, failed %s: %s", what, page.Times(step.Attempts),
					page.Cut(page.FirstLine(step.Error), 200)), "warn"
			}
			add(step.At, what, "saga "+s.Name, grade)
			for j := range step.Failures {
				f := &step.Failures[j]
				add(&f.At, f.Text(step.Name)+": "+page.Cut(page.FirstLine(f.Error), 200), "saga "+s.Name,
					"warn")
			}
			if step.Stuck {
				add(&s.Changed, "step "+step.Name+" is stuck: "+page.Cut(page.FirstLine(step.Error), 200),
					"saga "+s.Name, "bad")
			}
		}
		add(s.Ended, "ended: "+s.State, "saga "+s.Name, "")
		return
	}
	for i := range s.Steps {
		add(s.Steps[i].At, s.Steps[i].Name+" came", "flow "+s.Name, "")
	}
	if s.Overdue {
		add(s.Due, "overdue: "+waitsFor(s), "flow "+s.Name, "bad")
	}
}

func (part *storyPart) keptEvents(m *operate.Message, add func(at *time.Time, what, where, grade string)) {
	add(&m.Since, m.Type+" was parked", m.Consumer, "")
	for i := range m.Failures {
		f := &m.Failures[i]
		add(&f.At, fmt.Sprintf("%s failed on %s: %s", m.Type, f.Host, page.Cut(page.FirstLine(f.Error), 200)),
			m.Consumer, "warn")
	}
	add(m.DeadAt, m.Type+" became a dead letter: "+m.Kind, m.Consumer, "bad")
}

func stepGrade(state string) string {
	switch state {
	case "dead", "dropped":
		return "bad"
	case "parked", "calling":
		return "warn"
	}
	return ""
}
