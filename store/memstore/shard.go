package memstore

import (
	"cmp"
	"context"
	"crypto/rand"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/skald-go/skald/store"
)

type (
	shardRow struct {
		store.Shard
		owner, sessionID string // "": free
		changed          time.Time
	}
	sessionID struct {
		id    string
		until time.Time
		waits bool // for a shard
	}
)

// cut splits the buckets into n shards.
func cut(n int) []shardRow {
	shards := make([]shardRow, n)
	for i := range shards {
		shards[i].Shard = store.Shard{ID: i, First: i * store.Buckets / n, Last: (i+1)*store.Buckets/n - 1}
	}
	return shards
}

func (d *database) shardOf(bucket int) int {
	return slices.IndexFunc(d.shards, func(l shardRow) bool { return l.First <= bucket && bucket <= l.Last })
}

// Lease takes, renews and gives back shards.
func (s *Store) Lease(ctx context.Context, ask store.Ask) (got store.Leased, err error) {
	err = s.enter(ctx, func() error {
		if ask.Owner == "" {
			return nil
		}
		if err := s.db.notMoved(ask.Knew); err != nil {
			return err
		}
		got = s.db.lease(ask)
		return nil
	})
	if err == nil && ask.Look != nil {
		got.Tip, err = s.snapshot(ctx, *ask.Look)
	}
	return got, err
}

func (d *database) lease(ask store.Ask) store.Leased {
	now := d.now()
	maps.DeleteFunc(d.sessions,
		func(owner string, l sessionID) bool { return owner != ask.Owner && !l.until.After(now) })
	if ask.Leave {
		d.leave(ask)
		return store.Leased{Sessions: len(d.working())}
	}
	d.keep(ask, now)
	working := d.working()
	got := store.Leased{Sessions: len(working), Share: share(len(d.shards), working, ask.Owner),
		Waiting: len(d.sessions) - len(working)}
	for i := range d.shards {
		l := &d.shards[i]
		switch {
		case l.owner != ask.Owner:
			continue
		case slices.Contains(ask.Free, l.ID):
			l.owner, l.sessionID = "", ""
			continue
		case l.sessionID != ask.Session:
			l.take(ask, now)
		}
		got.Shards = append(got.Shards, l.Shard)
	}
	for i := range d.shards {
		l := &d.shards[i]
		if slices.Contains(working, l.owner) || len(got.Shards) >= got.Share ||
			slices.Contains(ask.Free, l.ID) {
			continue
		}
		l.take(ask, now)
		got.Shards = append(got.Shards, l.Shard)
	}
	slices.SortFunc(got.Shards, func(a, b store.Shard) int { return a.ID - b.ID })
	return got
}

// leave frees all that the owner's life holds and forgets it; a newer session stays.
func (d *database) leave(ask store.Ask) {
	if d.sessions[ask.Owner].id == ask.Session {
		delete(d.sessions, ask.Owner)
	}
	for i := range d.shards {
		if l := &d.shards[i]; l.owner == ask.Owner && l.sessionID == ask.Session {
			l.owner, l.sessionID = "", ""
		}
	}
}

// keep notes that a relay lives. It waits if others hold all shards there are, or will.
func (d *database) keep(ask store.Ask, now time.Time) {
	delete(d.sessions, ask.Owner)
	waits := len(d.working()) >= len(d.shards) &&
		!slices.ContainsFunc(d.shards, func(l shardRow) bool { return l.owner == ask.Owner })
	ttl := cmp.Or(ask.TTL, defaultTTL)
	if waits {
		ttl = cmp.Or(ask.Wait, ttl)
	}
	d.sessions[ask.Owner] = sessionID{ask.Session, now.Add(ttl), waits}
}

// working are the relays that may hold shards, sorted.
func (d *database) working() (owners []string) {
	for owner, l := range d.sessions {
		if !l.waits {
			owners = append(owners, owner)
		}
	}
	slices.Sort(owners)
	return owners
}

// share deals the shards out evenly: what is left over goes to the first owners by name.
func share(shards int, working []string, owner string) int {
	rank := slices.Index(working, owner)
	if rank < 0 {
		return 0
	}
	n, rest := shards/len(working), shards%len(working)
	if rank < rest {
		n++
	}
	return n
}

func (l *shardRow) take(ask store.Ask, now time.Time) {
	l.changed = now
	l.owner, l.sessionID, l.Token = ask.Owner, ask.Session, rand.Text()
	l.Epoch++
}

// guard checks that whoever reports p still owns the shard.
func (d *database) guard(p store.Progress) error {
	i := slices.IndexFunc(d.shards, func(l shardRow) bool { return l.ID == p.Shard })
	if i < 0 || d.shards[i].owner == "" || d.shards[i].Epoch != p.Epoch || d.shards[i].Token != p.Token {
		return fmt.Errorf("shard %d is not held with epoch %d: %w", p.Shard, p.Epoch, store.ErrLost)
	}
	return nil
}

// progress stores what a shard's owner reports.
func (d *database) progress(p store.Progress) {
	for i := range d.shards {
		l := &d.shards[i]
		if l.ID != p.Shard {
			continue
		}
		l.changed = d.now()
		if p.Cursor != nil {
			l.Cursor = *p.Cursor
		}
		if p.Incarnation != nil {
			l.Incarnation = *p.Incarnation
		}
	}
	for _, a := range p.Deferred {
		d.setAside(a)
	}
	for _, seq := range p.Freed {
		delete(d.aside, seq)
	}
}
