package memstore

import (
	"context"

	"github.com/skald-go/skald/internal/column"
	"github.com/skald-go/skald/store"
)

// Rename moves the rows of a consumer to another name, if no process of either consumer is active.
func (s *Store) Rename(ctx context.Context, r store.Rename) (out store.Renamed, err error) {
	err = s.enter(ctx, func() error {
		d := s.db
		out = store.Renamed{Old: d.belongings(r.Old), New: d.belongings(r.New)}
		if r.Audit == nil || !column.Movable(&out, r.Quiet) {
			return nil
		}
		d.marks.Rename(r.Old, r.New)
		d.kept.Rename(r.Old, r.New)
		d.quarantine.Rename(r.Old, r.New)
		d.steps.Rename(r.Old, r.New)
		d.consumers.Rename(r.Old, r.New)
		d.audit.Note(*r.Audit, d.now())
		out.Done = true
		return nil
	})
	return out, err
}

func (d *database) belongings(consumer string) (b store.ConsumerRows) {
	d.marks.Belonging(consumer, &b)
	d.kept.Belonging(consumer, &b)
	d.quarantine.Belonging(consumer, &b)
	d.steps.Belonging(consumer, &b)
	d.consumers.Belonging(consumer, &b, d.now())
	return b
}
