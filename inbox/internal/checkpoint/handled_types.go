package checkpoint

import (
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
	// for how long a type counts as handled after a process noted last that it handles the type
	kindsLast = 15 * time.Minute
)

// knownTypes are what is known of the types that other builds of the consumer handle.
type knownTypes struct {
	others  map[store.Kind]bool // and this build does not
	at      time.Time           // the read of it began
	fetches int                 // there were when it began
	told    time.Time           // which types this build handles
	// it was noted all the time: so what others did not note since, nobody handles
	since  time.Time
	unsure bool // it is not known whether that was noted
	again  bool // it is to be read at once
	acked  bool // something was acknowledged since that was noted
}

// A beat is a Call: to note which types this build handles, and to read which ones others do.
type beat struct {
	own     []store.Kind
	forget  time.Duration
	began   time.Time
	fetches int
	// progress: something was acknowledged since the last beat.
	progress bool
	all      []store.Kind // the answer
}

// beat is what is to be asked now about types; nil: nothing.
func (c *Checkpointer) beat(now time.Time) *beat {
	v := &c.types
	tell := now.Sub(v.told) >= tellKinds
	if !tell && !v.again && !slices.ContainsFunc(c.waiting, c.undecided) {
		return nil
	}
	r := &beat{began: now, fetches: c.fetches}
	if v.again = false; tell {
		r.own, r.progress = c.o.Kinds(), v.acked
		v.acked = false
		if !v.since.IsZero() && now.Sub(v.since) >= kindsLast && !v.gap(now) {
			r.forget = kindsLast
		}
	}
	return r
}

// enrolled takes up what a beat found.
func (c *Checkpointer) enrolled(r beat) {
	v := &c.types
	v.others = map[store.Kind]bool{}
	for _, k := range r.all {
		if !c.o.Handles(k) {
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

// Enroll notes which types this build handles, before it joins the group. Where others do not know yet that
// they are handled, whoever is patient waits until they must, or says that it is Unsure: from then on, nobody
// skips them. First: no build was known before.
func (c *Checkpointer) Enroll(ctx context.Context) (first bool, wait time.Duration, err error) {
	r := beat{own: c.o.Kinds(), began: c.o.Now(), fetches: c.fetches}
	got, err := c.o.DB.Attend(ctx, store.Attend{Consumer: c.o.Group, Beat: &store.Beat{Own: r.own}})
	if err != nil {
		c.Unsure()
		return false, 0, fmt.Errorf("note which types are handled: %w", err)
	}
	r.all = got.Kinds
	unknown := func(k store.Kind) bool { return !slices.Contains(r.all, k) }
	news := c.types.unsure || slices.ContainsFunc(r.own, unknown)
	c.enrolled(r)
	if c.patient && len(r.all) > 0 && news {
		wait = 2 * kindsFresh
	}
	return len(r.all) == 0, wait, nil
}

// Unsure says that others may not know which types this build handles.
func (c *Checkpointer) Unsure() { c.types.unsure = true }

// LeftToOthers tells of a type that this build does not handle whether another one does.
func (c *Checkpointer) LeftToOthers(k store.Kind) bool { return c.types.others[k] }

// AskTypes has the types that others handle read at once.
func (c *Checkpointer) AskTypes() { c.types.again = true }

// Acked says that something was acknowledged.
func (c *Checkpointer) Acked() { c.types.acked = true }

// gap tells whether it was not noted for a while, by either of two clocks: the one stands still while the
// machine is suspended, the other may be set.
func (v *knownTypes) gap(now time.Time) bool {
	return max(now.Sub(v.told), now.Round(0).Sub(v.told.Round(0))) > 3*tellKinds
}

// undecided tells whether it is not known of a delivery if it is to be skipped or left to others. It is
// skipped by what was read since it was received, or just before.
func (c *Checkpointer) undecided(d broker.Delivery) bool {
	k, v := store.Kind{Topic: d.Topic, Type: d.Type}, &c.types
	if d.Fault != nil || c.o.Handles(k) || v.others[k] || v.fetches == c.fetches {
		return false
	}
	return !c.patient || c.o.Now().Sub(v.at) >= kindsFresh
}

// Others are the types that are left to others.
func (c *Checkpointer) Others() []store.Kind {
	return slices.SortedFunc(maps.Keys(c.types.others), partition.CompareKinds)
}
