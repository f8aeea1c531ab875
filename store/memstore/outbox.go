package memstore

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/internal/weight"
	"github.com/skald-go/skald/store"
)

// publish makes rows visible. A transaction that drew its numbers early may commit late: rows stay sorted.
func (d *database) publish(rows []row) {
	d.commits++
	for _, r := range rows {
		r.commit = d.commits
		if n := len(d.rows); n == 0 || d.rows[n-1].Seq < r.Seq {
			d.rows = append(d.rows, r)
			continue
		}
		d.rows = slices.Insert(d.rows, d.after(r.Seq), r)
	}
}

// after is the index of the first row with a larger number than seq.
func (d *database) after(seq int64) int {
	i, _ := slices.BinarySearchFunc(d.rows, seq+1, func(r row, s int64) int { return cmp.Compare(r.Seq, s) })
	return i
}

// A tick is the number of a commit, with the database that counted it.
func (d *database) tick(commit int64) string { return d.id + ":" + strconv.FormatInt(commit, 10) }

func (d *database) commitOf(tick string) (int64, error) {
	if tick == "" {
		return 0, nil
	}
	id, text, _ := strings.Cut(tick, ":")
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || id != d.id || n < 1 || n > d.commits {
		return 0, fmt.Errorf("tick %q: %w", tick, store.ErrMoved)
	}
	return n, nil
}

// snapshot looks for rows behind base.
func (s *Store) snapshot(ctx context.Context, base string) (tip string, err error) {
	err = s.enter(ctx, func() error {
		from, err := s.db.commitOf(base)
		if err != nil {
			return err
		}
		tip = base
		if slices.ContainsFunc(s.db.rows, func(r row) bool { return r.commit > from }) {
			tip = s.db.tick(s.db.commits)
		}
		return nil
	})
	return tip, err
}

// Pull reads a page of a window.
func (s *Store) Pull(ctx context.Context, w store.Window, limit int) (page store.Page, err error) {
	err = s.enter(ctx, func() error {
		d := s.db
		base, err := d.commitOf(w.Base)
		if err != nil {
			return err
		}
		tip, err := d.commitOf(w.Tip)
		if err != nil {
			return err
		}
		bytes := 0
		for _, r := range d.rows[d.after(w.After):] {
			if r.commit <= base || r.commit > tip || !within(w.Buckets, r.Bucket) {
				continue
			}
			if bytes += weight.Bytes(&r.Message); len(page.Rows) == limit || bytes > store.PageBytes &&
				len(page.Rows) > 0 {
				return nil
			}
			page.Rows = append(page.Rows, r.out())
		}
		page.Done = true
		return nil
	})
	return page, err
}

func within(ranges [][2]int, bucket int) bool {
	return ranges == nil || slices.ContainsFunc(ranges,
		func(r [2]int) bool { return r[0] <= bucket && bucket <= r[1] })
}

// out is a row that the caller may keep and change.
func (r row) out() store.Row {
	r.Message = copied(r.Message)
	return r.Row
}

// copied shares no bytes with m and keeps the difference between nil and empty.
func copied(m skald.Message) skald.Message {
	m.Key, m.Data, m.Headers = bytes.Clone(m.Key), bytes.Clone(m.Data), slices.Clone(m.Headers)
	for i := range m.Headers {
		m.Headers[i].Value = bytes.Clone(m.Headers[i].Value)
	}
	return m
}
