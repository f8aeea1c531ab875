package memstore

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/skald-go/skald/store"
)

type spotKey struct{ consumer, lane string }

// spotsOf is how a consumer stands. A database in memory has no server that could be another one.
func (d *database) spotsOf(consumer string) (out store.Spots) {
	for key, s := range d.spots {
		if key.consumer == consumer {
			out.Spots = append(out.Spots, s)
		}
	}
	slices.SortFunc(out.Spots, func(a, b store.Spot) int { return cmp.Compare(a.Lane, b.Lane) })
	return out
}

// Spots tells how a consumer stands.
func (s *Store) Spots(ctx context.Context, consumer string) (out store.Spots, err error) {
	err = s.enter(ctx, func() error {
		out = s.db.spotsOf(consumer)
		return nil
	})
	return out, err
}

// Occupy notes who has lanes.
func (s *Store) Occupy(ctx context.Context, consumer, life, note string, lanes []store.Spot) (out store.Spots, err error) {
	err = s.enter(ctx, func() error {
		out = s.db.spotsOf(consumer)
		for _, l := range lanes {
			was, there := s.db.spots[spotKey{consumer, l.Lane}]
			if there && was.Origin == l.Origin {
				l = was
			}
			if was.Life != life {
				s.db.unclaim(consumer, was.Life)
			}
			if was.Life != "" && was.Life != life && was.Origin == l.Origin {
				l.Suspect = was.Reach
			}
			l.Life, l.Note, l.At = life, note, s.db.now()
			s.db.spots[spotKey{consumer, l.Lane}] = l
		}
		return nil
	})
	return out, err
}

// unclaim makes due what a life has in hand.
func (d *database) unclaim(consumer, life string) {
	for id, k := range d.kept {
		if life != "" && k.Consumer == consumer && k.Life == life && k.due.After(d.now()) {
			k.due = d.now()
			d.kept[id] = k
		}
	}
}

// Advance stores how far lanes have come.
func (s *Store) Advance(ctx context.Context, consumer, server, note string, lanes []store.Spot) (out store.Spots, err error) {
	err = s.enter(ctx, func() error {
		for _, l := range lanes {
			if was, there := s.db.spots[spotKey{consumer, l.Lane}]; there && was.Note == l.Note && server == "" {
				l.Origin, l.Suspect, l.Note, l.At = was.Origin, was.Suspect, note, s.db.now()
				s.db.spots[spotKey{consumer, l.Lane}] = l
			}
		}
		out = s.db.spotsOf(consumer)
		return nil
	})
	return out, err
}

// rewind checks the guard of r and stages it.
func (tx *Tx) rewind(r store.Rewind) error {
	key := spotKey{r.Consumer, r.Lane}
	was, there := tx.s.db.spots[key]
	if !there || was.Origin != r.Origin || was.Position >= 0 && was.Position <= r.Position {
		return fmt.Errorf("rewind lane %s: %w", r.Lane, store.ErrLost)
	}
	tx.keeps = append(tx.keeps, func(d *database) {
		s := d.spots[key]
		s.Position, s.Note, s.At = r.Position, r.Note, d.now()
		d.spots[key] = s
	})
	return nil
}
