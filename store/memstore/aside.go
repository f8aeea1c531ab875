package memstore

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/skald-go/skald/store"
)

type asideRow struct {
	store.Aside
	due time.Time
}

func (d *database) setAside(a store.Aside) {
	was, there := d.aside[a.Seq]
	if there {
		was.Attempts, was.Why = a.Attempts, a.Why
	} else {
		was.Aside = a
		was.Message = copied(a.Message)
	}
	was.Why = clip(was.Why)
	was.due, was.Due = d.now().Add(a.Due), 0
	d.aside[a.Seq] = was
}

// keyOf is what an aside row holds up; rows without a key hold only themselves.
type keyOf struct {
	topic, key string
	alone      int64
}

func (a asideRow) keyOf() keyOf {
	if a.Key == nil {
		return keyOf{topic: a.Topic, alone: a.Seq}
	}
	return keyOf{topic: a.Topic, key: string(a.Key)}
}

// behind is the rows set aside of lanes, by Seq.
func (d *database) behind(lanes []int) []asideRow {
	rows := slices.DeleteFunc(slices.Collect(maps.Values(d.aside)), func(a asideRow) bool {
		return !slices.Contains(lanes, d.lanes[d.laneOf(a.Bucket)].ID)
	})
	slices.SortFunc(rows, func(a, b asideRow) int { return cmp.Compare(a.Seq, b.Seq) })
	return rows
}

// Held lists the keys that have rows set aside.
func (s *Store) Held(ctx context.Context, lanes []int) (out []store.Held, err error) {
	err = s.enter(ctx, func() error {
		seen := map[keyOf]bool{}
		for _, a := range s.db.behind(lanes) {
			if k := a.keyOf(); a.Key != nil && !seen[k] {
				seen[k] = true
				out = append(out, store.Held{Topic: a.Topic, Key: slices.Clone(a.Key), Lane: s.db.lanes[s.db.laneOf(a.Bucket)].ID})
			}
		}
		slices.SortFunc(out, func(a, b store.Held) int {
			return cmp.Or(strings.Compare(a.Topic, b.Topic), slices.Compare(a.Key, b.Key))
		})
		return nil
	})
	return out, err
}

// Retry reads rows that were set aside and are due.
func (s *Store) Retry(ctx context.Context, lanes []int, limit int) (out []store.Aside, err error) {
	err = s.enter(ctx, func() error {
		now, shut, begun := s.db.now(), map[keyOf]bool{}, map[keyOf]bool{}
		for _, a := range s.db.behind(lanes) {
			k := a.keyOf()
			if !begun[k] {
				begun[k] = true
				shut[k] = a.due.After(now)
			} else if a.Attempts > 0 {
				shut[k] = true
			}
			if shut[k] {
				continue
			}
			shut[k] = a.Attempts > 0
			if len(out) == limit {
				return nil
			}
			out = append(out, a.out())
		}
		return nil
	})
	return out, err
}

func (a asideRow) out() store.Aside {
	a.Message = copied(a.Message)
	return a.Aside
}
