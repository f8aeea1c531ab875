package inbox

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/skald-go/skald/broker"
	"github.com/skald-go/skald/inbox/internal/partition"
	"github.com/skald-go/skald/store"
)

const (
	tellKinds = time.Minute // how often it is noted which types are handled
	// how old what is known of others' types may be where a message is skipped for it
	kindsFresh = 250 * time.Millisecond
	// that somebody handles a type is believed for so long behind who noted it last
	kindsLast = 15 * time.Minute
)

// A view is what is known of the types that other builds of the consumer handle. It belongs to the goroutine
// of Run or Step.
type knownTypes struct {
	others  map[store.Kind]bool // and this build does not
	at      time.Time           // the read of it began
	fetches int                 // there were when it began
	told    time.Time           // which types this build handles
	since   time.Time           // it was noted all the time: so what others did not note since, nobody handles
	unsure  bool                // it is not known whether that was noted
	again   bool                // it is to be read at once
	named   map[store.Kind]bool // that were said aloud
	acked   bool                // something was acknowledged since that was noted
}

// A roll is an store call: to note which types this build handles, and to read which ones others do.
type beat struct {
	own     []store.Kind
	forget  time.Duration
	began   time.Time
	fetches int
	// progress: something was acknowledged since the last roll.
	progress bool
	all      []store.Kind // the answer
}

// handled are the types that this build handles.
func (in *Inbox[TTx]) handled() []store.Kind { return sorted(in.exec.Kinds()) }

func sorted(kinds []store.Kind) []store.Kind {
	slices.SortFunc(kinds, func(a, b store.Kind) int {
		return cmp.Or(cmp.Compare(a.Topic, b.Topic), cmp.Compare(a.Type, b.Type))
	})
	return kinds
}

// enroll notes which types this build handles, before it joins the group. Where others do not know yet that
// they are handled, Run waits until they must: from then on, nobody skips them.
func (in *Inbox[TTx]) enroll(ctx context.Context) error {
	r := beat{own: in.handled(), began: in.o.Now(), fetches: in.checkpointer.fetches}
	got, err := in.db.Attend(ctx, store.Attend{Consumer: in.group, Beat: &store.Beat{Own: r.own}})
	if err != nil {
		in.knownTypes.unsure = true
		return fmt.Errorf("note which types are handled: %w", err)
	}
	r.all = got.Kinds
	news := in.knownTypes.unsure || slices.ContainsFunc(r.own, func(k store.Kind) bool { return !slices.Contains(r.all, k) })
	if len(r.all) == 0 {
		in.renamed(ctx)
	}
	in.enrolled(r)
	if in.checkpointer.patient && len(r.all) > 0 && news && !sleep(ctx, 2*kindsFresh) {
		in.knownTypes.unsure = true
		return ctx.Err()
	}
	return nil
}

// roll is what is to be asked now about types; nil: nothing.
func (in *Inbox[TTx]) beat(now time.Time) *beat {
	v := &in.knownTypes
	tell := now.Sub(v.told) >= tellKinds
	if !tell && !v.again && !slices.ContainsFunc(in.checkpointer.waiting, in.undecided) {
		return nil
	}
	r := &beat{began: now, fetches: in.checkpointer.fetches}
	if v.again = false; tell {
		r.own, r.progress = in.handled(), v.acked
		v.acked = false
		if !v.since.IsZero() && now.Sub(v.since) >= kindsLast && !v.gap(now) {
			r.forget = kindsLast
		}
	}
	return r
}

// enrolled takes up what a roll found.
func (in *Inbox[TTx]) enrolled(r beat) {
	v := &in.knownTypes
	v.others = map[store.Kind]bool{}
	for _, k := range r.all {
		if !in.exec.Handles(k) {
			v.others[k] = true
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

// gap tells whether it was not noted for a while, by either of two clocks: the one stands still while the
// machine is suspended, the other may be set.
func (v *knownTypes) gap(now time.Time) bool {
	return max(now.Sub(v.told), now.Round(0).Sub(v.told.Round(0))) > 3*tellKinds
}

// undecided tells whether it is not known of a delivery if it is to be skipped or left to others. It is
// skipped by what was read since it was received, or just before.
func (in *Inbox[TTx]) undecided(d broker.Delivery) bool {
	k, v := store.Kind{Topic: d.Topic, Type: d.Type}, &in.knownTypes
	if d.Fault != nil || in.exec.Handles(k) || v.others[k] || v.fetches == in.checkpointer.fetches {
		return false
	}
	return !in.checkpointer.patient || in.o.Now().Sub(v.at) >= kindsFresh
}

// others are the types that are left to others.
func (in *Inbox[TTx]) others() []store.Kind {
	return sorted(slices.Collect(maps.Keys(in.knownTypes.others)))
}

// skip is done with a message that no build handles; one that another build handles is taken, so as to be
// left to it.
func (in *Inbox[TTx]) skip(e *partition.Entry) {
	k := e.Kind()
	if e.Foreign = in.knownTypes.others[k]; !e.Foreign {
		e.Done = true
		in.count(func(h *Health) { h.Skipped++ })
		in.tel.Count(e.Topic, "skipped")
		in.nobodys(k)
		return
	}
	if !in.knownTypes.named[k] {
		in.knownTypes.named[k] = true
		in.o.Logger.Info("inbox: messages of a type that this build has no handler for are parked, for one that has", "consumer", in.group,
			"topic", k.Topic, "type", k.Type)
	}
}
