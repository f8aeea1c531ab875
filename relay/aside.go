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
	"github.com/skald-go/skald/internal/complete"
	"github.com/skald-go/skald/store"
)

const (
	asideMax  = 500
	asideSoon = time.Second     // between two looks while there are rows set aside
	asideSlow = 5 * time.Second // between two looks otherwise, of all relays together: another instance may have left some
)

// retryAside publishes rows that were set aside and are due. Their keys have nothing else under way, because
// everything newer of them is set aside too.
func (r *Relay) retryAside(ctx context.Context) (busy bool, err error) {
	now := r.o.Now()
	if r.retrying || now.Before(r.asideAt) || len(r.lanes) == 0 {
		return false, nil
	}
	r.asideAt = now.Add(asideSlow * time.Duration(max(r.lives, 1)))
	if r.hasAside {
		r.asideAt = now.Add(asideSoon)
	}
	due, err := r.db.Retry(ctx, r.laneIDs(), asideMax)
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
	c, msgs := &call{aside: due, rows: len(due)}, make([]skald.Message, len(due))
	for i := range due {
		msgs[i] = outgoing(&due[i].Row)
		c.bytes += len(due[i].Data)
		l := r.byBucket[due[i].Bucket]
		c.lanes = append(c.lanes, l)
		if l != nil {
			l.publishesTo(due[i].Topic, r.ids)
		}
	}
	r.retrying = true
	r.send(c, msgs)
	return true, nil
}

// ripe leaves out rows of topics that were made anew and have not got their older rows again, or have them on the way to
// the rows set aside.
func (r *Relay) ripe(ctx context.Context, due []store.Aside) ([]store.Aside, error) {
	names := make([]string, len(due))
	for i := range due {
		names[i] = due[i].Topic
	}
	if err := r.learn(ctx, names); err != nil {
		return nil, err
	}
	return slices.DeleteFunc(due, func(a store.Aside) bool {
		l := r.byBucket[a.Bucket]
		return l != nil && (l.renews(a.Topic) || l.setsAsideBefore(&a))
	}), nil
}

// sound are the rows of due that keep the limits; the others are put off, and what is of their keys waits behind them.
func (r *Relay) sound(due []store.Aside) []store.Aside {
	waits := map[string]bool{}
	return slices.DeleteFunc(due, func(a store.Aside) bool {
		if a.Key != nil && waits[keyOf(&a.Message)] {
			return true
		}
		limit := complete.Broken(&a.Message)
		if limit == "" {
			return false
		}
		waits[keyOf(&a.Message)] = true
		if l := r.byBucket[a.Bucket]; l != nil && !l.dead {
			a.Attempts++
			a.Why, a.Due = broken(limit), backoff.After(a.Attempts, r.o.AsideFirst, r.o.AsideMost)
			l.aside = append(l.aside, a)
			r.tel.Refused(a.Topic)
			r.putOff(a.Due)
		}
		return true
	})
}

// anyAside tells whether our lanes may still have rows set aside, when none is due.
func (r *Relay) anyAside(now time.Time) bool {
	if now.Before(r.asideLast) {
		return true
	}
	for _, l := range r.lanes {
		if len(l.held) > 0 || len(l.aside) > 0 || len(l.pieces) > 0 {
			return true
		}
	}
	return false
}

// putOff notes that a row set aside is due in d, counted from the next save. They are looked for often from now on.
func (r *Relay) putOff(d time.Duration) {
	r.hasAside = true
	if soon := r.o.Now().Add(asideSoon); soon.Before(r.asideAt) {
		r.asideAt = soon
	}
	if last := r.o.Now().Add(d + asideSlow); last.After(r.asideLast) {
		r.asideLast = last
	}
}

func (r *Relay) laneIDs() []int {
	ids := make([]int, 0, len(r.lanes))
	for id, l := range r.lanes {
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
	r.reach(v.all)
	freed := false
	for i := range c.aside {
		a := &c.aside[i]
		l := c.lanes[i] // as it was owned then: another owner may have published the row meanwhile
		if l == nil || l.dead {
			continue
		}
		switch failed, refused := v.of(i); {
		case errors.Is(failed, broker.ErrAnew):
			r.unlearn(a.Topic)
		case refused != nil:
			a.Attempts++
			r.tel.Refused(a.Topic)
			a.Why, a.Due = refused.Error(), backoff.After(a.Attempts, r.o.AsideFirst, r.o.AsideMost)
			l.aside = append(l.aside, *a)
			r.putOff(a.Due)
			if !errors.Is(refused, broker.ErrNoTopic) {
				r.o.Logger.Debug("relay: row refused again", "owner", r.o.Owner, "lane", l.ID, "seq", a.Seq, "id", a.ID, "error", refused)
			}
		case failed == nil:
			l.freed = append(l.freed, a.Seq)
			delete(r.missing, a.Topic)
			r.count(func(h *Health) { h.Published++ })
			r.tel.Took(&a.Message, r.o.Now())
			freed = true
		}
	}
	if freed {
		r.asideAt = r.o.Now() // what waits behind them may go
	}
}

// reload asks which keys of lanes still have rows set aside, after some were freed.
func (r *Relay) reload(ctx context.Context, lanes []*lane) error {
	ids := make([]int, len(lanes))
	for i, l := range lanes {
		ids[i] = l.ID
	}
	held, err := r.db.Held(ctx, ids)
	if err != nil {
		return fmt.Errorf("read keys set aside: %w", err)
	}
	for _, l := range lanes {
		l.heldIs(held)
	}
	r.hasAside = r.hasAside || len(held) > 0
	return nil
}
