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
	// patience is how long nothing may change in the databases before the run counts as stuck, in looks of
	// lookMost each: on a busy machine looks take longer, and so does all else. A broker that starts again
	// may take most of it. With a safeguard taken out that is how many runs end.
	patience          = 2 * time.Minute
	sabotagedPatience = 4 * time.Second
	// multiplied is how many rows for each order end a run in which messages are handled again and again: a
	// dozen is the most that a shop with all its safeguards writes for one, and half of that the rule.
	multiplied = 20
)

// rest waits until all orders have ended and all that was said has been heard, by looking into the databases;
// or until nothing has changed there for too long, which the auditor will explain.
func (c *crew) rest(ctx context.Context) error {
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
		} else if over, err := c.over(ctx, dbs, now); over || err != nil || quiet > most {
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

// runaway tells that repeats are handled, and what they say is repeated, faster than they can end: the busier
// the machine, the more of them are under way at the next fault. The auditor has enough to show.
func (c *crew) runaway(now audit.Tally) bool {
	return c.o.Sabotage != "" && now.Written > multiplied*c.o.Orders
}

// over asks the auditor whether anything is still to come, once it may be that nothing is.
func (c *crew) over(ctx context.Context, dbs map[string]table.DB, now audit.Tally) (bool, error) {
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
	return c.mended(ctx)
}

func (c *crew) progress(t audit.Tally) {
	if c.o.Progress != nil {
		c.o.Progress(Progress{c.o.Orders, t})
	}
}
