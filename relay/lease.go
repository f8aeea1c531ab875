package relay

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/skald-go/skald/internal/backoff"
	"github.com/skald-go/skald/store"
)

// lease renews what we hold and takes what is free, every third of the lease's time or, beside others, a
// little sooner. Where it can it looks for rows by the way, so that an idle relay asks one question for both.
func (r *Relay) lease(ctx context.Context) (busy bool, err error) {
	now := r.o.Now()
	free, idle := r.toFree(), r.idle(now)
	if r.resting && r.quiet() {
		idle = nil
	}
	if !r.leaseDue(now, idle) && len(free) == 0 {
		return false, nil
	}
	away := r.silence(now)
	ask := store.Ask{Owner: r.o.Owner, Session: r.session, TTL: r.o.TTL, Wait: 3*r.patience() + r.o.TTL,
		Free: free, Knew: r.knew, Away: away, Yield: r.yields(away)}
	if idle != nil {
		ask.Look = &idle.base
	}
	leased, err := r.db.Lease(ctx, ask)
	if err != nil {
		return false, fmt.Errorf("lease shards: %w", err)
	}
	r.sessions, r.waiting, r.knew = leased.Sessions, leased.Waiting, nil
	if leased.Timeline != 0 {
		r.o.Logger.WarnContext(ctx, "relay: the database failed over", "owner", r.o.Owner, "timeline",
			leased.Timeline)
	}
	r.first.Store(slices.ContainsFunc(leased.Shards, func(l store.Shard) bool { return l.First == 0 }))
	r.renewed(now, leased)
	if idle != nil {
		r.looked(now, leased.Tip, idle)
	}
	for _, id := range free {
		if l := r.shards[id]; l != nil {
			r.drop(l)
		}
	}
	gained := r.compare(leased.Shards)
	if r.strays = nil; ask.Yield && leased.Share == 0 {
		for _, l := range gained {
			r.strays = append(r.strays, l.ID)
		}
		gained = nil
	}
	if err := r.takeUp(ctx, gained); err != nil {
		return true, err
	}
	r.shed(leased.Share)
	r.count(func(h *Health) { h.Shards = len(r.shards) })
	r.ready()
	return len(gained)+len(free) > 0, nil
}

// renewed says until when we hold what we hold, counted from before the question: the store's clock started
// later.
func (r *Relay) renewed(now time.Time, got store.Leased) {
	r.expires, r.leaseAt = now.Add(r.o.TTL), now.Add(r.o.TTL/3)
	switch {
	case len(got.Shards) == 0 && got.Share == 0:
		p := r.patience() * 4 / 5
		r.leaseAt = now.Add(backoff.After(1, p, p))
	case got.Sessions > 1: // so that what a neighbour gives back is taken within a second
		r.leaseAt = now.Add(max(r.o.TTL*3/10, min(r.o.TTL/3, time.Duration(got.Sessions)*pollEach)))
	}
}

// patience is how long a relay without a shard waits before it asks for one: all that wait ask three times a
// second together, so that a shard that becomes free is soon taken, whatever their number.
func (r *Relay) patience() time.Duration {
	return max(time.Duration(r.waiting)*300*time.Millisecond, 500*time.Millisecond)
}

// leaseDue: a renewal that would come before the next look comes with this one.
func (r *Relay) leaseDue(now time.Time, idle *group) bool {
	return !now.Before(r.leaseAt) || idle != nil && !now.Before(r.pollAt) &&
		r.leaseAt.Before(now.Add(r.pause(now)))
}

// idle is the only group there is, if it has read all of its window.
func (r *Relay) idle(now time.Time) *group {
	if len(r.groups) != 1 || r.groups[0].open() || now.Before(r.groups[0].due) {
		return nil
	}
	return r.groups[0]
}

// toFree lists the shards that are to go and have nothing under way and nothing unsaved. For an answer of a
// broker that does not answer it waits no longer: the next owner repeats what was under way.
func (r *Relay) toFree() []int {
	ids := slices.Clone(r.strays)
	for id, l := range r.shards {
		if l.leaving && (l.pending == 0 || r.contact.yields) && !l.unsaved() {
			ids = append(ids, id)
		}
	}
	return ids
}

