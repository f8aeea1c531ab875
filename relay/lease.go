// This file leases shards, and releases them.

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

// lease renews the lease of the owned shards and takes free ones, at intervals of a third of TTL, or a little
// less if there are other relays. If possible, the same call also looks for new rows, so that an idle relay
// sends one query for both.
func (r *Relay) lease(ctx context.Context) (busy bool, err error) {
	now := r.o.Now()
	free, idle := r.toFree(), r.idle(now)
	if r.resting && r.quiet() {
		idle = nil
	}
	if !r.leaseDue(now, idle) && len(free) == 0 {
		return false, nil
	}
	away := r.brokerSilence(now)
	ask := store.LeaseRequest{Owner: r.o.Owner, Session: r.session, TTL: r.o.TTL,
		Wait:    3*r.patience() + r.o.TTL,
		Release: free, LastKnown: r.lastKnown, BrokerAway: away, Yield: r.yields(away)}
	if idle != nil {
		ask.SnapshotBase = &idle.base
	}
	leased, err := r.db.Lease(ctx, ask)
	if err != nil {
		return false, fmt.Errorf("lease shards: %w", err)
	}
	r.sessions, r.waiting, r.lastKnown = leased.Sessions, leased.Waiting, nil
	if leased.Timeline != 0 {
		r.o.Logger.WarnContext(ctx, "relay: the database failed over", "owner", r.o.Owner, "timeline",
			leased.Timeline)
	}
	r.first.Store(slices.ContainsFunc(leased.Shards, func(s store.Shard) bool { return s.First == 0 }))
	r.renewed(now, leased)
	if idle != nil {
		r.afterLook(now, leased.Tip, idle)
	}
	for _, id := range free {
		if s := r.shards[id]; s != nil {
			r.drop(s)
		}
	}
	gained := r.replaceOwned(leased.Shards)
	if r.toReturn = nil; ask.Yield && leased.Share == 0 {
		for _, s := range gained {
			r.toReturn = append(r.toReturn, s.ID)
		}
		gained = nil
	}
	if err := r.start(ctx, gained); err != nil {
		return true, err
	}
	r.shed(leased.Share)
	r.count(func(h *Health) { h.Shards = len(r.shards) })
	r.ready()
	return len(gained)+len(free) > 0, nil
}

// renewed sets the end of the lease. It counts from the time before the query, because the store's clock
// started later.
func (r *Relay) renewed(now time.Time, got store.Leased) {
	r.expires, r.leaseAt = now.Add(r.o.TTL), now.Add(r.o.TTL/3)
	switch {
	case len(got.Shards) == 0 && got.Share == 0:
		p := r.patience() * 4 / 5
		r.leaseAt = now.Add(backoff.After(1, p, p))
	case got.Sessions > 1: // earlier, to take a shard that another relay releases within a second
		r.leaseAt = now.Add(max(r.o.TTL*3/10, min(r.o.TTL/3, time.Duration(got.Sessions)*pollEach)))
	}
}

// patience returns the interval at which a relay without a shard requests one. It grows with the number of
// waiting relays, so that all together send about three requests a second.
func (r *Relay) patience() time.Duration {
	return max(time.Duration(r.waiting)*300*time.Millisecond, 500*time.Millisecond)
}

// leaseDue returns true if the lease must be renewed now. If the renewal would be due before the next look,
// it is combined with this look.
func (r *Relay) leaseDue(now time.Time, idle *group) bool {
	return !now.Before(r.leaseAt) || idle != nil && !now.Before(r.pollAt) &&
		r.leaseAt.Before(now.Add(r.pause(now)))
}

// idle returns the only group if it has read its whole window. Otherwise, and if there are several groups, it
// returns nil.
func (r *Relay) idle(now time.Time) *group {
	if len(r.groups) != 1 || r.groups[0].open() || now.Before(r.groups[0].due) {
		return nil
	}
	return r.groups[0]
}

// toFree returns the shards to release: they are leaving, have no calls in progress, and have no unsaved
// progress. If the broker does not answer, calls in progress are ignored, because the next owner repeats
// their rows.
func (r *Relay) toFree() []int {
	ids := slices.Clone(r.toReturn)
	for id, s := range r.shards {
		if s.leaving && (s.pending == 0 || r.contact.yields) && !s.unsaved() {
			ids = append(ids, id)
		}
	}
	return ids
}

