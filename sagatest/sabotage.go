package sagatest

import (
	"context"
	"slices"
	"sync"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/broker"
	"github.com/skald-go/skald/store"
)

// Each function in this file removes one safeguard, to show its purpose to auditors, tests and readers.

// NoMark returns d without marks and steps. A consumer then does not detect which messages it has handled,
// nor which steps took effect, so it undoes all steps. It still detects parked messages and dead letters.
func NoMark[TTx any](d store.Driver[TTx]) store.Driver[TTx] { return &unmarked[TTx]{d} }

type unmarked[TTx any] struct{ store.Driver[TTx] }

func (d *unmarked[TTx]) Begin(ctx context.Context, in store.Intake) (store.Unit[TTx], error) {
	if len(in.Marks) == 1 && in.Marks[0].Source == "" {
		return d.Driver.Begin(ctx, in) // a key of once.Do or of an HTTP endpoint, not a message
	}
	found, err := d.verdicts(ctx, in.Marks)
	if err != nil {
		return nil, err
	}
	steps := make([]store.Step, len(in.Steps))
	for i := range steps {
		if in.Steps[i].State == store.StepUndone {
			steps[i].State = store.StepDone
		}
	}
	in.Marks, in.Steps = nil, nil
	u, err := d.Driver.Begin(ctx, in)
	if err != nil {
		return nil, err
	}
	return &unmarkedUnit[TTx]{u, found, steps}, nil
}

// verdicts returns the verdicts on arriving messages without marks. It locks no rows, so another process
// may park a message immediately afterwards.
func (d *unmarked[TTx]) verdicts(ctx context.Context, marks []store.Mark) ([]store.Verdict, error) {
	found := make([]store.Verdict, len(marks))
	for i, m := range marks {
		if m.KeyOrder != store.Arriving {
			continue
		}
		list, err := store.ListParked(ctx, d, store.ParkedQuery{Consumer: m.Consumer, Identity: &m.Identity,
			Bare: true, Limit: 1})
		if err == nil && len(list) == 0 && m.Key != nil {
			found[i].Outcome, err = d.keyOutcome(ctx, m)
		}
		switch {
		case err != nil:
			return nil, err
		case len(list) == 0:
		case list[0].Dead != nil:
			found[i].Outcome = store.Dead
		default:
			found[i].Outcome = store.Waiting
		}
	}
	return found, nil
}

// keyOutcome returns Behind if earlier messages with the same key block the message, or else Fresh.
func (d *unmarked[TTx]) keyOutcome(ctx context.Context, m store.Mark) (store.Outcome, error) {
	list, err := store.ListParked(ctx, d, store.ParkedQuery{Consumer: m.Consumer, Key: m.Key, Bare: true,
		Limit: 100})
	if slices.ContainsFunc(list, func(p store.Parked) bool { return p.Dead == nil || p.Dead.BlocksKey }) {
		return store.Behind, err
	}
	return store.Fresh, err
}

func (d *unmarked[TTx]) Seen(_ context.Context, _ string, ids []store.Identity) ([]store.Verdict, error) {
	return make([]store.Verdict, len(ids)), nil
}

func (d *unmarked[TTx]) Apply(ctx context.Context, es ...store.Effect) ([]bool, error) {
	return d.Driver.Apply(ctx, changed(es, dropMark)...)
}

type unmarkedUnit[TTx any] struct {
	store.Unit[TTx]
	marks []store.Verdict
	steps []store.Step
}

func (u *unmarkedUnit[TTx]) Found() store.Found {
	f := u.Unit.Found()
	f.Marks, f.Steps = u.marks, u.steps
	f.Follows = false // CommitThen would use the driver's own Begin, with marks
	return f
}

func (u *unmarkedUnit[TTx]) CommitThen(ctx context.Context, _ store.Intake,
	es ...store.Effect) (store.Unit[TTx], error) {
	return nil, u.Commit(ctx, es...)
}

func (u *unmarkedUnit[TTx]) Commit(ctx context.Context, es ...store.Effect) error {
	return u.Unit.Commit(ctx, changed(es, dropMark)...)
}

func (u *unmarkedUnit[TTx]) Rollback(ctx context.Context, instead ...store.Effect) ([]bool, error) {
	return u.Unit.Rollback(ctx, changed(instead, dropMark)...)
}

func dropMark(e *store.Effect) { e.Mark, e.Step = nil, nil }

// changed returns a copy of es in which the function change has changed each effect.
func changed(es []store.Effect, change func(*store.Effect)) []store.Effect {
	es = slices.Clone(es)
	for i := range es {
		change(&es[i])
	}
	return es
}

// AckFirst returns b with acknowledgements before handling, like a consumer with auto-commit. If the process
// dies, messages in progress are lost. The consumer ignores the positions in the database, because they would
// bring these messages back.
func AckFirst(b broker.Broker) broker.Broker { return hasty{b} }

