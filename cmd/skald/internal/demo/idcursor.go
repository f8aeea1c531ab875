package demo

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/skald-go/skald/examples/shop/table"
	"github.com/skald-go/skald/store"
)

// byID is a driver for a relay that reads "the rows with a larger number than the last one seen", as most pollers do:
// a row whose transaction drew its number early and committed late is never seen. A tick carries the largest number
// that could be seen when it was drawn; of a window only the rows above that of its base are read.
type byID[TTx any] struct {
	store.Driver[TTx]
	db      table.DB
	largest string // statement
	writes  atomic.Int64
}

// cut takes a tick apart.
func cut(tick string) (inner string, seen int64) {
	inner, n, _ := strings.Cut(tick, "@")
	seen, _ = strconv.ParseInt(n, 10, 64) // "" is the beginning
	return inner, seen
}

func (d *byID[TTx]) Tick(ctx context.Context, base string) (string, error) {
	var largest int64
	if err := d.db.QueryRow(ctx, d.largest).Scan(&largest); err != nil {
		return "", fmt.Errorf("largest row: %w", err)
	}
	inner, _ := cut(base)
	tip, err := d.Driver.Tick(ctx, inner)
	if err != nil || tip == inner {
		return base, err
	}
	return fmt.Sprintf("%s@%d", tip, largest), nil
}

func (d *byID[TTx]) Pull(ctx context.Context, w store.Window, limit int) (store.Page, error) {
	base, seen := cut(w.Base)
	w.Base, w.After = base, max(w.After, seen)
	w.Tip, _ = cut(w.Tip)
	return d.Driver.Pull(ctx, w, limit)
}

// Write keeps some transactions open for a while after they have drawn their number, as a busy database does.
func (d *byID[TTx]) Write(ctx context.Context, tx TTx, es ...store.Effect) error {
	err := d.Driver.Write(ctx, tx, es...)
	if err == nil && d.writes.Add(1)%4 == 0 {
		select {
		case <-ctx.Done():
		case <-time.After(30 * time.Millisecond):
		}
	}
	return err
}
