// This file encodes the state and the origin of a saga as JSON. It also computes the status and the time at
// which a saga is due.

package sagarow

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/skald-go/skald/internal/saga/plan"
	"github.com/skald-go/skald/store"
)

// Origin has the message, the trace and the parent from which a saga was started. It never changes.
type Origin struct {
	Correlation string    `json:"correlation,omitempty"` // of the message that started the saga
	Causation   string    `json:"causation,omitempty"`   // id of that message
	Trace       string    `json:"trace,omitempty"`       // W3C trace context
	Parent      *Ancestor `json:"parent,omitempty"`
	Root        *Ancestor `json:"root,omitempty"` // the topmost ancestor, if it is not Parent
}

// Ancestor is a saga, with its step that started a child.
type Ancestor struct {
	Name       string `json:"name"`
	Key        string `json:"key"`
	ID         string `json:"id"`
	Step       string `json:"step"`
	Occurrence string `json:"occurrence,omitempty"`
}

// Top returns the topmost ancestor, or nil if the saga has no parent.
func (o Origin) Top() *Ancestor {
	if o.Root != nil {
		return o.Root
	}
	return o.Parent
}

// Encode returns o as JSON.
func (o Origin) Encode() string {
	text, _ := json.Marshal(o) // cannot fail: all fields are texts
	return string(text)
}

// OriginOf decodes the origin of a saga.
func OriginOf(s store.Saga) (o Origin, err error) {
	if s.Origin == "" {
		return o, nil
	}
	if err := json.Unmarshal([]byte(s.Origin), &o); err != nil {
		return o, fmt.Errorf("read the origin of the saga %s %q: %w", s.Name, s.Key, err)
	}
	return o, nil
}

// StateOf decodes the state of a saga. It corrects times that the starting process computed with its own
// clock, so that they count from the start by the database's clock: the deadline, and waits that began at the
// start. If deadline is 0, the stored deadline stays.
func StateOf(s store.Saga, deadline time.Duration) (st plan.State, err error) {
	if err := json.Unmarshal([]byte(s.State), &st); err != nil {
		return st, fmt.Errorf("read the state of the saga %s %q: %w", s.Name, s.Key, err)
	}
	return Dated(s, st, deadline), nil
}

// Dated returns the state st of s with the times that StateOf computes.
func Dated(s store.Saga, st plan.State, deadline time.Duration) plan.State {
	if !st.Deadline.IsZero() && !s.Started.IsZero() && deadline > 0 {
		st.Deadline = s.Started.Add(deadline)
	}
	if s.Started.IsZero() || !s.Changed.Equal(s.Started) {
		return st
	}
	st.Runs = slices.Clone(st.Runs)
	for i := range st.Runs { // At has the start by the other clock
		r := &st.Runs[i]
		if off := s.Started.Truncate(time.Millisecond).Sub(r.At); !r.At.IsZero() && !r.Due.IsZero() {
			r.At, r.Due = r.At.Add(off), r.Due.Add(off)
		}
	}
	return st
}

// EncodeState returns a state as JSON. It shortens a large state with Lean. It returns a *plan.TooLargeError
// if the state is still too large.
func EncodeState(st plan.State) (string, error) {
	text, err := json.Marshal(st)
	if err == nil && len(text) > plan.MaxState {
		text, err = json.Marshal(st.Lean())
	}
	switch {
	case err != nil:
		return "", fmt.Errorf("encode the state of the saga %s: %w", st.ID, err)
	case len(text) > plan.MaxState:
		return "", &plan.TooLargeError{Bytes: len(text)}
	}
	return string(text), nil
}

// MoveTo returns the update that replaces the state of s by st. It does not change the lease: see Released.
func MoveTo(s store.Saga, st plan.State, now time.Time) (store.SagaUpdate, error) {
	text, err := EncodeState(st)
	if err != nil {
		return store.SagaUpdate{}, err
	}
	return store.SagaUpdate{SagaRef: Ref(s), State: text, SagaStatus: NextStatus(s.SagaStatus, st, now),
		Final: st.Status.Final()}, nil
}

// Released returns m, changed so that it ends the lease. If soon is true, the saga is then due immediately.
// Otherwise it is due at the next time of st.
func Released(m store.SagaUpdate, st plan.State, now time.Time, soon bool) store.SagaUpdate {
	m.Release, m.Wake = true, -1
	switch next := st.Next(); {
	case m.Final:
	case soon:
		m.Wake = 0
	case !next.IsZero():
		m.Wake = max(0, next.Sub(now))
	}
	return m
}

// ReleaseMove returns the update that replaces the state of s by st and ends the lease.
func ReleaseMove(s store.Saga, st plan.State, now time.Time, soon bool) (store.SagaUpdate, error) {
	m, err := MoveTo(s, st, now)
	if err != nil {
		return m, err
	}
	return Released(m, st, now, soon), nil
}

// LeaveToOthers returns m without the end of the saga. An engine then ends the saga in another commit,
// because it must also notify the parent and the callers that wait.
func LeaveToOthers(m store.SagaUpdate) store.SagaUpdate {
	if m.Final {
		m.Final, m.Wake = false, 0
	}
	return m
}

// Ref returns the name, key and version of s.
func Ref(s store.Saga) store.SagaRef {
	return store.SagaRef{Name: s.Name, Key: s.Key, Version: s.Version}
}

// WasLeft reports whether a build left the saga to another build. In this case Error and Since describe that.
func WasLeft(s store.SagaStatus) bool { return strings.HasPrefix(s.Error, LeftToOthers) }

// NextStatus returns the status of a saga with the state st. The argument previous is its previous status.
func NextStatus(previous store.SagaStatus, st plan.State, now time.Time) store.SagaStatus {
	out := store.SagaStatus{Status: string(st.Status), Stuck: st.Stuck(), Paused: st.Paused}
	if st.Status.Final() {
		return out
	}
	at := -1
	for i, r := range st.Runs {
		if ends(r.Phase) {
			continue
		}
		if at < 0 || worse(r, st.Runs[at]) {
			at = i
		}
		waits := r.Phase != plan.Waiting && r.Phase != plan.Undoing
		if waits && !r.Stuck && !r.Due.IsZero() && (out.Retry.IsZero() || r.Due.Before(out.Retry)) {
			out.Retry = r.Due
		}
	}
	if at < 0 {
		return out
	}
	r := st.Runs[at]
	out.Step, out.Error, out.Failed = cut(StepName(r.Step, r.Occurrence)), r.Error, r.Attempts+r.Free.Times
	if r.Error != "" {
		if out.Since = previous.Since; out.Since.IsZero() || WasLeft(previous) {
			out.Since = now
		}
	}
	return out
}

// StepName returns the name of a step with its occurrence, such as "pack/line-1", for logs and lists.
func StepName(step, occurrence string) string {
	if occurrence == "" {
		return step
	}
	return step + "/" + occurrence
}

// cut returns s, cut to the length of a stored step name.
func cut(s string) string { return strings.ToValidUTF8(s[:min(len(s), 255)], "") }

func ends(p plan.Phase) bool {
	switch p {
	case plan.Deciding, plan.Ready, plan.Waiting, plan.Undo, plan.Undoing:
		return false
	}
	return true
}

// worse reports whether the status of a saga should name the run a rather than b.
func worse(a, b plan.Run) bool {
	if a.Stuck != b.Stuck {
		return a.Stuck
	}
	return a.Error != "" && b.Error == ""
}
