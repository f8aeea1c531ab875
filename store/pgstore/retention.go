package pgstore

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/skald-go/skald/internal/retention"
	"github.com/skald-go/skald/store"
)

const (
	day = 24 * time.Hour

	// A transaction may have begun, and with it the time of its rows, so long before a ring that they fell into.
	early = day

	// Marks of ids of the last hour are taken without a look at the floor; another's clock may be so far ahead.
	leastMarks = recent + skew

	leafWait  = 100 * time.Millisecond // for the lock on a leaf; whoever comes behind waits as long
	pruneFor  = 10 * time.Second       // of deletes from one table in one Maintain
	prunePage = 5000                   // rows of one delete
)

// A keeping is one run of Maintain.
type keeping struct {
	store.Retention
	now         time.Time // of the database
	rows, marks rings
	ring        string // rows as it is stored
	done        store.Maintained
}

// Maintain empties the slots that are outside of keep. It takes one at a time, in a short transaction: the lock
// first, if it is to be had at once, then the look at what the lanes cover, then TRUNCATE.
func (c *core) Maintain(ctx context.Context, keep store.Retention) (store.Maintained, error) {
	keep, err := retention.OrDefaults(keep)
	if err != nil {
		return store.Maintained{}, fmt.Errorf("maintain: %w", err)
	}
	k, err := c.keeping(ctx, keep, c.call("Here"), c.call("Looked", keep.Outbox.Microseconds(), keep.Marks.Microseconds(), keep.Steps.Microseconds()))
	if err == nil {
		err = c.emptyRows(ctx, &k)
	}
	if err == nil {
		err = c.emptyMarks(ctx, &k)
	}
	if err == nil {
		err = c.forgetSteps(ctx, &k)
	}
	if err == nil {
		err = c.deletes(ctx, k.Marks, &k.done)
	}
	return k.done, err
}

// keeping is a run that begins with first.
func (c *core) keeping(ctx context.Context, keep store.Retention, first ...call) (k keeping, err error) {
	k.Retention = keep
	var now int64
	var marks string
	err = c.short(ctx, "maintain", append(first, c.call("Now").into(&now), c.call("Rings").into(&k.ring, &marks))...)
	if err == nil {
		k.now = time.Unix(now, 0)
		k.rows, err = parseRings(k.ring, defaultRows())
	}
	if err == nil {
		k.marks, err = parseRings(marks, defaultMarks())
	}
	if err == nil {
		err = k.check()
	}
	k.Marks = max(k.Marks, leastMarks)
	return k, err
}

// oldRows are the leaves on which no row falls that is to be kept.
func (k *keeping) oldRows() []int {
	live := k.rows.live(k.now.Add(-k.Outbox), k.now.Add(ahead+skew), day, early)
	return slices.DeleteFunc(k.rows.leaves(), func(n int) bool { return live[n] })
}

// oldMarks are the same of marks. A slot is left for those whose clock is a day ahead.
func (k *keeping) oldMarks() []int {
	live := k.marks.live(k.now.Add(-k.Marks), k.now.Add(ahead+day), markSlot, 0)
	return slices.DeleteFunc(k.marks.leaves(), func(n int) bool { return live[n] })
}

// check bounds the retention by the rings: of the slots one is being filled, and one is left to be emptied.
func (k *keeping) check() error {
	mostRows, mostMarks := time.Duration(k.rows.slots()-2)*day, time.Duration(k.marks.slots()-3)*markSlot
	switch {
	case k.Outbox > mostRows:
		return &store.RetentionError{What: fmt.Sprintf("rows are to be kept %v, the ring has room for %v", k.Outbox, mostRows),
			Remedy: fmt.Sprintf("run: skald migrate --outbox-slots %d", (k.Outbox+day-1)/day+2)}
	case k.Marks > mostMarks:
		return &store.RetentionError{What: fmt.Sprintf("marks are to be kept %v, the ring has room for %v", k.Marks, mostMarks),
			Remedy: fmt.Sprintf("run: skald migrate --mark-slots %d", (k.Marks+markSlot-1)/markSlot+3)}
	}
	return nil
}

func (c *core) emptyRows(ctx context.Context, k *keeping) error {
	for _, n := range k.oldRows() {
		if err := c.leave(c.emptyRowLeaf(ctx, n, k), rowLeaf(n), &k.done); err != nil {
			return err
		}
	}
	return nil
}

