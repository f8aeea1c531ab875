package pgstore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/skald-go/skald/store"
)

const (
	day       = 24 * time.Hour
	keepRows  = 7 * day
	keepMarks = 30 * day
	// The rings are no longer: of the slots one is being filled, and one is left to be emptied.
	mostRows  = (rowSlots - 2) * day
	mostMarks = (markSlots - 3) * markSlot

	leafWait = 100 * time.Millisecond // for the lock on a leaf; whoever comes behind waits as long
	batches  = 20                     // of deletes in one Maintain
)

// Maintain empties the slots that are outside of keep. It takes one at a time, in a short transaction: the lock
// first, if it is to be had at once, then the look at what the lanes cover, then TRUNCATE.
func (c *core) Maintain(ctx context.Context, keep store.Retention) (store.Maintained, error) {
	var done store.Maintained
	rows, marks := cmp.Or(keep.Outbox, keepRows), cmp.Or(keep.Marks, keepMarks)
	switch {
	case rows < 0 || rows > mostRows:
		return done, fmt.Errorf("maintain: the outbox keeps its rows 0 to %v, not %v", mostRows, rows)
	case marks < rows || marks > mostMarks:
		return done, fmt.Errorf("maintain: marks are kept %v (as long as the rows) to %v, not %v", rows, mostMarks, marks)
	}
	var now int64
	if err := c.short(ctx, "maintain", c.call("Now").into(&now)); err != nil {
		return done, err
	}
	at := time.Unix(now, 0)
	err := c.emptyRows(ctx, at, rows, &done)
	if err == nil {
		err = c.emptyMarks(ctx, at, marks, &done)
	}
	if err == nil {
		err = c.deletes(ctx, marks, &done)
	}
	return done, err
}

// live tells whether a slot may hold what is younger than keep, or will soon.
func live(slot, slots int, width time.Duration, now time.Time, keep time.Duration) bool {
	w := int64(width / time.Second)
	first, last := now.Add(-keep).Unix()/w, now.Add(ahead+skew).Unix()/w
	for n := first; n <= last; n++ {
		if int(n%int64(slots)) == slot {
			return true
		}
	}
	return false
}

// errUncovered keeps the transaction from going on to TRUNCATE.
var errUncovered = errors.New("a lane has not passed all of its rows yet")

func (c *core) emptyRows(ctx context.Context, now time.Time, keep time.Duration, done *store.Maintained) error {
	for slot := range rowSlots {
		if live(slot, rowSlots, day, now, keep) {
			continue
		}
		text := c.rows[slot]
		err := c.empty(ctx, text["RowsIn"], text["LockRows"], text["Covered"], text["EmptyRows"], &done.Rows)
		if err = c.leave(err, fmt.Sprintf("skald_outbox_%d", slot), done); err != nil {
			return err
		}
	}
	return nil
}

func (c *core) emptyMarks(ctx context.Context, now time.Time, keep time.Duration, done *store.Maintained) error {
	for slot := range markSlots {
		if live(slot, markSlots, markSlot, now, keep) {
			continue
		}
		text := c.marks[slot]
		err := c.empty(ctx, text["MarksIn"], text["LockMarks"], "", text["EmptyMarks"], &done.Marks)
		if err = c.leave(err, fmt.Sprintf("skald_mark_%02d", slot), done); err != nil {
			return err
		}
	}
	return nil
}

// empty empties a leaf, unless nothing is in it.
func (c *core) empty(ctx context.Context, filled, lock, covered, truncate string, count *int64) error {
	var full bool
	if err := c.short(ctx, "look into slot", call{sql: filled}.into(&full)); err != nil || !full {
		return err
	}
	calls := []call{c.session(leafWait, defaultHandle), {sql: lock}}
	if covered != "" {
		calls = append(calls, call{sql: "SELECT " + c.prefix + "skald_guard((" + covered + "), 'retention')"})
	}
	if err := c.runner.run(ctx, append(calls, call{sql: truncate})...); err != nil {
		return fmt.Errorf("empty slot: %w", c.explain(err))
	}
	*count = -1
	return nil
}

// leave notes what was not to be had, and passes on what is an error.
func (c *core) leave(err error, table string, done *store.Maintained) error {
	switch {
	case err == nil:
		return nil
	case lost(err):
		done.Left = append(done.Left, table+": "+errUncovered.Error())
		return nil
	case state(err) == "55P03", state(err) == "40P01":
		done.Left = append(done.Left, table+": someone has it in hand")
		return nil
	}
	var right *store.RightError
	if errors.As(err, &right) {
		right.What, right.Remedy = "TRUNCATE on "+table, "GRANT TRUNCATE ON "+c.prefix+table+" TO the role that does the retention"
	}
	return err
}

// deletes prunes the plain tables, in batches.
func (c *core) deletes(ctx context.Context, keep time.Duration, done *store.Maintained) error {
	for _, d := range []struct {
		name string
		args []any
		sum  *int64
	}{{"DeleteMarks", []any{keep.Microseconds()}, &done.Marks}, {"DeleteTicks", nil, nil}} {
		for range batches {
			var n int64
			del := c.call(d.name, d.args...)
			del.done = func(rows int64) { n = rows }
			if err := c.short(ctx, "prune", del); err != nil {
				return err
			}
			if d.sum != nil && *d.sum >= 0 {
				*d.sum += n
			}
			if n < 5000 {
				break
			}
		}
	}
	return nil
}
