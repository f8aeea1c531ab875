// This file stores which types this build of the consumer handles, and reads those of the other builds.

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
	storeKindsEvery = time.Minute // how often this build stores its types
	// kindsFresh is how old the known types of other builds may be when the inbox skips a message.
	kindsFresh = 250 * time.Millisecond
	// kindsLast is how long a type counts as handled after the last heartbeat with it.
	kindsLast = 15 * time.Minute
)

// knownTypes has the types that only other builds of the consumer handle.
type knownTypes struct {
	others   map[store.Kind]bool // types that this build does not handle
	at       time.Time           // when the last read of others began
	fetches  int                 // groupState.fetches when that read began
	storedAt time.Time           // when this build last stored its types
	unsure   bool                // other builds may not have read the types of this build
	again    bool                // read the types of other builds now
	acked    bool                // messages were acknowledged since storedAt
	// since is when this build began to store its types without a gap. A type that no build has stored since
	// then has no handler.
	since time.Time
}

// heartbeat is the part of a Call that stores the types of this build, and reads those of other builds.
type heartbeat struct {
	own      []store.Kind
	forget   time.Duration // delete types that no build has stored for so long; 0 deletes none
	began    time.Time
	fetches  int
	progress bool         // messages were acknowledged since the last heartbeat
	all      []store.Kind // the answer
}

// nextHeartbeat returns the heartbeat that is due, or nil.
func (c *Checkpointer) nextHeartbeat(now time.Time) *heartbeat {
	v := &c.types
	tell := now.Sub(v.storedAt) >= storeKindsEvery
	if !tell && !v.again && !slices.ContainsFunc(c.waiting, c.undecided) {
		return nil
	}
	r := &heartbeat{began: now, fetches: c.fetches}
	if v.again = false; tell {
		r.own, r.progress = c.o.Kinds(), v.acked
		v.acked = false
		if !v.since.IsZero() && now.Sub(v.since) >= kindsLast && !v.gap(now) {
			r.forget = kindsLast
		}
	}
	return r
}

// applyHeartbeat applies the answer of a heartbeat.
func (c *Checkpointer) applyHeartbeat(r heartbeat) {
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
	if v.since.IsZero() || v.gap(r.began) { // the machine may have been suspended with all builds
		v.since = r.began
	}
	v.storedAt = r.began
}

// Enroll stores the types of this build before it joins the group. Until other builds have read these types,
// they may skip their messages. So a patient caller sleeps for the duration delay, or calls Unsure. Enroll
// returns isFirst true if no build of the consumer was known before.
func (c *Checkpointer) Enroll(ctx context.Context) (isFirst bool, delay time.Duration, err error) {
	r := heartbeat{own: c.o.Kinds(), began: c.o.Now(), fetches: c.fetches}
	got, err := c.o.DB.SyncConsumer(ctx, store.SyncRequest{Consumer: c.o.Group,
		Heartbeat: &store.Heartbeat{Own: r.own}})
	if err != nil {
		c.Unsure()
		return false, 0, fmt.Errorf("store which types are handled: %w", err)
	}
	r.all = got.Kinds
	unknown := func(k store.Kind) bool { return !slices.Contains(r.all, k) }
	news := c.types.unsure || slices.ContainsFunc(r.own, unknown)
	c.applyHeartbeat(r)
	if c.patient && len(r.all) > 0 && news {
		delay = 2 * kindsFresh
	}
	return len(r.all) == 0, delay, nil
}

// Unsure records that other builds may not have read the types of this build.
func (c *Checkpointer) Unsure() { c.types.unsure = true }

// LeftToOthers reports whether another build handles a type that this build does not handle.
func (c *Checkpointer) LeftToOthers(k store.Kind) bool { return c.types.others[k] }

// AskTypes makes the next call read the types of other builds.
func (c *Checkpointer) AskTypes() { c.types.again = true }

// Acked records that messages were acknowledged.
func (c *Checkpointer) Acked() { c.types.acked = true }

// gap reports whether no heartbeat was stored for a while, by the larger of two clocks. The monotonic clock
// stops while the machine is suspended. The other clock may be set.
func (v *knownTypes) gap(now time.Time) bool {
	return max(now.Sub(v.storedAt), now.Round(0).Sub(v.storedAt.Round(0))) > 3*storeKindsEvery
}

// undecided reports whether the types of other builds must be read before the inbox can skip a delivery or
// leave it to them. They must have been read after the inbox received the delivery, or just before.
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
