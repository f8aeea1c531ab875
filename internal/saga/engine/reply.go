package engine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/internal/saga/body"
	"github.com/skald-go/skald/internal/saga/engine/internal/attempt"
	"github.com/skald-go/skald/internal/saga/engine/internal/tally"
	"github.com/skald-go/skald/internal/saga/plan"
	"github.com/skald-go/skald/internal/saga/stored"
	"github.com/skald-go/skald/internal/telemetry"
	"github.com/skald-go/skald/store"
)

// A Kind is a topic and a type of replies.
type Kind struct{ Topic, Type string }

// Replies are the kinds of messages that participants reply with.
func (e *Engine[TTx]) Replies() (out []Kind) {
	for _, d := range e.defs {
		for i := range d.Steps {
			for _, c := range []*body.Command{d.Steps[i].Command, d.Steps[i].Undo} {
				if c == nil {
					continue
				}
				for _, r := range append([]body.Reply{c.Done}, c.Refused...) {
					if k := (Kind{r.Topic, r.Type}); !slices.Contains(out, k) {
						out = append(out, k)
					}
				}
			}
		}
	}
	slices.SortFunc(out,
		func(a, b Kind) int { return cmp.Or(cmp.Compare(a.Topic, b.Topic), cmp.Compare(a.Type, b.Type)) })
	return out
}

// Outcomes of replies, beside those of events.
const (
	Foreign plan.Outcome = "foreign" // it answers no command of a saga
	Orphan  plan.Outcome = "orphan"  // its saga, or its command, is not known
)

// A reply is one of a batch, and what becomes of it.
type reply struct {
	at  int // its place in the batch
	m   skald.Message
	id  string // of the saga; "": only the key is known, and the message need not name its command
	out plan.Outcome
}

// A mail is the replies of a batch to one saga, in their order.
type mail struct {
	name    string
	d       *body.Definition // nil: this build has none of the name
	key     string
	replies []*reply
	saga    store.Saga
	told    []plan.Action
	changes []tally.Change // of the saga's runs, one reply after the other
	effects []store.Effect // none: no reply counts
}

// A replyError is the error of one reply of a batch.
type replyError struct {
	at  int
	err error
}

func (e *replyError) Error() string { return e.err.Error() }
func (e *replyError) Unwrap() error { return e.err }

// ReplyAll takes participants' replies into their sagas, in the transaction of an inbox. Each saga is locked,
// read and written once, however many replies it gets. What they came to is counted, and logged where they
// did not count: that is no failure, and not tried again. With an error nothing is counted, and guilty is the
// first reply that has one of its own; -1: it is none's.
func (e *Engine[TTx]) ReplyAll(ctx context.Context, tx TTx, ms []skald.Message) (guilty int, err error) {
	all, mails := e.sort(ms)
	var fault *replyError
	for _, to := range mails {
		if fault != nil && to.replies[0].at > fault.at {
			continue
		}
		err := e.open(ctx, tx, to)
		if own := (*replyError)(nil); errors.As(err, &own) {
			if fault == nil || own.at < fault.at {
				fault = own
			}
		} else if err != nil {
			return -1, err
		}
	}
	if fault != nil {
		return fault.at, fault.err
	}
	if err := e.deliver(ctx, tx, mails...); err != nil {
		return -1, err
	}
	for i := range all {
		r := &all[i]
		e.tally.Replied(r.out)
		if r.out == Foreign || r.out == plan.Repeat || r.out.Changed() {
			continue
		}
		name, key, _, _ := parse(r.m.CorrelationID)
		e.o.Logger.WarnContext(of(ctx, r.m), "saga: a reply does not count", "saga", name, "key", key,
			"outcome", string(r.out), "topic", r.m.Topic, "type", r.m.Type, "id", r.m.ID, "causation",
			r.m.CausationID)
	}
	return -1, nil
}

// sort puts replies to their sagas. These are in the order of their names and keys, so that of two engines
// that lock the same ones none has what the other waits for.
func (e *Engine[TTx]) sort(ms []skald.Message) (all []reply, mails []*mail) {
	all = make([]reply, len(ms))
	known := map[store.SagaRef]*mail{}
	for i, m := range ms {
		r := &all[i]
		*r = reply{at: i, m: m, out: Foreign}
		name, key, id, ok := parse(m.CorrelationID)
		if !ok {
			continue
		}
		r.id = id
		to := known[store.SagaRef{Name: name, Key: key}]
		if to == nil {
			to = &mail{name: name, d: e.defs[name], key: key}
			known[store.SagaRef{Name: name, Key: key}] = to
			mails = append(mails, to)
		}
		to.replies = append(to.replies, r)
	}
	slices.SortFunc(mails, func(a, b *mail) int {
		return cmp.Or(cmp.Compare(a.name, b.name), cmp.Compare(a.key, b.key))
	})
	return all, mails
}

// of is ctx for what is done about m. Who is given several messages at once has none of them there.
func of(ctx context.Context, m skald.Message) context.Context {
	if telemetry.TraceParent(ctx) == "" {
		ctx = telemetry.Remote(ctx, m.TraceParent)
	}
	return skald.WithCause(ctx, m)
}

