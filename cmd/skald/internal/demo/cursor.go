package demo

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/skald-go/skald/examples/shop/table"
	"github.com/skald-go/skald/store"
)

// polling is a driver for a relay that reads "the rows with a larger value than the last one seen", as most pollers do:
// a row whose transaction drew its value early and committed late is never seen. With each tick it remembers the largest
// value that could be seen when it was drawn; of a window only the rows above that of its base are read.
type polling[TTx any] struct {
	store.Driver[TTx]
	db      table.DB
	largest string                // statement
	value   func(store.Row) int64 // as largest has it
	seen    *sync.Map             // the largest values by tick, of all lives
	writes  atomic.Int64
}

func bySeq(r store.Row) int64  { return r.Seq }
func byTime(r store.Row) int64 { return r.Time.UnixMicro() }

// look draws a tick by do.
func (d *polling[TTx]) look(ctx context.Context, do func() (tip string, err error)) error {
	var largest int64
	if err := d.db.QueryRow(ctx, d.largest).Scan(&largest); err != nil {
		return fmt.Errorf("largest row: %w", err)
	}
	tip, err := do()
	if err == nil {
		d.seen.LoadOrStore(tip, largest) // the base again has its value already
	}
	return err
}

func (d *polling[TTx]) Tick(ctx context.Context, base string) (tip string, err error) {
	err = d.look(ctx, func() (string, error) {
		tip, err = d.Driver.Tick(ctx, base)
		return tip, err
	})
	return tip, err
}

func (d *polling[TTx]) Lease(ctx context.Context, ask store.Ask) (l store.Leased, err error) {
	if ask.Look == nil {
		return d.Driver.Lease(ctx, ask)
	}
	err = d.look(ctx, func() (string, error) {
		l, err = d.Driver.Lease(ctx, ask)
		return l.Tip, err
	})
	return l, err
}

func (d *polling[TTx]) Pull(ctx context.Context, w store.Window, limit int) (store.Page, error) {
	seen := int64(0) // the beginning, or a tick of a run before this one
	if v, ok := d.seen.Load(w.Base); ok {
		seen = v.(int64)
	}
	for {
		page, err := d.Driver.Pull(ctx, w, limit)
		if err != nil {
			return page, err
		}
		var above []store.Row
		for _, r := range page.Rows {
			w.After = r.Seq
			if d.value(r) > seen {
				above = append(above, r)
			}
		}
		if len(above) > 0 || page.Done {
			page.Rows = above
			return page, nil
		}
	}
}

// Write keeps some transactions open for a while after they have drawn their values, as a busy database does.
func (d *polling[TTx]) Write(ctx context.Context, tx TTx, es ...store.Effect) error {
	err := d.Driver.Write(ctx, tx, es...)
	if err == nil && d.writes.Add(1)%4 == 0 {
		select {
		case <-ctx.Done():
		case <-time.After(30 * time.Millisecond):
		}
	}
	return err
}
