package memstore

import (
	"context"

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
	return b
}
