package flow

import (
	"cmp"
	"slices"
	"strings"
	"time"
)

// What is kept of one saga at most: identities of each kind of event, kinds that the flow does not know, and
// keys of messages.
const (
	maxIDs   = 8
	maxDrift = 16
	maxKeys  = 8
)

// An ID is the identity of a message.
type ID struct {
	Source string `json:"source"`
	ID     string `json:"id"`
}

func (i ID) compare(j ID) int {
	return cmp.Or(cmp.Compare(i.Source, j.Source), cmp.Compare(i.ID, j.ID))
}

// A Step is what was seen of one kind of event.
type Step struct {
	Name
	// when the first of them was written, or came, whichever was earlier
	At   time.Time `json:"at"`
	IDs  []ID      `json:"messages"`       // at most 8, the smallest
	More bool      `json:"more,omitempty"` // there were others
}

// A record is all that was seen of a saga. Merging is commutative, associative and idempotent, with its
// bounds, too: of a set the smallest members stay.
type record struct {
	Steps []Step   `json:"steps"` // by name
	Drift bool     `json:"more_drift,omitempty"`
	Keys  [][]byte `json:"keys,omitempty"` // of the messages
	// Trace is the id of the first message's trace, and TraceAt when that message was written, or came.
	Trace   string    `json:"trace,omitempty"`
	TraceAt time.Time `json:"trace_at,omitzero"`
	// Asks are the events that ask for undos, one of each identity of Steps, by name and identity.
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

// times is how many messages of these kinds were seen, as far as they are kept.
func (r *record) times(names ...Name) (n int) {
	for _, name := range names {
		s, _ := r.find(name)
		n += len(s.IDs)
	}
	return n
}

// trace merges the trace of a message into r: that of the earliest one stays.
func (r *record) trace(parent string, at time.Time) {
	id := TraceOf(parent)
	if id == "" {
		return
	}
	if r.Trace == "" || cmp.Or(at.Compare(r.TraceAt), cmp.Compare(id, r.Trace)) < 0 {
		r.Trace, r.TraceAt = id, at
	}
}

// TraceOf is the trace id of a traceparent of W3C; "": it has none.
func TraceOf(parent string) string {
	parts := strings.Split(parent, "-")
	if len(parts) < 4 || len(parts[1]) != 32 || strings.Trim(parts[1], "0123456789abcdef") != "" ||
		strings.Trim(parts[1], "0") == "" {
		return ""
	}
	return parts[1]
}

// bound lets go of the largest name of those that the flow does not know, if they are too many.
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

// smallest is the set with v, of which at most most members stay.
func smallest[T any](set []T, v T, most int, compare func(a, b T) int) (out []T, more bool) {
	i, there := slices.BinarySearchFunc(set, v, compare)
	if !there {
		set = slices.Insert(set, i, v)
	}
	if len(set) > most {
		return set[:most], true
	}
	return set, false
}

// inTime are the events by their time.
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

// of are those of names that were seen.
func (r *record) of(names []Name) (out []Name) {
	for _, n := range names {
		if r.has(n) && !slices.Contains(out, n) {
			out = append(out, n)
		}
	}
	return out
}
