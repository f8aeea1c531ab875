package inbox

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/broker"
	"github.com/skald-go/skald/store"
)

// Unhandled is the class of a parked message whose type no build handles any more, and of the dead letter that it is then.
const Unhandled Class = "unhandled"

// ErrUnhandled is why such a message is a dead letter. Messages of its key go on behind it.
var ErrUnhandled = errors.New("inbox: no build handles this type any more; redrive it once one does, or drop it")

const (
	tellKinds  = time.Minute            // how often it is noted which types are handled
	kindsFresh = 250 * time.Millisecond // how old what is known of others' types may be where a message is skipped for it
	kindsLast  = 15 * time.Minute       // that somebody handles a type is believed for so long behind who noted it last
)

// A view is what is known of the types that other builds of the consumer handle. It belongs to the goroutine of Run or Step.
type view struct {
	others  map[kind]bool // and this build does not
	at      time.Time     // the read of it began
	fetches int           // there were when it began
	told    time.Time     // which types this build handles
	since   time.Time     // it was noted all the time: so what others did not note since, nobody handles
	unsure  bool          // it is not known whether that was noted
	again   bool          // it is to be read at once
	named   map[kind]bool // that were said aloud
}

// A roll is an errand: to note which types this build handles, and to read which ones others do.
type roll struct {
	own     []store.Kind
	forget  time.Duration
	began   time.Time
	fetches int
	all     []store.Kind // the answer
}

// handled are the types that this build handles.
func (in *Inbox[TTx]) handled() []store.Kind { return kindsOf(in.handlers) }

func kindsOf[V any](m map[kind]V) []store.Kind {
	out := make([]store.Kind, 0, len(m))
	for k := range m {
		out = append(out, store.Kind{Topic: k.topic, Type: k.name})
	}
	slices.SortFunc(out, func(a, b store.Kind) int { return cmp.Or(cmp.Compare(a.Topic, b.Topic), cmp.Compare(a.Type, b.Type)) })
	return out
}

// enroll notes which types this build handles, before it joins the group. Where others do not know yet that they are handled,
// Run waits until they must: from then on, nobody skips them.
func (in *Inbox[TTx]) enroll(ctx context.Context) error {
	r := roll{own: in.handled(), began: in.o.Now(), fetches: in.book.fetches}
	var err error
	if r.all, err = in.db.Kinds(ctx, in.group, r.own, 0); err != nil {
		in.view.unsure = true
		return fmt.Errorf("note which types are handled: %w", err)
	}
	news := in.view.unsure || slices.ContainsFunc(r.own, func(k store.Kind) bool { return !slices.Contains(r.all, k) })
	in.enrolled(r)
	if in.book.patient && len(r.all) > 0 && news && !sleep(ctx, 2*kindsFresh) {
		in.view.unsure = true
		return ctx.Err()
	}
	return nil
}

// roll is what is to be asked now about types; nil: nothing.
func (in *Inbox[TTx]) roll(now time.Time) *roll {
	v := &in.view
	tell := now.Sub(v.told) >= tellKinds
	if !tell && !v.again && !slices.ContainsFunc(in.book.waiting, in.undecided) {
		return nil
	}
	r := &roll{began: now, fetches: in.book.fetches}
	if v.again = false; tell {
		r.own = in.handled()
		if !v.since.IsZero() && now.Sub(v.since) >= kindsLast && !v.gap(now) {
			r.forget = kindsLast
		}
	}
	return r
}

// enrolled takes up what a roll found.
func (in *Inbox[TTx]) enrolled(r roll) {
	v := &in.view
	v.others = map[kind]bool{}
	for _, k := range r.all {
		if in.handlers[kind{k.Topic, k.Type}] == nil {
			v.others[kind{k.Topic, k.Type}] = true
		}
	}
	v.at, v.fetches, v.unsure = r.began, r.fetches, false
	if len(r.own) == 0 {
		return
	}
	if v.since.IsZero() || v.gap(r.began) { // others may have been stopped with us
		v.since = r.began
	}
	v.told = r.began
}

// gap tells whether it was not noted for a while, by either of two clocks: the one stands still while the machine is suspended, the
// other may be set.
func (v *view) gap(now time.Time) bool {
	return max(now.Sub(v.told), now.Round(0).Sub(v.told.Round(0))) > 3*tellKinds
}

// undecided tells whether it is not known of a delivery if it is to be skipped or left to others. It is skipped by what was read since
// it was received, or just before.
func (in *Inbox[TTx]) undecided(d broker.Delivery) bool {
	k, v := kind{d.Topic, d.Type}, &in.view
	if d.Fault != nil || in.handlers[k] != nil || v.others[k] || v.fetches == in.book.fetches {
		return false
	}
	return !in.book.patient || in.o.Now().Sub(v.at) >= kindsFresh
}

// others are the types that are left to others.
func (in *Inbox[TTx]) others() []store.Kind { return kindsOf(in.view.others) }

// skip is done with a message that no build handles; one that another build handles is taken, so as to be left to it.
func (in *Inbox[TTx]) skip(e *entry) {
	k := kind{e.Topic, e.Type}
	if e.foreign = in.view.others[k]; !e.foreign {
		e.done = true
		in.count(func(h *Health) { h.Skipped++ })
		in.tel.Count(e.Topic, "skipped")
		return
	}
	if !in.view.named[k] {
		in.view.named[k] = true
		in.o.Logger.Info("inbox: messages of a type that this build has no handler for are parked, for one that has", "consumer", in.group,
			"topic", k.topic, "type", k.name)
	}
}

// unhandled is for a message that this build has no handler for. From the broker: it is parked for a build that has one. One that was
// parked, and that nobody left to others, was claimed by mistake, or there is no such build any more.
func (in *Inbox[TTx]) unhandled(ctx context.Context, e *entry, end undo) result {
	err := fmt.Errorf("this build has no handler for %s of %s", e.Type, e.Topic)
	k := in.parcel(e)
	k.Last = store.Failure{At: in.o.Now(), Why: err.Error(), Host: in.o.Host}
	if e.parked == nil {
		return in.store(ctx, e, end, store.Effect{Keep: k}, result{entry: e, what: queued})
	}
	_, _ = end(ctx) // nothing was written
	all, failed := in.db.Kinds(ctx, in.group, nil, 0)
	switch {
	case failed != nil:
		return in.failure(ctx, e, in.db.Apply, fmt.Errorf("who handles %s of %s: %w", e.Type, e.Topic, failed))
	case slices.Contains(all, store.Kind{Topic: e.Topic, Type: e.Type}):
		return in.later(ctx, e, in.db.Apply, lookEvery, err)
	case !k.First.At.IsZero() || e.call != nil:
		return in.failure(ctx, e, in.db.Apply, skald.UnknownVersion(err))
	}
	err = fmt.Errorf("%w: %s of %s", ErrUnhandled, e.Type, e.Topic)
	k.Last.Why, k.First = err.Error(), k.Last
	k.Dead = in.death(string(Unhandled), Unhandled, e, err, k.Last.At)
	k.Dead.Holds = false
	return in.store(ctx, e, in.db.Apply, store.Effect{Keep: k, Rows: in.announcement(ctx, k)}, result{entry: e, what: dead, err: err})
}
