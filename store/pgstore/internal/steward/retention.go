package steward

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/skald-go/skald/internal/retention"
	"github.com/skald-go/skald/store"
	"github.com/skald-go/skald/store/pgstore/internal/pgrun"
	"github.com/skald-go/skald/store/pgstore/internal/ring"
)

const (
	Day = 24 * time.Hour

	// A transaction may have begun, and with it the time of its rows, so long before a ring that they fell
	// into.
	early = Day

	// Marks of ids of the last hour, and steps of sagas of the last hour, are taken without a look at the
	// floor.
	leastMarks, leastSteps = retention.LeastMarks, 80 * time.Minute

	// by which the time of a row may be ahead of ours, with a slot to spare
	ahead = time.Hour + 20*time.Minute

	leafWait  = 100 * time.Millisecond // for the lock on a leaf; whoever comes behind waits as long
	pruneFor  = 10 * time.Second       // of deletes from one table in one Maintain
	prunePage = 5000                   // rows of one delete
)

// A Keeping is one run of Maintain.
type Keeping struct {
	store.Retention
	Now  time.Time // of the database
	Rows ring.Rings
	ring string // rows as it is stored
	done store.Maintained
}

// maintain empties the slots that are outside of keep. It takes one at a time, in a short transaction: the
// lock first, if it is to be had at once, then the look at what the shards cover, then TRUNCATE.
func (c *Steward) maintain(ctx context.Context, keep store.Retention) (store.Maintained, error) {
	keep, err := retention.OrDefaults(keep)
	if err != nil {
		return store.Maintained{}, fmt.Errorf("maintain: %w", err)
	}
	k, err := c.keeping(ctx, keep, c.pg.Call("Here"), c.pg.Call("Looked", keep.Outbox.Microseconds(), keep.Marks.Microseconds(), keep.Steps.Microseconds(), keep.Sagas.Microseconds()))
	if err == nil {
		err = c.EmptyRows(ctx, &k)
	}
	if err == nil {
		err = c.ForgetMarks(ctx, &k)
	}
	if err == nil {
		err = c.ForgetSteps(ctx, &k)
	}
	if err == nil {
		err = c.ForgetSagas(ctx, &k)
	}
	if err == nil {
		err = c.Deletes(ctx, &k)
	}
	return k.done, err
}

// keeping is a run that begins with first.
func (c *Steward) keeping(ctx context.Context, keep store.Retention, first ...pgrun.Call) (k Keeping, err error) {
	k.Retention = keep
	var now int64
	err = c.pg.Short(ctx, "maintain", append(first, c.pg.Call("Now").Into(&now), c.pg.Call("Ring").Into(&k.ring))...)
	if err == nil {
		k.Now = time.Unix(now, 0)
		k.Rows, err = ring.Parse(k.ring, ring.Default())
	}
	if err == nil {
		err = k.Check()
	}
	k.Marks = max(k.Marks, leastMarks)
	return k, err
}

// oldRows are the leaves on which no row falls that is to be kept.
func (k *Keeping) oldRows() []int {
	live := k.Rows.Live(k.Now.Add(-k.Outbox), k.Now.Add(ahead), Day, early)
	return slices.DeleteFunc(k.Rows.Leaves(), func(n int) bool { return live[n] })
}

// Check bounds the retention by the ring: of the slots one is being filled, and one is left to be emptied.
func (k *Keeping) Check() error {
	if most := time.Duration(k.Rows.Slots()-2) * Day; k.Outbox > most {
		return &store.RetentionError{What: fmt.Sprintf("rows are to be kept %v, the ring has room for %v", k.Outbox, most),
			Remedy: fmt.Sprintf("run: skald migrate --outbox-slots %d", (k.Outbox+Day-1)/Day+2)}
	}
	return nil
}

func (c *Steward) EmptyRows(ctx context.Context, k *Keeping) error {
	for _, n := range k.oldRows() {
		if err := c.leave(c.EmptyRowLeaf(ctx, n, k), pgrun.RowLeaf(n), &k.done); err != nil {
			return err
		}
	}
	return nil
}

func (c *Steward) EmptyRowLeaf(ctx context.Context, n int, k *Keeping) error {
	text := c.pg.RowTexts(n)
	return c.empty(ctx, "skald_outbox", text["RowsIn"], text["EmptyRows"], &k.done.Rows, pgrun.Call{SQL: text["LockRows"]}, c.pg.Call("GuardRing", k.ring), c.covered(text))
}