// Answer takes a message as a reply to the saga of a key, whatever the message says of its cause.
func (e *Engine[TTx]) Answer(ctx context.Context, tx TTx, d *body.Definition, key string,
	m skald.Message) (plan.Outcome, error) {
	r := &reply{m: m}
	to := &mail{name: d.Name, d: d, key: key, replies: []*reply{r}}
	err := e.open(ctx, tx, to)
	if err == nil {
		err = e.deliver(ctx, tx, to)
	}
	if err != nil {
		return plan.Unknown, fmt.Errorf("take %s as a reply to %s %q: %w", m.Type, d.Name, key, err)
	}
	e.tally.Replied(r.out)
	return r.out, nil
}

// open locks the saga of a mail, and finds out what its replies come to: each by the state that the one
// before it has left.
func (e *Engine[TTx]) open(ctx context.Context, tx TTx, to *mail) error {
	s, there, err := e.lock(ctx, tx, to.name, to.key)
	if err != nil {
		return fmt.Errorf("lock the saga %s %q: %w", to.name, to.key, err)
	}
	if to.d == nil {
		return unknownSaga(s, there, to)
	}
	t := &taking[TTx]{e: e, d: to.d, s: s}
	for _, r := range to.replies {
		if r.out = Orphan; !there || r.id != "" && r.id != s.ID {
			continue
		}
		if err := t.take(of(ctx, r.m), r); err != nil {
			return &replyError{r.at, err}
		}
	}
	if !t.moved {
		return nil
	}
	m, err := released(s, t.p, t.course.State(), t.now)
	if err != nil {
		return err
	}
	m = left(m)
	to.saga, to.changes, to.told, to.effects = s, t.changes, t.course.Told(), []store.Effect{{Saga: &m}}
	return nil
}

// unknownSaga leaves replies to a saga of which this build has no definition to a build that has one. Those
// to a saga that is not in this database are another service's.
func unknownSaga(s store.Saga, there bool, to *mail) error {
	for _, r := range to.replies {
		if there && r.id == s.ID {
			return &replyError{r.at,
				skald.UnknownVersion(fmt.Errorf("this build has no definition of the saga %s %q: "+
					"the reply is left to one that has", to.name, to.key))}
		}
	}
	return nil
}

// deliver writes the sagas of mails.
func (e *Engine[TTx]) deliver(ctx context.Context, tx TTx, mails ...*mail) error {
	var es []store.Effect
	for _, to := range mails {
		es = append(es, to.effects...)
	}
	if len(es) == 0 {
		return nil
	}
	if err := e.db.Write(ctx, tx, es...); err != nil {
		return fmt.Errorf("write what %d sagas were replied: %w", len(es), err)
	}
	for _, to := range mails { // which may still be rolled back
		for _, c := range to.changes {
			e.tally.Ran(to.name, c)
		}
		e.tally.Alarms(to.saga, to.told)
	}
	e.kick() // it is seen once the caller has committed
	return nil
}

// A taking is a saga to which several replies come.
type taking[TTx any] struct {
	e       *Engine[TTx]
	d       *body.Definition
	s       store.Saga
	st      plan.State // as it was read
	sent    map[string]target
	names   plan.Mapping // of the saga's definition to d
	p       *plan.Plan
	course  *plan.Course // from the first reply that answers something
	now     time.Time
	moved   bool
	before  []plan.Run
	changes []tally.Change
}

func (t *taking[TTx]) take(ctx context.Context, r *reply) (err error) {
	if t.sent == nil {
		if t.st, err = stored.StateOf(t.s, 0); err != nil {
			return err
		}
		if t.p, err = t.e.planOf(ctx, t.s.Name, t.s.Hash); err != nil {
			return err
		}
		t.names = mapping(t.d, t.s.Hash)
		t.sent = t.commands()
	}
	st := t.st
	if t.course != nil {
		st = t.course.State()
	}
	to, ok, err := t.answers(r, st)
	if err != nil || !ok {
		return err
	}
	ev, err := to.event(ctx, r.m)
	if err != nil {
		return err
	}
	if err := body.Fits("the output of the step "+ev.Step, ev.Output, t.d.MaxBytes); err != nil &&
		ev.What == plan.Succeeded {
		ev = attempt.Without(ev, err)
	}
	if t.course == nil {
		t.now = t.e.clock.Now()
		t.course = t.p.Course(stored.Dated(t.s, t.st, t.p.Graph.Deadline), t.now)
	}
	was := t.course.State()
	t.before = append(t.before[:0], was.Runs...)
	was.Runs = t.before
	if r.out = t.course.Take(ev); r.out == plan.TooLarge { // it took effect, so it is done, and turned back
		r.out = t.course.Take(attempt.Without(ev, t.course.Large()))
	}
	if r.out.Changed() {
		t.moved = true
		t.changes = tally.Changed(t.changes, was, t.course.State())
	}
	return nil
}
