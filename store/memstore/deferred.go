package memstore

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/skald-go/skald/internal/weight"
	"github.com/skald-go/skald/store"
)

type asideRow struct {
	store.DeferredRow
	due time.Time
}

func (d *database) setAside(a store.DeferredRow) {
	was, there := d.aside[a.Seq]
	if !there && a.Attempts > 1 {
		return // it was dropped meanwhile
	}
	if there {
		was.Attempts, was.Why = a.Attempts, a.Why
	} else {
		was.DeferredRow = a
		if i := slices.IndexFunc(d.rows, func(r row) bool { return r.Seq == a.Seq }); a.Fault != "" &&
			i >= 0 {
			was.Row = d.rows[i].Row // as it lies there
		}
		was.Message = copied(was.Message)
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

// behind is the rows deferred of shards, by Seq.
func (d *database) behind(shards []int) []asideRow {
	rows := slices.DeleteFunc(slices.Collect(maps.Values(d.aside)), func(a asideRow) bool {
		return !slices.Contains(shards, d.shards[d.shardOf(a.Bucket)].ID)
	})
	slices.SortFunc(rows, func(a, b asideRow) int { return cmp.Compare(a.Seq, b.Seq) })
	return rows
}

// Deferred reads rows that the broker refused, and those that wait after them.
func (s *Store) Deferred(ctx context.Context, q store.DeferredQuery) (out store.Deferred, err error) {
	if q.Keys {
		out.Keys, err = s.deferredKeys(ctx, q.Shards)
	}
	if err == nil && q.Due > 0 {
		out.Due, err = s.dueRows(ctx, q.Shards, q.Due)
	}
	return out, err
}

// deferredKeys lists the keys that have rows deferred.
func (s *Store) deferredKeys(ctx context.Context, shards []int) (out []store.Held, err error) {
	err = s.enter(ctx, func() error {
		seen := map[keyOf]bool{}
		for _, a := range s.db.behind(shards) {
			if k := a.keyOf(); a.Key != nil && !seen[k] {
				seen[k] = true
				out = append(out, store.Held{Topic: a.Topic, Key: slices.Clone(a.Key),
					Shard: s.db.shards[s.db.shardOf(a.Bucket)].ID})
			}
		}
		slices.SortFunc(out, func(a, b store.Held) int {
			return cmp.Or(strings.Compare(a.Topic, b.Topic), slices.Compare(a.Key, b.Key))
		})
		return nil
	})
	return out, err
}

// dueRows reads rows that were deferred and are due.
func (s *Store) dueRows(ctx context.Context, shards []int, limit int) (out []store.DeferredRow, err error) {
	err = s.enter(ctx, func() error {
		bytes := 0
		now, shut, begun := s.db.now(), map[keyOf]bool{}, map[keyOf]bool{}
		for _, a := range s.db.behind(shards) {
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
			if bytes += weight.Bytes(&a.Message); len(out) == limit || bytes > store.PageBytes &&
				len(out) > 0 {
				return nil
			}
			out = append(out, a.out())
		}
		return nil
	})
	return out, err
}

func (a asideRow) out() store.DeferredRow {
	a.Message = copied(a.Message)
	return a.DeferredRow
}
