package relay

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/broker"
	"github.com/skald-go/skald/internal/backoff"
	"github.com/skald-go/skald/internal/column"
	"github.com/skald-go/skald/store"
)

const (
	asideMax  = 500
	asideSoon = time.Second // between two looks while there are rows deferred
	// between two looks otherwise, of all relays together: another instance may have left some
	asideSlow = 5 * time.Second
)

// retryAside publishes rows that were deferred and are due. Their keys have nothing else under way, because
// everything newer of them is deferred too.
func (r *Relay) retryAside(ctx context.Context) (busy bool, err error) {
	now := r.o.Now()
	r.relent(now)
	if r.retrying || now.Before(r.asideAt) || len(r.shards) == 0 {
		return false, nil
	}
	if !r.roomForPage() {
		r.asideAt = now.Add(asideSoon / 10)
		return false, nil
	}
	r.asideAt = now.Add(asideSlow * time.Duration(max(r.sessions, 1)))
	if r.hasAside {
		r.asideAt = now.Add(asideSoon)
	}
	due, err := store.DueRows(ctx, r.db, r.shardIDs(), asideMax)
	if err != nil {
		return false, fmt.Errorf("read rows set aside: %w", err)
	}
	if due, err = r.ripe(ctx, due); err != nil {
		return false, err
	}
	if len(due) == 0 {
		r.hasAside = r.anyAside(now)
		return false, nil
	}
	r.hasAside = true
	if due = r.sound(due); len(due) == 0 {
		return true, nil
	}
	c, msgs := &call{deferred: due, rows: len(due)}, make([]skald.Message, len(due))
	for i := range due {
		msgs[i] = outgoing(&due[i].Row)
		c.bytes += column.Weight(&due[i].Message)
		l := r.byBucket[due[i].Bucket]
		c.shards = append(c.shards, l)
		if l != nil {
			l.publishesTo(due[i].Topic, r.topics.ids)
		}
	}
	r.retrying = true
	r.send(c, msgs)
	return true, nil
}

// ripe leaves out rows of topics that were made anew and have not got their older rows again, or have them on
// the way to the rows deferred.
func (r *Relay) ripe(ctx context.Context, due []store.DeferredRow) ([]store.DeferredRow, error) {
	names := make([]string, len(due))
	for i := range due {
		names[i] = due[i].Topic
	}
	if err := r.learn(ctx, names); err != nil {
		return nil, err
	}
	return slices.DeleteFunc(due, func(a store.DeferredRow) bool {
		l := r.byBucket[a.Bucket]
		return l != nil && (l.renews(a.Topic) || l.setsAsideBefore(&a))
	}), nil
}

// sound are the rows of due that can be read and keep the limits; the others are put off, and what is of
// their keys waits behind them.
func (r *Relay) sound(due []store.DeferredRow) []store.DeferredRow {
	waits := map[string]bool{}
	return slices.DeleteFunc(due, func(a store.DeferredRow) bool {
		if a.Key != nil && waits[keyOf(&a.Message)] {
			return true
		}
		why := unfit(&a.Row)
		if why == "" {
			return false
		}
		waits[keyOf(&a.Message)] = true
		if l := r.byBucket[a.Bucket]; l != nil && !l.dead {
			a.Attempts++
			a.Why, a.Due = why, backoff.After(a.Attempts, r.o.DeferFirst, r.o.DeferMost)
			l.deferred = append(l.deferred, a)
			r.tel.Refused(a.Topic)
			r.putOff(a.Due)
		}
		return true
	})
}

// anyAside tells whether our shards may still have rows deferred, when none is due.
func (r *Relay) anyAside(now time.Time) bool {
	if now.Before(r.asideLast) {
		return true
	}
	for _, l := range r.shards {
		if len(l.held) > 0 || len(l.deferred) > 0 || len(l.pieces) > 0 {
			return true
		}
	}
	return false
}

// putOff notes that a row deferred is due in d, counted from the next save. They are looked for often from
// now on.
func (r *Relay) putOff(d time.Duration) {
	r.hasAside = true
	if soon := r.o.Now().Add(asideSoon); soon.Before(r.asideAt) {
		r.asideAt = soon
	}
	if last := r.o.Now().Add(d + asideSlow); last.After(r.asideLast) {
		r.asideLast = last
	}
}

func (r *Relay) shardIDs() []int {
	ids := make([]int, 0, len(r.shards))
	for id, l := range r.shards {
		if !l.leaving {
			ids = append(ids, id)
		}
	}
	return ids
}

// asideAnswered frees the rows that were taken at last and puts the refused ones off.
func (r *Relay) asideAnswered(c *call, err error) {
	r.retrying = false
	v := newVerdict(err)
	r.heard(v, len(c.deferred))
	freed, first := false, firsts{}
	for i := range c.deferred {
		a := &c.deferred[i]
		l := c.shards[i] // as it was owned then: another owner may have published the row meanwhile
		if l == nil || l.dead {
			continue
		}
		switch failed, refused := v.of(i); {
		case errors.Is(failed, broker.ErrRecreated):
			r.topics.unlearn(a.Topic)
		case failed != nil && v.all == nil && !first.of(&a.Message): // it was held back behind that
		case failed != nil && v.all == nil:
			r.pushesBack(l, &a.Row, failed)
			r.putOffAgain(l, a, failed)
		case refused != nil:
			first.of(&a.Message)
			r.putOffAgain(l, a, refused)
			if !errors.Is(refused, broker.ErrNoTopic) {
				r.o.Logger.Debug("relay: row refused again", "owner", r.o.Owner, "shard", l.ID, "seq", a.Seq,
					"id", a.ID, "error", refused)
			}
		case failed == nil:
			l.freed = append(l.freed, a.Seq)
			r.topics.took(a.Topic)
			r.count(func(h *Health) { h.Published++ })
			r.tel.Took(&a.Message, r.o.Now())
			freed = true
		}
	}
	if freed {
		r.asideAt = r.o.Now() // what waits behind them may go
	}
}

// putOffAgain has a row wait that was not taken, longer each time.
func (r *Relay) putOffAgain(l *shard, a *store.DeferredRow, why error) {
	a.Attempts++
	r.tel.Refused(a.Topic)
	a.Why, a.Due = why.Error(), backoff.After(a.Attempts, r.o.DeferFirst, r.o.DeferMost)
	l.deferred = append(l.deferred, *a)
	r.putOff(a.Due)
}

// reload asks which keys of shards still have rows deferred, after some were freed.
func (r *Relay) reload(ctx context.Context, shards []*shard) error {
	ids := make([]int, len(shards))
	for i, l := range shards {
		ids[i] = l.ID
	}
	held, err := store.DeferredKeys(ctx, r.db, ids)
	if err != nil {
		return fmt.Errorf("read keys set aside: %w", err)
	}
	for _, l := range shards {
		l.heldIs(held)
	}
	r.hasAside = r.hasAside || len(held) > 0
	return nil
}
