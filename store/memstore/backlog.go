package memstore

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/skald-go/skald/store"
)

// Backlog tells what is not published yet.
func (s *Store) Backlog(ctx context.Context) (b store.Backlog, err error) {
	err = s.enter(ctx, func() error {
		b = s.db.backlog()
		return nil
	})
	return b, err
}

func (d *database) backlog() store.Backlog {
	now := d.now()
	b := store.Backlog{Source: d.source, Aside: int64(len(d.aside))}
	for _, r := range d.rows {
		b.Retained = max(b.Retained, now.Sub(r.at))
		if _, aside := d.aside[r.Seq]; aside || d.passed(d.lanes[d.laneOf(r.Bucket)], r) {
			continue
		}
		b.Pending++
		b.Oldest = max(b.Oldest, now.Sub(r.Time)) // as the writer has it
	}
	for _, l := range d.lanes {
		if life, ok := d.lives[l.owner]; !ok || life.id != l.life || !life.until.After(now) {
			b.Free++
		}
	}
	b.Kept = d.keptFor(now)
	return b
}

// keptFor is what is kept for each consumer that something is kept for.
func (d *database) keptFor(now time.Time) (out []store.Kept) {
	all := map[string]*store.Kept{}
	of := func(consumer string) *store.Kept {
		if all[consumer] == nil {
			all[consumer] = &store.Kept{Consumer: consumer}
		}
		return all[consumer]
	}
	for _, k := range d.kept {
		n := of(k.Consumer)
		count(&n.Keeping, k, now)
		if k.Call != nil {
			n.Calls++
			n.Called = max(n.Called, now.Sub(k.Call.Since))
		}
	}
	for _, q := range d.apart {
		if !q.Admitted.IsZero() {
			continue
		}
		k := of(q.Consumer)
		k.Apart = max(k.Apart, now.Sub(q.At))
		if q.Why == store.Conflict {
			k.Conflicts++
		} else {
			k.TooOld++
		}
	}
	for _, consumer := range slices.Sorted(maps.Keys(all)) {
		out = append(out, *all[consumer])
	}
	return out
}

// count counts k in.
func count(n *store.Keeping, k keptRow, now time.Time) {
	if k.Dead != nil {
		n.Dead++
		return
	}
	n.Parked++
	n.Bytes += k.bytes()
	n.Oldest = max(n.Oldest, now.Sub(k.Since))
}
