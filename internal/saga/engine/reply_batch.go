// This file finds out what participants' replies come to in their sagas. It locks and writes nothing.

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

// Outcomes of replies, beside those of events.
const (
	foreign plan.Outcome = "foreign" // it answers no command of a saga
	orphan  plan.Outcome = "orphan"  // its saga, or its command, is not known
)

// A reply is one of a batch, and what becomes of it.
type reply struct {
	Message skald.Message
	Out     plan.Outcome

	at int    // its place in the batch
	id string // of the saga; "": only the key is known, and the message need not name its command
}

// A mail is the replies of a batch to one saga, in their order.
type mail struct {
	Name, Key string
	Saga      store.Saga
	Told      []plan.Action
	Changes   []change       // of the saga's runs, one reply after the other
	Back      *plan.Cause    // why the saga turned back with them; nil: it did not
	Effects   []store.Effect // none: no reply counts

	d       *Definition // nil: this build has none of the name
	state   plan.State  // after the replies
	now     time.Time   // by the store's clock
	replies []*reply
}

// to is the mail of one message, that is taken as a reply to the saga of a key.
func to(d *Definition, key string, m skald.Message) (*mail, *reply) {
	r := &reply{Message: m}
	return &mail{Name: d.Name, Key: key, d: d, replies: []*reply{r}}, r
}

// First is the place in the batch of the first reply.
func (to *mail) First() int { return to.replies[0].at }

// sort puts replies to their sagas. These are in the order of their names and keys, so that of two engines
// that lock the same ones none has what the other waits for.
func sort(book *book, ms []skald.Message) (all []reply, mails []*mail) {
	all = make([]reply, len(ms))
	known := map[store.SagaRef]*mail{}
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
			to = &mail{Name: name, Key: key, d: book.Named(name)}
			known[store.SagaRef{Name: name, Key: key}] = to
			mails = append(mails, to)
		}
		to.replies = append(to.replies, r)
	}
	slices.SortFunc(mails, func(a, b *mail) int {
		return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.Key, b.Key))
	})
	return all, mails
}

// about is ctx for what is done about m. Who is given several messages at once has none of them there.
func about(ctx context.Context, m skald.Message) context.Context {
	if telemetry.TraceParent(ctx) == "" {
		ctx = telemetry.Remote(ctx, m.TraceParent)
	}
	return skald.WithCause(ctx, m)
}

// Take finds out what the replies of a mail come to in their saga, which was read as s: each by the state
// that the one before it has left.
func (to *mail) Take(ctx context.Context, s store.Saga, there bool, book *book,
	clock *storeClock) error {
	if to.d == nil {
		return to.unknown(s, there)
	}
	t := &taking{book: book, clock: clock, d: to.d, s: s}
	for _, r := range to.replies {
		if r.Out = orphan; !there || r.id != "" && r.id != s.ID {
			continue
		}
		if err := t.take(about(ctx, r.Message), r); err != nil {
			return &fault{r.at, err}
		}
	}
	if !t.moved {
		return nil
	}
	st := t.course.State()
	m, err := sagarow.GivenBack(s, st, t.now, len(t.p.Pending(st)) > 0)
	if err != nil {
		return err
	}
	m = sagarow.LeaveToOthers(m)
	to.Saga, to.Changes, to.Told, to.Effects = s, t.changes, t.course.Told(), []store.Effect{{Saga: &m}}
	to.Back, to.state, to.now = back(t.st, st), st, t.now
	return nil
}

// unknown leaves replies to a saga of which this build has no definition to a build that has one. Those
// to a saga that is not in this database are another service's.
func (to *mail) unknown(s store.Saga, there bool) error {
	for _, r := range to.replies {
		if there && r.id == s.ID {
			return &fault{r.at,
				skald.UnknownVersion(fmt.Errorf("this build has no definition of the saga %s %q: "+
					"the reply is left to one that has", to.Name, to.Key))}
		}
	}
	return nil
}

// A fault is the error of one reply of a batch.
type fault struct {
	At  int
	Err error
}

func (e *fault) Error() string { return e.Err.Error() }
func (e *fault) Unwrap() error { return e.Err }
