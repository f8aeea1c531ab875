package memstore

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/skald-go/skald/store"
)

type checkpointKey struct{ consumer, partition string }

// checkpoints are how far a consumer has come. A database in memory has no server that could be another one.
func (d *database) attended(consumer string) (out store.Attended) {
	for key, s := range d.checkpoints {
		if key.consumer == consumer {
			out.Checkpoints = append(out.Checkpoints, s)
		}
	}
	slices.SortFunc(out.Checkpoints,
		func(a, b store.Checkpoint) int { return cmp.Compare(a.Partition, b.Partition) })
	return out
}

// Attend reads how far a consumer has come, and writes what its process knows.
func (s *Store) Attend(ctx context.Context, a store.Attend) (out store.Attended, err error) {
	err = s.enter(ctx, func() error {
		var kinds []store.Kind
		if a.Beat != nil {
			kinds = s.db.beat(a.Consumer, *a.Beat)
		}
		if a.Take {
			out = s.db.attended(a.Consumer)
			s.db.take(a)
		} else {
			s.db.advance(a)
			out = s.db.attended(a.Consumer)
		}
		out.Kinds = kinds
		return nil
	})
	return out, err
}

func (d *database) take(a store.Attend) {
	for _, l := range a.Checkpoints {
		was, there := d.checkpoints[checkpointKey{a.Consumer, l.Partition}]
		if there && was.Origin == l.Origin {
			l = was
		}
		if was.Session != a.Session {
			d.kept.Unclaim(a.Consumer, was.Session, d.now())
		}
		if was.Session != "" && was.Session != a.Session && was.Origin == l.Origin {
			l.CrashSuspect = was.InFlightEnd
		}
		l.Session, l.Stamp, l.At = a.Session, a.Stamp, d.now()
		d.checkpoints[checkpointKey{a.Consumer, l.Partition}] = l
	}
}

func (d *database) advance(a store.Attend) {
	for _, l := range a.Checkpoints {
		if was, there := d.checkpoints[checkpointKey{a.Consumer, l.Partition}]; there &&
			was.Stamp == l.Stamp && a.Server == "" {
			l.Origin, l.CrashSuspect, l.Stamp, l.At = was.Origin, was.CrashSuspect, a.Stamp, d.now()
			d.checkpoints[checkpointKey{a.Consumer, l.Partition}] = l
		}
	}
}

// rewind checks the guard of r and stages it.
func (tx *Tx) rewind(r *store.Rewind) error {
	key := checkpointKey{r.Consumer, r.Partition}
	was, there := tx.s.db.checkpoints[key]
	if !there || was.Origin != r.Origin || was.Position >= 0 && was.Position <= r.Position {
		return fmt.Errorf("rewind partition %s: %w", r.Partition, store.ErrLost)
	}
	d := tx.s.db
	tx.changes = append(tx.changes, func(now time.Time) {
		s := d.checkpoints[key]
		s.Position, s.Stamp, s.At = r.Position, r.Stamp, now
		d.checkpoints[key] = s
	})
	return nil
}