// replaceOwned drops the shards that this relay has lost, and returns the new ones.
func (r *Relay) replaceOwned(now []store.Shard) (gained []store.Shard) {
	ours := map[int]bool{}
	for _, s := range now {
		mine := r.shards[s.ID]
		if mine != nil && mine.Epoch == s.Epoch && mine.Token == s.Token {
			ours[s.ID] = true
			continue
		}
		gained = append(gained, s)
	}
	for id, s := range r.shards {
		if !ours[id] {
			r.drop(s)
		}
	}
	return gained
}

// start begins to publish new shards at their stored cursors. If the cursor of a shard refers to another
// broker, the shard starts at the oldest stored row. This broker may lack rows that the other broker
// acknowledged.
func (r *Relay) start(ctx context.Context, gained []store.Shard) error {
	if len(gained) == 0 {
		return nil
	}
	name, err := r.incarnation(ctx)
	if err != nil {
		return err
	}
	shards, moved, topics := make([]*shard, len(gained)), 0, []string(nil)
	for i, g := range gained {
		s := newShard(g)
		if s.origin.Broker != name {
			s.originChanged, s.origin = true, origin{Broker: name}
			if g.Incarnation != "" {
				s.Cursor = store.Cursor{}
				moved++
			}
		}
		topics = slices.AppendSeq(topics, maps.Keys(s.origin.Topics))
		shards[i] = s
	}
	for _, name := range topics { // read the IDs again, because topics may have been recreated
		r.topics.forget(name)
	}
	if err := r.learn(ctx, topics); err != nil {
		return err
	}
	if err := r.reload(ctx, shards); err != nil {
		return err
	}
	if moved > 0 {
		r.o.Logger.Warn("relay: another broker: shards start at the oldest stored row", "owner",
			r.o.Owner, "shards", moved)
	}
	for _, s := range shards {
		r.noteRecreated(s)
		s.beginReplay()
	}
	for _, s := range shards {
		r.shards[s.ID] = s
		for b := s.First; b <= s.Last; b++ {
			r.byBucket[b] = s
		}
		r.joinGroup(s, r.o.Now())
	}
	r.pollAt, r.deferredAt = r.o.Now(), r.o.Now()
	return nil
}

// incarnation reads the broker's incarnation. It waits at most for two thirds of TTL, so that the lease does
// not end meanwhile.
func (r *Relay) incarnation(ctx context.Context) (string, error) {
	name, err := r.callIncarnation(ctx, r.o.TTL*2/3)
	if err != nil {
		return "", fmt.Errorf("%w: read its incarnation: %w", errBroker, err)
	}
	return name, nil
}

// shed marks shards as leaving if the relay owns more than its share.
func (r *Relay) shed(share int) {
	ids := r.shardIDs()
	slices.Sort(ids)
	for len(ids) > max(share, 0) {
		s := r.shards[ids[len(ids)-1]]
		s.leaving = true
		r.ungroup(s)
		ids = ids[:len(ids)-1]
	}
}

// drop removes a shard. The relay ignores later answers for it.
func (r *Relay) drop(s *shard) {
	s.gone = true
	r.ungroup(s)
	delete(r.shards, s.ID)
	for b := s.First; b <= s.Last; b++ {
		if r.byBucket[b] == s {
			r.byBucket[b] = nil
		}
	}
}

// forget drops all shards. After a lost connection their cursors and epochs may be outdated.
func (r *Relay) forget() {
	for _, s := range r.shards {
		r.drop(s)
	}
	r.count(func(h *Health) { h.Shards = 0 })
}

// errBroker marks errors of the broker in a step that also uses the store.
var errBroker = errors.New("the broker is away")

// leave releases all shards immediately.
func (r *Relay) leave(ctx context.Context) error {
	_, err := r.db.Lease(ctx, store.LeaseRequest{Owner: r.o.Owner, Session: r.session, TTL: r.o.TTL,
		Leave: true})
	if err != nil {
		return fmt.Errorf("release shards: %w", err)
	}
	return nil
}
