package memstore

import (
	"cmp"
	"crypto/rand"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/skald-go/skald/store"
)

const defaultTTL = 3 * time.Second

type (
	shardRow struct {
		store.Shard
		owner, session string // "" for a free shard
		changed        time.Time
	}
	session struct {
		id    string
		until time.Time
		waits bool // the relay is a standby

		awaySince time.Time // when its broker last answered; zero if the broker answers now
		yields    bool      // the relay owns no shard while another relay reaches its broker
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

func (o *outboxTable) shardOf(bucket int) int {
	return slices.IndexFunc(o.shards, func(l shardRow) bool { return l.First <= bucket && bucket <= l.Last })
}

// Lease takes, renews and releases shards.
func (o *outboxTable) Lease(ask store.LeaseRequest, now time.Time) store.Leased {
	maps.DeleteFunc(o.sessions,
		func(owner string, l session) bool { return owner != ask.Owner && !l.until.After(now) })
	if ask.Leave {
		o.leave(ask)
		return store.Leased{Sessions: len(o.workingRelays())}
	}
	o.keep(ask, now)
	working := o.workingRelays()
	got := store.Leased{Sessions: len(working), Share: share(len(o.shards), working, ask.Owner),
		Waiting: len(o.sessions) - len(working)}
	for i := range o.shards {
		l := &o.shards[i]
		switch {
		case l.owner != ask.Owner:
			continue
		case slices.Contains(ask.Release, l.ID):
			l.owner, l.session = "", ""
			continue
		case l.session != ask.Session:
			l.take(ask, now)
		}
		got.Shards = append(got.Shards, l.Shard)
	}
	for i := range o.shards {
		l := &o.shards[i]
		if _, alive := o.sessions[l.owner]; alive || len(got.Shards) >= got.Share ||
			slices.Contains(ask.Release, l.ID) {
			continue
		}
		l.take(ask, now)
		got.Shards = append(got.Shards, l.Shard)
	}
	slices.SortFunc(got.Shards, func(a, b store.Shard) int { return a.ID - b.ID })
	return got
}

// leave releases all shards of a relay that stops, and deletes its session. It does nothing if the relay has
// a newer session.
func (o *outboxTable) leave(ask store.LeaseRequest) {
	if o.sessions[ask.Owner].id == ask.Session {
		delete(o.sessions, ask.Owner)
	}
	for i := range o.shards {
		if l := &o.shards[i]; l.owner == ask.Owner && l.session == ask.Session {
			l.owner, l.session = "", ""
		}
	}
}

// keep records the heartbeat of a relay. The relay is a standby if other relays own or will own all shards.
func (o *outboxTable) keep(ask store.LeaseRequest, now time.Time) {
	is := session{id: ask.Session, yields: ask.Yield}
	if ask.BrokerAway > 0 {
		is.awaySince = now.Add(-ask.BrokerAway)
	}
	o.sessions[ask.Owner] = is
	others := slices.DeleteFunc(o.workingRelays(), func(owner string) bool { return owner == ask.Owner })
	is.waits = len(others) >= len(o.shards) &&
		!slices.ContainsFunc(o.shards, func(l shardRow) bool { return l.owner == ask.Owner })
	ttl := cmp.Or(ask.TTL, defaultTTL)
	if is.waits || is.yields {
		ttl = cmp.Or(ask.Wait, ttl)
	}
	is.until = now.Add(ttl)
	o.sessions[ask.Owner] = is
}

// workingRelays returns the relays that may own shards, sorted. A relay that yields may own shards only while
// no relay reaches its broker.
func (o *outboxTable) workingRelays() (owners []string) {
	answers := false
	for _, l := range o.sessions {
		answers = answers || l.awaySince.IsZero()
	}
	for owner, l := range o.sessions {
		if !l.waits && !(l.yields && answers) {
			owners = append(owners, owner)
		}
	}
	slices.Sort(owners)
	return owners
}

// share returns the number of shards for owner. If the division leaves a remainder, the first relays by name
// get one more shard each.
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

func (l *shardRow) take(ask store.LeaseRequest, now time.Time) {
	l.changed = now
	l.owner, l.session, l.Token = ask.Owner, ask.Session, rand.Text()
	l.Epoch++
}

// Guard returns store.ErrLost if the relay of p no longer owns the shard.
func (o *outboxTable) Guard(p store.Progress) error {
	i := slices.IndexFunc(o.shards, func(l shardRow) bool { return l.ID == p.Shard })
	if i < 0 || o.shards[i].owner == "" || o.shards[i].Epoch != p.Epoch || o.shards[i].Token != p.Token {
		return fmt.Errorf("shard %d is not owned with epoch %d: %w", p.Shard, p.Epoch, store.ErrLost)
	}
	return nil
}

// Report stores the progress of a shard.
func (o *outboxTable) Report(p store.Progress, now time.Time) {
	for i := range o.shards {
		l := &o.shards[i]
		if l.ID != p.Shard {
			continue
		}
		l.changed = now
		if p.Cursor != nil {
			l.Cursor = *p.Cursor
		}
		if p.Incarnation != nil {
			l.Incarnation = *p.Incarnation
		}
	}
	for _, a := range p.Deferred {
		o.put(a, now)
	}
	for _, seq := range p.Freed {
		delete(o.deferred, seq)
	}
}

// Shards returns all shards, by ID.
func (o *outboxTable) Shards() []store.Shard {
	out := make([]store.Shard, len(o.shards))
	for i, l := range o.shards {
		out[i] = l.Shard
	}
	return out
}
