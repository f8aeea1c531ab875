package sqlitestore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/skald-go/skald/internal/column"
	"github.com/skald-go/skald/store"
	"github.com/skald-go/skald/store/sqlitestore/internal/sqlexec"
)

// snapshot returns the tick of the last row, or base if no row is after base. With synchronous=FULL, each
// visible row is on the disk.
func (o *outboxTable) snapshot(ctx context.Context, base string) (string, error) {
	from, err := parseTick(base)
	if err != nil {
		return "", sqlexec.Failed("tick", err)
	}
	tip, err := o.tip(ctx)
	if err != nil {
		return "", sqlexec.Failed("tick", err)
	}
	switch {
	case tip < from:
		return "", fmt.Errorf("tick: base is %d, but the last row is %d: %w", from, tip, store.ErrMoved)
	case tip == from:
		return base, nil
	}
	return strconv.FormatInt(tip, 10), nil
}

// tip returns the largest seq that the outbox ever used, also if that row is deleted.
func (o *outboxTable) tip(ctx context.Context) (tip int64, err error) {
	p, err := o.run.Prepare(ctx)
	if err != nil {
		return 0, err
	}
	err = p.Row(ctx, "Tip").Scan(&tip)
	return tip, err
}

func parseTick(tick string) (int64, error) {
	if tick == "" {
		return 0, nil
	}
	n, err := strconv.ParseInt(tick, 10, 64)
	if err != nil || n < 1 {
		return 0, fmt.Errorf("tick %q: %w", tick, store.ErrMoved)
	}
	return n, nil
}

// Pull reads a page of the rows in a window.
func (o *outboxTable) Pull(ctx context.Context, w store.Window, limit int) (page store.Page, err error) {
	base, err := parseTick(w.Base)
	if err != nil {
		return page, sqlexec.Failed("pull", err)
	}
	tip, err := parseTick(w.Tip)
	if err != nil {
		return page, sqlexec.Failed("pull", err)
	}
	end, err := o.tip(ctx)
	if err != nil {
		return page, sqlexec.Failed("pull", err)
	}
	if max(base, tip) > end {
		return page, fmt.Errorf("pull from %d to %d, but the last row is %d: %w", base, tip, end,
			store.ErrMoved)
	}
	first, last := enclosing(w.Buckets)
	rows, err := o.run.Query(ctx, "Pull", max(base, w.After), tip, first, last)
	if err != nil {
		return page, sqlexec.Failed("pull", err)
	}
	if err := fill(&page, rows, w.Buckets, limit); err != nil {
		return store.Page{}, sqlexec.Failed("pull", err)
	}
	return page, nil
}

// fill adds rows in buckets to the page until it has limit rows or too many bytes.
func fill(page *store.Page, rows *sql.Rows, buckets [][2]int, limit int) (err error) {
	defer func() { err = errors.Join(err, rows.Close()) }()
	for bytes := 0; rows.Next(); {
		r, err := scanRow(rows)
		if err != nil {
			return err
		}
		if !sessionOf(buckets, r.Bucket) {
			continue
		}
		if bytes += column.MessageBytes(&r.Message); len(page.Rows) == limit || bytes > store.PageBytes &&
			len(page.Rows) > 0 {
			return nil
		}
		page.Rows = append(page.Rows, r)
	}
	page.Done = rows.Err() == nil
	return rows.Err()
}

// enclosing returns the smallest range that includes all ranges. The statement selects this range, and fill
// skips the rows between the ranges.
func enclosing(ranges [][2]int) (first, last int) {
	if ranges == nil {
		return 0, store.Buckets - 1
	}
	first, last = store.Buckets, -1
	for _, r := range ranges {
		first, last = min(first, r[0]), max(last, r[1])
	}
	return first, last
}

func sessionOf(ranges [][2]int, bucket int) bool {
	return ranges == nil || slices.ContainsFunc(ranges,
		func(r [2]int) bool { return r[0] <= bucket && bucket <= r[1] })
}
