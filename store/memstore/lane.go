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
	laneRow struct {
		store.Lane
		owner, life string // "": free
	}
	life struct {
		id    string
		until time.Time
		waits bool // for a lane
	}
)

// cut splits the buckets into n lanes.
func cut(n int) []laneRow {
	lanes := make([]laneRow, n)
	for i := range lanes {
		lanes[i].Lane = store.Lane{ID: i, First: i * store.Buckets / n, Last: (i+1)*store.Buckets/n - 1}
	}
	return lanes
}

func (d *database) laneOf(bucket int) int {
	return slices.IndexFunc(d.lanes, func(l laneRow) bool { return l.First <= bucket && bucket <= l.Last })
}

// Lease takes, renews and gives back lanes.
func (s *Store) Lease(ctx context.Context, ask store.Ask) (got store.Leased, err error) {
	err = s.enter(ctx, func() error {
		if err := s.db.notMoved(ask.Knew); err != nil {
			return err
		}
		got = s.db.lease(ask)
		return nil
	})
	if err == nil && ask.Look != nil {
		got.Tip, err = s.Tick(ctx, *ask.Look)
	}
	return got, err
}

func (d *database) lease(ask store.Ask) store.Leased {
	now := d.now()
	maps.DeleteFunc(d.lives, func(owner string, l life) bool { return owner != ask.Owner && !l.until.After(now) })
	if ask.Leave {
		d.leave(ask)
		return store.Leased{Lives: len(d.working())}
	}
	d.keep(ask, now)
	working := d.working()
	got := store.Leased{Lives: len(working), Share: share(len(d.lanes), working, ask.Owner), Waiting: len(d.lives) - len(working)}
	for i := range d.lanes {
		l := &d.lanes[i]
		switch {
		case l.owner != ask.Owner:
			continue
		case slices.Contains(ask.Free, l.ID):
			l.owner, l.life = "", ""
			continue
		case l.life != ask.Life:
			l.take(ask)
		}
		got.Lanes = append(got.Lanes, l.Lane)
	}
	for i := range d.lanes {
		l := &d.lanes[i]
		if slices.Contains(working, l.owner) || len(got.Lanes) >= got.Share || slices.Contains(ask.Free, l.ID) {
			continue
		}
		l.take(ask)
		got.Lanes = append(got.Lanes, l.Lane)
	}
	slices.SortFunc(got.Lanes, func(a, b store.Lane) int { return a.ID - b.ID })
	return got
}

// leave frees all that the owner's life holds and forgets it; a newer life stays.
func (d *database) leave(ask store.Ask) {
	if d.lives[ask.Owner].id == ask.Life {
		delete(d.lives, ask.Owner)
	}
	for i := range d.lanes {
		if l := &d.lanes[i]; l.owner == ask.Owner && l.life == ask.Life {
			l.owner, l.life = "", ""
		}
	}
}

// keep notes that a relay lives. It waits if others hold all lanes there are, or will.
func (d *database) keep(ask store.Ask, now time.Time) {
	delete(d.lives, ask.Owner)
	waits := len(d.working()) >= len(d.lanes) &&
		!slices.ContainsFunc(d.lanes, func(l laneRow) bool { return l.owner == ask.Owner })
	ttl := cmp.Or(ask.TTL, defaultTTL)
	if waits {
		ttl = cmp.Or(ask.Wait, ttl)
	}
	d.lives[ask.Owner] = life{ask.Life, now.Add(ttl), waits}
}

// working are the relays that may hold lanes, sorted.
func (d *database) working() (owners []string) {
	for owner, l := range d.lives {
		if !l.waits {
			owners = append(owners, owner)
		}
	}
	slices.Sort(owners)
	return owners
}

// share deals the lanes out evenly: what is left over goes to the first owners by name.
func share(lanes int, working []string, owner string) int {
	rank := slices.Index(working, owner)
	if rank < 0 {
		return 0
	}
	n, rest := lanes/len(working), lanes%len(working)
	if rank < rest {
		n++
	}
	return n
}

func (l *laneRow) take(ask store.Ask) {
	l.owner, l.life, l.Token = ask.Owner, ask.Life, rand.Text()
	l.Epoch++
}

// guard checks that whoever reports p still owns the lane.
func (d *database) guard(p store.Progress) error {
	i := slices.IndexFunc(d.lanes, func(l laneRow) bool { return l.ID == p.Lane })
	if i < 0 || d.lanes[i].owner == "" || d.lanes[i].Epoch != p.Epoch || d.lanes[i].Token != p.Token {
		return fmt.Errorf("lane %d is not held with epoch %d: %w", p.Lane, p.Epoch, store.ErrLost)
	}
	return nil
}

// progress stores what a lane's owner reports.
func (d *database) progress(p store.Progress) {
	for i := range d.lanes {
		l := &d.lanes[i]
		if l.ID != p.Lane {
			continue
		}
		if p.Cursor != nil {
			l.Cursor = *p.Cursor
		}
		if p.Incarnation != nil {
			l.Incarnation = *p.Incarnation
		}
	}
	for _, a := range p.Aside {
		d.setAside(a)
	}
	for _, seq := range p.Freed {
		delete(d.aside, seq)
	}
}
