package demo

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/skald-go/skald/examples/shop/table"
	"github.com/skald-go/skald/store"
)

// polling is a driver for a relay that reads only rows with a larger value than the last row, as most
// pollers do. So it misses a row if the row's transaction takes its value early and commits late. At each
// tick, polling records the largest visible value. Of a window of rows it returns only those above the value
// at the begin of the window.
type polling[TTx any] struct {
	store.Driver[TTx]
	db     table.DB
	by     polledBy
	polled *polled
	holds  bool // keep some transactions of customers open after they took their values
}

// polledBy has the value that a poller compares.
type polledBy struct {
	largest string                               // the statement for the largest committed value
	drawn   func(context.Context) (int64, error) // an upper bound of the values that were taken so far
	value   func(store.Row) int64                // the value of a row
}

func bySeq(r store.Row) int64  { return r.Seq }
func byTime(r store.Row) int64 { return r.Time.UnixMicro() }

// polled has the values that the relays of one service saw in its database, in all sessions of the service.
type polled struct {
	mu      sync.Mutex
	seen    map[string]int64 // the largest values by tick
	largest int64
	grown   chan struct{} // closed when largest grows
	writes  int
}

func newPolled() *polled {
	return &polled{seen: map[string]int64{}, grown: make(chan struct{})}
}

// number returns a function that runs a statement and returns its number.
func number(db table.DB, statement string) func(context.Context) (int64, error) {
	return func(ctx context.Context) (n int64, err error) {
		if err := db.QueryRow(ctx, statement).Scan(&n); err != nil {
			return 0, fmt.Errorf("read the last drawn value: %w", err)
		}
		return n, nil
	}
}

func (p *polled) saw(tip string, largest int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if _, again := p.seen[tip]; !again { // a repeated tick keeps its first value
		p.seen[tip] = largest
	}
	if largest > p.largest {
		p.largest = largest
		close(p.grown)
		p.grown = make(chan struct{})
	}
}

// largestAt returns the largest value at a tick. It returns 0 for the first tick, or for a tick of an
// earlier process.
func (p *polled) largestAt(tick string) int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.seen[tick]
}

// fourth returns true for every fourth write.
func (p *polled) fourth() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.writes++
	return p.writes%4 == 0
}

// beyond waits until a relay has seen a value above value, for at most longOpen.
func (p *polled) beyond(ctx context.Context, value int64) {
	ctx, stop := context.WithTimeout(ctx, longOpen)
	defer stop()
	for {
		p.mu.Lock()
		over, grown := p.largest > value, p.grown
		p.mu.Unlock()
		if over {
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-grown:
		}
	}
}

const longOpen = time.Second

// look calls the function read. It records the largest value before this call, for the tick that read
// returns.
func (d *polling[TTx]) look(ctx context.Context, read func() (tip string, err error)) error {
	var largest int64
	if err := d.db.QueryRow(ctx, d.by.largest).Scan(&largest); err != nil {
		return fmt.Errorf("read the largest value: %w", err)
	}
	tip, err := read()
	if err == nil {
		d.polled.saw(tip, largest)
	}
	return err
}

func (d *polling[TTx]) Lease(ctx context.Context, ask store.LeaseRequest) (l store.Leased, err error) {
	if ask.SnapshotBase == nil {
		return d.Driver.Lease(ctx, ask)
	}
	err = d.look(ctx, func() (string, error) {
		l, err = d.Driver.Lease(ctx, ask)
		return l.Tip, err
	})
	return l, err
}

func (d *polling[TTx]) Pull(ctx context.Context, w store.Window, limit int) (store.Page, error) {
	seen := d.polled.largestAt(w.Base)
	for {
		page, err := d.Driver.Pull(ctx, w, limit)
		if err != nil {
			return page, err
		}
		var above []store.Row
		for _, r := range page.Rows {
			w.After = r.Seq
			if d.by.value(r) > seen {
				above = append(above, r)
			}
		}
		if len(above) > 0 || page.Done {
			page.Rows = above
			return page, nil
		}
	}
}

// Write keeps every fourth transaction open after it took its value, until a relay has seen a larger value.
// On a busy database this happens by chance.
func (d *polling[TTx]) Write(ctx context.Context, tx TTx, es ...store.Effect) error {
	err := d.Driver.Write(ctx, tx, es...)
	if err != nil || !d.holds || !d.polled.fourth() {
		return err
	}
	drawn, err := d.by.drawn(ctx)
	if err == nil {
		d.polled.beyond(ctx, drawn)
	}
	return err
}