type hasty struct{ broker.Broker }

func (h hasty) Subscribe(ctx context.Context, g broker.Group) (broker.Subscription, error) {
	g.Resume = nil
	s, err := h.Broker.Subscribe(ctx, g)
	if err != nil {
		return nil, err
	}
	return hastySubscription{s}, nil
}

type hastySubscription struct{ broker.Subscription }

func (s hastySubscription) Receive(ctx context.Context, most int) (broker.Batch, error) {
	b, err := s.Subscription.Receive(ctx, most)
	if err == nil && len(b.Deliveries) > 0 {
		_ = s.Subscription.Ack(ctx, b.Deliveries) // such code usually ignores the error
	}
	return b, err
}

func (s hastySubscription) Ack(context.Context, []broker.Delivery) error { return nil }

// DualWrite returns d without an outbox, as most services are written. It publishes a handler's messages
// after the commit, and messages in a caller's own transaction when they are written. It ignores failed
// publishes. The argument source is the source of the messages, which the database would set otherwise. A
// crash before a publish loses messages. Messages of a transaction that is rolled back are published.
func DualWrite[TTx any](d store.Driver[TTx], bus broker.Publisher, source string) store.Driver[TTx] {
	return &dual[TTx]{Driver: d, bus: bus, source: source, units: map[any]*dualUnit[TTx]{}}
}

type dual[TTx any] struct {
	store.Driver[TTx]
	bus    broker.Publisher
	source string
	mu     sync.Mutex
	units  map[any]*dualUnit[TTx] // by transaction
}

func (d *dual[TTx]) Begin(ctx context.Context, in store.Intake) (store.Unit[TTx], error) {
	inner, err := d.Driver.Begin(ctx, in)
	if err != nil {
		return nil, err
	}
	u := &dualUnit[TTx]{Unit: inner, d: d}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.units[any(inner.Tx())] = u
	return u, nil
}

func (d *dual[TTx]) Write(ctx context.Context, tx TTx, es ...store.Effect) error {
	rows := rowsOf(es)
	d.mu.Lock()
	u := d.units[any(tx)]
	d.mu.Unlock()
	if u != nil {
		u.messages = append(u.messages, rows...)
		return nil
	}
	d.publish(ctx, rows)
	return nil
}

func (d *dual[TTx]) Apply(ctx context.Context, es ...store.Effect) ([]bool, error) {
	stored, err := d.Driver.Apply(ctx, changed(es, dropRows)...)
	d.publish(ctx, storedRows(es, stored, err))
	return stored, err
}

func dropRows(e *store.Effect) { e.Rows = nil }

func rowsOf(es []store.Effect) (rows []skald.Message) {
	for _, e := range es {
		rows = append(rows, e.Rows...)
	}
	return rows
}

// storedRows returns the rows of the effects that were stored.
func storedRows(es []store.Effect, stored []bool, err error) (rows []skald.Message) {
	for i, e := range es {
		if err == nil && i < len(stored) && stored[i] {
			rows = append(rows, e.Rows...)
		}
	}
	return rows
}

func (d *dual[TTx]) publish(ctx context.Context, ms []skald.Message) {
	if len(ms) == 0 {
		return
	}
	for i := range ms {
		ms[i].Source = d.source
	}
	_ = d.bus.Publish(ctx, ms).Wait(ctx) // the error is ignored: the transaction is committed already
}

type dualUnit[TTx any] struct {
	store.Unit[TTx]
	d        *dual[TTx]
	messages []skald.Message
}

func (u *dualUnit[TTx]) ended() {
	u.d.mu.Lock()
	defer u.d.mu.Unlock()
	delete(u.d.units, any(u.Unit.Tx()))
}

func (u *dualUnit[TTx]) Found() store.Found {
	f := u.Unit.Found()
	f.Follows = false // CommitThen would use the driver's own Begin
	return f
}

func (u *dualUnit[TTx]) CommitThen(ctx context.Context, _ store.Intake,
	es ...store.Effect) (store.Unit[TTx], error) {
	return nil, u.Commit(ctx, es...)
}

func (u *dualUnit[TTx]) Commit(ctx context.Context, es ...store.Effect) error {
	u.ended()
	if err := u.Unit.Commit(ctx, changed(es, dropRows)...); err != nil {
		return err
	}
	u.d.publish(ctx, append(u.messages, rowsOf(es)...))
	return nil
}

func (u *dualUnit[TTx]) Rollback(ctx context.Context, instead ...store.Effect) ([]bool, error) {
	u.ended()
	stored, err := u.Unit.Rollback(ctx, changed(instead, dropRows)...)
	u.d.publish(ctx, storedRows(instead, stored, err))
	return stored, err
}