// covered fails unless every shard has passed all of a leaf's rows.
func (c *Steward) covered(text map[string]string) pgrun.Call {
	return pgrun.Call{SQL: "SELECT " + c.pg.Prefix + "skald_require((" + text["Covered"] + "), 'retention')"}
}

// empty empties a leaf, unless nothing is in it: first the lock, then the guards.
func (c *Steward) empty(ctx context.Context, table, filled, truncate string, count *int64, guards ...pgrun.Call) error {
	var full bool
	if err := c.pg.Short(ctx, "look into slot", pgrun.Call{SQL: filled}.Into(&full)); err != nil || !full {
		return err
	}
	// The guards look for rows that are not covered by an index: a scan of the leaf would hold its lock, for
	// which relays wait, for a minute with 10⁷ rows.
	calls := append([]pgrun.Call{c.pg.Session(leafWait, pgrun.DefaultHandle), c.pg.Call("Walk")}, guards...)
	if err := c.pg.Runner.Run(ctx, append(calls, pgrun.Call{SQL: truncate}, c.pg.Call("Emptied", table))...); err != nil {
		return fmt.Errorf("empty slot: %w", c.pg.Explain(err))
	}
	*count = -1
	return nil
}

// leave notes what was not to be had, and passes on what is an error.
func (c *Steward) leave(err error, table string, done *store.Maintained) error {
	switch {
	case err == nil:
		return nil
	case pgrun.Lost(err):
		done.Left = append(done.Left, table+": a shard has not passed all of its rows yet")
		return nil
	case pgrun.SQLState(err) == "55P03", pgrun.SQLState(err) == "40P01":
		done.Left = append(done.Left, table+": someone has it in hand")
		return nil
	}
	var right *store.RightError
	if errors.As(err, &right) {
		right.What, right.Remedy = "TRUNCATE on "+table, "GRANT TRUNCATE ON "+c.pg.Prefix+table+" TO the role that does the retention"
	}
	return err
}

// Deletes prunes the tables that have no ring.
func (c *Steward) Deletes(ctx context.Context, k *Keeping) error {
	for _, d := range []struct {
		name  string
		args  []any
		table string
	}{{"DeleteSnapshots", nil, ""}, {"DeleteQuarantine", []any{k.Marks.Microseconds()}, "skald_quarantine"}, {"DeleteReservations", nil, ""}} {
		err := c.batches(ctx, k, d.table, func() (n int64, err error) {
			del := c.pg.Call(d.name, d.args...)
			del.Done = func(rows int64) { n = rows }
			err = c.pg.Short(ctx, "prune", del)
			return n, err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// ForgetMarks deletes marks and their answers, and raises the floors.
func (c *Steward) ForgetMarks(ctx context.Context, k *Keeping) error {
	return c.batches(ctx, k, "skald_mark", func() (n int64, err error) {
		err = c.pg.Short(ctx, "forget marks", c.pg.Call("Walk"), c.pg.Call("DeleteMarks", k.Marks.Microseconds(), leastMarks.Microseconds()).Into(&n))
		k.done.Marks += n
		return n, err
	})
}

// ForgetSagas deletes sagas that ended.
func (c *Steward) ForgetSagas(ctx context.Context, k *Keeping) error {
	return c.batches(ctx, k, "skald_saga", func() (n int64, err error) {
		del := c.pg.Call("DeleteSagas", k.Sagas.Microseconds())
		del.Done = func(rows int64) { n = rows }
		err = c.pg.Short(ctx, "forget sagas", c.pg.Call("Walk"), del)
		k.done.Sagas += n
		return n, err
	})
}

// batches deletes batch after batch, each in a short transaction of its own: a rival never waits for longer
// than one of them.
func (c *Steward) batches(ctx context.Context, k *Keeping, table string, one func() (int64, error)) error {
	for until := time.Now().Add(pruneFor); ; {
		n, err := one()
		if err == nil && n > 0 && table != "" {
			err = c.pg.Short(ctx, "prune", c.pg.Call("Emptied", table))
		}
		if err != nil || n < prunePage {
			return err
		}
		if time.Now().After(until) {
			k.done.More = true
			return nil
		}
	}
}

// ForgetSteps deletes steps and raises the floors.
func (c *Steward) ForgetSteps(ctx context.Context, k *Keeping) error {
	before := k.Now.Add(-max(k.Steps, leastSteps)).Truncate(time.Millisecond)
	return c.batches(ctx, k, "skald_step", func() (n int64, err error) {
		err = c.pg.Short(ctx, "forget steps", c.pg.Call("ForgetSteps", before).Into(&n))
		k.done.Steps += n
		return n, err
	})
}
