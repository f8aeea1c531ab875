package demo

import (
	"context"
	"time"

	"github.com/skald-go/skald/examples/shop/audit"
	"github.com/skald-go/skald/examples/shop/table"
)

const (
	lookFirst = 20 * time.Millisecond
	lookMost  = 250 * time.Millisecond
	// patience is the time without a change in the databases after which the run counts as stuck. It counts
	// only the pauses between two reads, so a busy machine gets more time. The restart of a broker may take
	// most of it. sabotagedPatience is short, because many runs without a safeguard get stuck.
	patience          = 2 * time.Minute
	sabotagedPatience = 4 * time.Second
	// multiplied is the number of rows per order at which a run counts as a runaway. With all safeguards a
	// shop writes at most a dozen rows for an order.
	multiplied = 20
)

// awaitEnd waits until all orders have ended and all messages are handled. It also returns if the databases
// have not changed for too long: then the auditor will report the broken promises.
func (c *crew) awaitEnd(ctx context.Context) error {
	dbs, err := c.site.Read(ctx)
	if err != nil {
		return err
	}
	most := patience
	if c.o.Sabotage != "" {
		most = sabotagedPatience
	}
	var last audit.Tally
	quiet, wait := time.Duration(0), lookFirst
	for {
		now, err := audit.Count(ctx, dbs)
		if err != nil {
			return err
		}
		c.progress(now)
		if c.runaway(now) {
			return nil
		}
		if now != last {
			last, quiet = now, 0
		} else if over, err := c.isOver(ctx, dbs, now); over || err != nil || quiet > most {
			return err
		}
		quiet += wait
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(wait):
		}
		wait = min(wait*5/4, lookMost)
	}
}

// runaway returns true if duplicates cause more duplicates without an end. The databases then have enough
// evidence for the auditor.
func (c *crew) runaway(now audit.Tally) bool {
	return c.o.Sabotage != "" && now.Written > multiplied*c.o.Orders
}

// isOver returns true if the auditor finds no order and no message in progress.
func (c *crew) isOver(ctx context.Context, dbs map[string]table.DB, now audit.Tally) (bool, error) {
	if now.Confirmed+now.Cancelled < c.o.Orders {
		return false, nil
	}
	found, err := audit.Run(ctx, dbs)
	for _, one := range found {
		if (one.Name == "delivered_to_all" || one.Name == "orders_ended") && !one.OK {
			return false, nil
		}
	}
	if err != nil {
		return true, err
	}
	return c.repaired(ctx)
}

func (c *crew) progress(t audit.Tally) {
	if c.o.Progress != nil {
		c.o.Progress(Progress{c.o.Orders, t})
	}
}