func (c *core) emptyRowLeaf(ctx context.Context, n int, k *keeping) error {
	text := c.rowTexts(n)
	return c.empty(ctx, "skald_outbox", text["RowsIn"], text["EmptyRows"], &k.done.Rows, call{sql: text["LockRows"]}, c.call("GuardRing", k.ring), c.covered(text))
}

// covered fails unless every lane has passed all of a leaf's rows.
func (c *core) covered(text map[string]string) call {
	return call{sql: "SELECT " + c.prefix + "skald_guard((" + text["Covered"] + "), 'retention')"}
}

func (c *core) emptyMarks(ctx context.Context, k *keeping) error {
	meet := []call{c.call("Walk")}
	for _, n := range k.marks.leaves() {
		meet = append(meet, call{sql: c.leafed(firstMarks, markLeaf(n), n)["Meet"]})
	}
	if err := c.short(ctx, "meet consumers", meet...); err != nil {
		return err
	}
	for _, n := range k.oldMarks() {
		if err := c.leave(c.emptyMarkLeaf(ctx, n, k), markLeaf(n), &k.done); err != nil {
			return err
		}
	}
	return nil
}

// emptyMarkLeaf needs no look at the ring behind the lock: one that is over takes no mark of a time behind its end. What
// raises the floors goes with it: every id of the leaf is of a slot before that in which the retention begins.
func (c *core) emptyMarkLeaf(ctx context.Context, n int, k *keeping) error {
	text := c.leafed(firstMarks, markLeaf(n), n)
	floor := k.now.Add(-k.Marks).UnixMilli() / markSlot.Milliseconds() * markSlot.Milliseconds()
	err := c.empty(ctx, "skald_mark", text["MarksIn"], text["EmptyMarks"], &k.done.Marks, call{sql: text["LockMarks"]}, c.call("Walk"),
		call{sql: text["Grown"], args: []any{k.Marks.Microseconds()}}, call{sql: text["RaiseFloors"], args: []any{floor}})
	return k.young(err, n)
}

// young notes that the marks of a leaf stay, if err says so.
func (k *keeping) young(err error, n int) error {
	if lost(err) {
		k.done.Left = append(k.done.Left, markLeaf(n)+": it has marks of a consumer that is younger than they are kept")
		return nil
	}
	return err
}

// empty empties a leaf, unless nothing is in it: first the lock, then the guards.
func (c *core) empty(ctx context.Context, table, filled, truncate string, count *int64, guards ...call) error {
	var full bool
	if err := c.short(ctx, "look into slot", call{sql: filled}.into(&full)); err != nil || !full {
		return err
	}
	calls := append([]call{c.session(leafWait, defaultHandle)}, guards...)
	if err := c.runner.run(ctx, append(calls, call{sql: truncate}, c.call("Emptied", table))...); err != nil {
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
		done.Left = append(done.Left, table+": a lane has not passed all of its rows yet")
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

// deletes prunes the plain tables, in batches of short transactions: rivals never wait for longer than one of them.
func (c *core) deletes(ctx context.Context, keep time.Duration, done *store.Maintained) error {
	for _, d := range []struct {
		name  string
		args  []any
		sum   *int64
		table string
	}{
		{"DeleteMarks", []any{keep.Microseconds()}, &done.Marks, "skald_mark_timeless"}, {"DeleteTicks", nil, nil, ""},
		{"DeleteAnswers", []any{keep.Microseconds()}, nil, "skald_answer"}, {"DeleteQuarantine", []any{keep.Microseconds()}, nil, "skald_quarantine"},
	} {
		for until := time.Now().Add(pruneFor); ; {
			var n int64
			del := c.call(d.name, d.args...)
			del.done = func(rows int64) { n = rows }
			if err := c.short(ctx, "prune", del); err != nil {
				return err
			}
			if d.sum != nil && *d.sum >= 0 {
				*d.sum += n
			}
			if n > 0 && d.table != "" {
				if err := c.short(ctx, "prune", c.call("Emptied", d.table)); err != nil {
					return err
				}
			}
			if n < prunePage {
				break
			}
			if time.Now().After(until) {
				done.More = true
				break
			}
		}
	}
	return nil
}
