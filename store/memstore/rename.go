package memstore

import (
	"context"
	"time"

	"github.com/skald-go/skald/internal/belonging"
	"github.com/skald-go/skald/internal/control"
	"github.com/skald-go/skald/store"
	"github.com/skald-go/skald/store/memstore/internal/table"
)

// Rename gives what is kept of a consumer to another name.
func (s *Store) Rename(ctx context.Context, r store.Rename) (out store.Renamed, err error) {
	err = s.enter(ctx, func() error {
		d := s.db
		out = store.Renamed{Old: d.belongings(r.Old), New: d.belongings(r.New)}
		if r.Audit == nil || !belonging.Movable(&out, r.Quiet) {
			return nil
		}
		d.rename(r.Old, r.New)
		d.note(*r.Audit)
		out.Done = true
		return nil
	})
	return out, err
}

func (d *database) belongings(consumer string) (b store.Belongings) {
	var heard time.Time
	last := func(at time.Time) {
		if at.After(heard) {
			heard = at
		}
	}
	d.marks.Belonging(consumer, &b)
	for key, s := range d.checkpoints {
		switch {
		case key.consumer != consumer:
		case control.Is(&s):
			b.Controls++
		default:
			if b.Positions++; s.Session != "" {
				last(s.At)
			}
		}
	}
	d.kept.Belonging(consumer, &b)
	for i := range d.apart {
		b.Quarantined += one(d.apart[i].Consumer == consumer)
	}
	d.steps.Belonging(consumer, &b)
	for key, at := range d.kinds {
		if key.consumer == consumer {
			b.Types++
			last(at)
		}
	}
	last(d.consumers[consumer].heard)
	if b.Heard = -1; !heard.IsZero() {
		b.Heard = max(0, d.now().Sub(heard))
	}
	return b
}

// rename moves the rows of all tables. It looks at copies: a map that is written may show what is new.
func (d *database) rename(was, is string) {
	d.marks.Rename(was, is)
	d.kept.Rename(was, is)
	for i := range d.apart {
		if d.apart[i].Consumer == was {
			d.apart[i].Consumer = is
		}
	}
	d.steps.Rename(was, is)
	table.Move(d.checkpoints,
		func(k checkpointKey, s store.Checkpoint) (checkpointKey, store.Checkpoint, bool) {
			return checkpointKey{is, k.partition}, s, k.consumer == was
		})
	table.Move(d.kinds, func(k kindKey, at time.Time) (kindKey, time.Time, bool) {
		return kindKey{is, k.Kind}, at, k.consumer == was
	})
	table.Move(d.consumers,
		func(k string, c consumerRow) (string, consumerRow, bool) { return is, c, k == was })
}
