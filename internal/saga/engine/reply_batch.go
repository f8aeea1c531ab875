// This file applies participants' replies to their sagas in memory. It locks and writes nothing.

package engine

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/internal/saga/plan"
	"github.com/skald-go/skald/internal/sagarow"
	"github.com/skald-go/skald/internal/telemetry"
	"github.com/skald-go/skald/store"
)

// foreign and orphan are outcomes of replies, in addition to those of events.
const (
	foreign plan.Outcome = "foreign" // the message is no reply to a saga
	orphan  plan.Outcome = "orphan"  // the reply's saga or command is unknown
)

// reply is one reply of a batch, and its outcome.
type reply struct {
	Message skald.Message
	Out     plan.Outcome

	at int    // index in the batch
	id string // of the saga, or "" if only its key is known; then the message need not name its command
}

// replyGroup has the replies of a batch to one saga, in order.
type replyGroup struct {
	Name, Key string
	Saga      store.Saga
	Alarms    []plan.Action  // alarms that the replies caused
	Changes   []change       // of the saga's runs, in the order of the replies
	Back      *plan.Cause    // why the replies turned the saga back, or nil
	Effects   []store.Effect // empty if no reply had an effect

	d       *Definition // nil if this build has no definition with this name
	state   plan.State  // after the replies
	now     time.Time   // by the store's clock
	replies []*reply
}

// newGroup returns a replyGroup with one message to the saga of a key.
func newGroup(d *Definition, key string, m skald.Message) (*replyGroup, *reply) {
	r := &reply{Message: m}
	return &replyGroup{Name: d.Name, Key: key, d: d, replies: []*reply{r}}, r
}

// First returns the index in the batch of the first reply.
func (g *replyGroup) First() int { return g.replies[0].at }

// sort groups replies by saga. It orders the sagas by name and key, so that engines that lock the same sagas
// cannot deadlock.
func sort(book *book, ms []skald.Message) (all []reply, groups []*replyGroup) {
	all = make([]reply, len(ms))
	known := map[store.SagaRef]*replyGroup{}
	for i, m := range ms {
		r := &all[i]
		*r = reply{Message: m, Out: foreign, at: i}
		name, key, id, ok := parse(m.CorrelationID)
		if !ok {
			continue
		}
		r.id = id
		to := known[store.SagaRef{Name: name, Key: key}]
		if to == nil {
			to = &replyGroup{Name: name, Key: key, d: book.Named(name)}
			known[store.SagaRef{Name: name, Key: key}] = to
			groups = append(groups, to)
		}
		to.replies = append(to.replies, r)
	}
	slices.SortFunc(groups, func(a, b *replyGroup) int {
		return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.Key, b.Key))
	})
	return all, groups
}

// msgContext returns a context for the handling of m, with the message and its trace. An inbox that handles
// a batch does not put the messages into the context.
func msgContext(ctx context.Context, m skald.Message) context.Context {
	if telemetry.TraceParent(ctx) == "" {
		ctx = telemetry.Remote(ctx, m.TraceParent)
	}
	return skald.WithCause(ctx, m)
}

// Take applies the replies of a replyGroup to the saga in row s, in order.
func (g *replyGroup) Take(ctx context.Context, s store.Saga, exists bool, book *book,
	clock *storeClock) error {
	if g.d == nil {
		return g.unknown(s, exists)
	}
	t := &taking{book: book, clock: clock, d: g.d, s: s}
	for _, r := range g.replies {
		if r.Out = orphan; !exists || r.id != "" && r.id != s.ID {
			continue
		}
		if err := t.take(msgContext(ctx, r.Message), r); err != nil {
			return &fault{r.at, err}
		}
	}
	if !t.moved {
		return nil
	}
	st := t.course.State()
	m, err := sagarow.ReleaseMove(s, st, t.now, len(t.p.Pending(st)) > 0)
	if err != nil {
		return err
	}
	m = sagarow.LeaveToOthers(m)
	g.Saga, g.Changes, g.Alarms, g.Effects = s, t.changes, t.course.Told(), []store.Effect{{Saga: &m}}
	g.Back, g.state, g.now = turnCause(t.st, st), st, t.now
	return nil
}

// unknown handles replies to a saga whose definition this build does not have. If the saga is in this
// database, it returns an error that leaves the reply to another build. Otherwise the reply is for another
// service, and is ignored.
func (g *replyGroup) unknown(s store.Saga, exists bool) error {
	for _, r := range g.replies {
		if exists && r.id == s.ID {
			return &fault{r.at,
				skald.UnknownVersion(fmt.Errorf("this build has no definition of the saga %s %q: "+
					"the reply is left to one that has", g.Name, g.Key))}
		}
	}
	return nil
}

// fault is the error of one reply of a batch.
type fault struct {
	At  int
	Err error
}

func (e *fault) Error() string { return e.Err.Error() }
func (e *fault) Unwrap() error { return e.Err }