// compare drops the shards that are not ours any more and returns those that are new.
func (r *Relay) compare(now []store.Shard) (gained []store.Shard) {
	ours := map[int]bool{}
	for _, l := range now {
		mine := r.shards[l.ID]
		if mine != nil && mine.Epoch == l.Epoch && mine.Token == l.Token {
			ours[l.ID] = true
			continue
		}
		gained = append(gained, l)
	}
	for id, l := range r.shards {
		if !ours[id] {
			r.drop(l)
		}
	}
	return gained
}

// takeUp starts new shards where their last owner left them. On another broker than they speak of they start
// at the oldest row that is kept: what that broker had acknowledged may not exist on this one.
func (r *Relay) takeUp(ctx context.Context, gained []store.Shard) error {
	if len(gained) == 0 {
		return nil
	}
	name, err := r.incarnation(ctx)
	if err != nil {
		return err
	}
	shards, moved, topics := make([]*shard, len(gained)), 0, []string(nil)
	for i, g := range gained {
		l := newShard(g)
		if l.note.Broker != name {
			l.renamed, l.note = true, note{Broker: name}
			if g.Incarnation != "" {
				l.Cursor = store.Cursor{}
				moved++
			}
		}
		topics = slices.AppendSeq(topics, maps.Keys(l.note.Topics))
		shards[i] = l
	}
	for _, name := range topics { // they may have been made anew since we asked
		r.topics.unlearn(name)
	}
	if err := r.learn(ctx, topics); err != nil {
		return err
	}
	if err := r.reload(ctx, shards); err != nil {
		return err
	}
	if moved > 0 {
		r.o.Logger.Warn("relay: another broker: shards start at the oldest row that is kept", "owner",
			r.o.Owner, "shards", moved)
	}
	for _, l := range shards {
		r.differs(l)
		l.renew()
	}
	for _, l := range shards {
		r.shards[l.ID] = l
		for b := l.First; b <= l.Last; b++ {
			r.byBucket[b] = l
		}
		r.groupFor(l, r.o.Now())
	}
	r.pollAt, r.asideAt = r.o.Now(), r.o.Now()
	return nil
}

// incarnation asks for the name of the broker's life, for no longer than the lease lasts meanwhile.
func (r *Relay) incarnation(ctx context.Context) (string, error) {
	name, err := r.callIncarnation(ctx, r.o.TTL*2/3)
	if err != nil {
		return "", fmt.Errorf("%w: ask for its incarnation: %w", errBroker, err)
	}
	return name, nil
}

// shed chooses the shards to give back when we hold more than our share.
func (r *Relay) shed(share int) {
	ids := r.shardIDs()
	slices.Sort(ids)
	for len(ids) > max(share, 0) {
		l := r.shards[ids[len(ids)-1]]
		l.leaving = true
		r.ungroup(l)
		ids = ids[:len(ids)-1]
	}
}

// drop forgets a shard. Answers that still come for it are ignored.
func (r *Relay) drop(l *shard) {
	l.dead = true
	r.ungroup(l)
	delete(r.shards, l.ID)
	for b := l.First; b <= l.Last; b++ {
		if r.byBucket[b] == l {
			r.byBucket[b] = nil
		}
	}
}

// forget drops everything: after a lost connection nothing of cursor or epoch is believed.
func (r *Relay) forget() {
	for _, l := range r.shards {
		r.drop(l)
	}
	r.count(func(h *Health) { h.Shards = 0 })
}

// errBroker marks an outage of the broker met where the store was talked to.
var errBroker = errors.New("the broker is away")

// leave gives all shards back at once.
func (r *Relay) leave(ctx context.Context) error {
	_, err := r.db.Lease(ctx, store.Ask{Owner: r.o.Owner, Session: r.session, TTL: r.o.TTL, Leave: true})
	if err != nil {
		return fmt.Errorf("give shards back: %w", err)
	}
	return nil
}
