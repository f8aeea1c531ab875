package flow

import (
	"cmp"
	"slices"
	"strings"
	"time"
)

// Limits of the row of a saga: identities of each kind of event, kinds of events that the flow does not
// declare, and keys of messages.
const (
	maxIDs   = 8
	maxDrift = 16
	maxKeys  = 8
)

// ID is the identity of a message.
type ID struct {
	Source string `json:"source"`
	ID     string `json:"id"`
}

func (i ID) compare(j ID) int {
	return cmp.Or(cmp.Compare(i.Source, j.Source), cmp.Compare(i.ID, j.ID))
}

// Step is a kind of event with its recorded messages.
type Step struct {
	Name
	// At is the time of the first message: its own time, or the time of its arrival if that was earlier.
	At   time.Time `json:"at"`
	IDs  []ID      `json:"messages"`       // the smallest identities, at most 8
	More bool      `json:"more,omitempty"` // there were more messages
}

// record has all recorded events of a saga. Merging messages is commutative, associative and idempotent. This
// is also true at the limits, because each set keeps its smallest members.
type record struct {
	Steps []Step   `json:"steps"` // ordered by name
	Drift bool     `json:"more_drift,omitempty"`
	Keys  [][]byte `json:"keys,omitempty"` // keys of the messages
	// Trace is the trace ID of the earliest message that has one. TraceAt is the time of that message,
	// computed like Step.At.
	Trace   string    `json:"trace,omitempty"`
	TraceAt time.Time `json:"trace_at,omitzero"`
	// Asks has the events that request undos, ordered by name and identity of the step's message.
	Asks []question `json:"asks,omitempty"`
}

// add merges one message into r.
func (r *record) add(f *Flow, n Name, id ID, key []byte, at time.Time) {
	i, there := slices.BinarySearchFunc(r.Steps, n, func(s Step, n Name) int { return s.Name.compare(n) })
	if !there {
		r.Steps = slices.Insert(r.Steps, i, Step{Name: n, At: at})
	}
	s := &r.Steps[i]
	if at.Before(s.At) {
		s.At = at
	}
	var more bool
	s.IDs, more = smallest(s.IDs, id, maxIDs, ID.compare)
	s.More = s.More || more
	if key != nil {
		r.Keys, _ = smallest(r.Keys, key, maxKeys, slices.Compare[[]byte])
	}
	r.bound(f)
}

// times counts the recorded messages of these kinds.
func (r *record) times(names ...Name) (n int) {
	for _, name := range names {
		s, _ := r.find(name)
		n += len(s.IDs)
	}
	return n
}

// trace merges the trace of a message into r. It keeps the trace of the earliest message.
func (r *record) trace(parent string, at time.Time) {
	id := TraceOf(parent)
	if id == "" {
		return
	}
	if r.Trace == "" || cmp.Or(at.Compare(r.TraceAt), cmp.Compare(id, r.Trace)) < 0 {
		r.Trace, r.TraceAt = id, at
	}
}

// TraceOf returns the trace ID of a W3C traceparent. It returns "" if parent is invalid.
func TraceOf(parent string) string {
	parts := strings.Split(parent, "-")
	if len(parts) < 4 || len(parts[1]) != 32 || strings.Trim(parts[1], "0123456789abcdef") != "" ||
		strings.Trim(parts[1], "0") == "" {
		return ""
	}
	return parts[1]
}

// bound removes the last name that the flow does not declare, if there are more than maxDrift.
func (r *record) bound(f *Flow) {
	known, last, n := f.Events(), -1, 0
	for i, s := range r.Steps {
		if !slices.Contains(known, s.Name) {
			last, n = i, n+1
		}
	}
	if n > maxDrift {
		r.Steps, r.Drift = slices.Delete(r.Steps, last, last+1), true
	}
}

// smallest adds v to the sorted set of members, and keeps at most limit members. It returns removed=true if
// it removed one of the members.
func smallest[T any](members []T, v T, limit int, compare func(a, b T) int) (out []T, removed bool) {
	i, there := slices.BinarySearchFunc(members, v, compare)
	if !there {
		members = slices.Insert(members, i, v)
	}
	if len(members) > limit {
		return members[:limit], true
	}
	return members, false
}

// inTime returns the events, ordered by time.
func (r *record) inTime() []Step {
	steps := slices.Clone(r.Steps)
	slices.SortStableFunc(steps, func(a, b Step) int { return cmp.Or(a.At.Compare(b.At), a.compare(b.Name)) })
	return steps
}

func (r *record) find(n Name) (Step, bool) {
	i, there := slices.BinarySearchFunc(r.Steps, n, func(s Step, n Name) int { return s.Name.compare(n) })
	if !there {
		return Step{}, false
	}
	return r.Steps[i], true
}

func (r *record) has(n Name) bool {
	_, there := r.find(n)
	return there
}

// recorded returns those of the names that are recorded.
func (r *record) recorded(names []Name) (out []Name) {
	for _, n := range names {
		if r.has(n) && !slices.Contains(out, n) {
			out = append(out, n)
		}
	}
	return out
}
