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
	tellKinds = time.Minute // how often this build stores its types
	// kindsFresh is how old the types of other builds may be when a message is skipped.
	kindsFresh = 250 * time.Millisecond
	// kindsLast is how long a type counts as handled after the last heartbeat with it.
	kindsLast = 15 * time.Minute
)

// knownTypes has the types that only other builds of the consumer handle.
type knownTypes struct {
	others  map[store.Kind]bool // not handled by this build
	at      time.Time           // when the last read of others began
	fetches int                 // book.fetches when it began
	told    time.Time           // when this build stored its types last
	unsure  bool                // other builds may not have read the types of this build
	again   bool                // read others now
	acked   bool                // messages were acknowledged since told
	// since is when this build began to store its types without a gap: no build handles the types that were
	// not stored since then.
	since time.Time
}

// beat is a heartbeat: a Call that stores the types of this build, and reads those of other builds.
type beat struct {
	own      []store.Kind
	forget   time.Duration
	began    time.Time
	fetches  int
	progress bool         // messages were acknowledged since the last beat
	all      []store.Kind // the answer
}

// beat returns the beat that is due, or nil.
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

// enrolled applies the answer of a beat.
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
	if v.since.IsZero() || v.gap(r.began) { // other processes may have been suspended together with this one
		v.since = r.began
	}
	v.told = r.began
}

// Enroll stores the types of this build, before it joins the group. Other builds may still skip these types
// until they have read them: a patient caller sleeps for wait, or calls Unsure. First reports that no build
// was known before.
func (c *Checkpointer) Enroll(ctx context.Context) (first bool, wait time.Duration, err error) {
	r := beat{own: c.o.Kinds(), began: c.o.Now(), fetches: c.fetches}
	got, err := c.o.DB.SyncConsumer(ctx, store.SyncRequest{Consumer: c.o.Group,
		Heartbeat: &store.Heartbeat{Own: r.own}})
	if err != nil {
		c.Unsure()
		return false, 0, fmt.Errorf("store which types are handled: %w", err)
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

// Unsure notes that other builds may not have read the types of this build.
func (c *Checkpointer) Unsure() { c.types.unsure = true }

// LeftToOthers reports whether another build handles a type that this build does not handle.
func (c *Checkpointer) LeftToOthers(k store.Kind) bool { return c.types.others[k] }

// AskTypes makes the next call read the types of other builds.
func (c *Checkpointer) AskTypes() { c.types.again = true }

// Acked notes that messages were acknowledged.
func (c *Checkpointer) Acked() { c.types.acked = true }

// gap reports whether no beat was stored for a while, by either of two clocks: the monotonic one stops while
// the machine is suspended, the other may be set.
func (v *knownTypes) gap(now time.Time) bool {
	return max(now.Sub(v.told), now.Round(0).Sub(v.told.Round(0))) > 3*tellKinds
}

// undecided reports whether the types of other builds must be read before a delivery can be skipped or left
// to them. They must have been read after the delivery was received, or just before.
func (c *Checkpointer) undecided(d broker.Delivery) bool {
	k, v := store.Kind{Topic: d.Topic, Type: d.Type}, &c.types
	if d.Fault != nil || c.o.Handles(k) || v.others[k] || v.fetches == c.fetches {
		return false
	}
	return !c.patient || c.o.Now().Sub(v.at) >= kindsFresh
}

// Others returns the types that are left to other builds.
func (c *Checkpointer) Others() []store.Kind {
	return slices.SortedFunc(maps.Keys(c.types.others), partition.CompareKinds)
}
