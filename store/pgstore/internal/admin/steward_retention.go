package admin

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/skald-go/skald/internal/retention"
	"github.com/skald-go/skald/store"
	"github.com/skald-go/skald/store/pgstore/internal/sqlexec"
)

const (
	Day = 24 * time.Hour

	// early is the maximum age of a transaction that writes to the outbox. Its rows have its start time. So a
	// row may be older by early than the ring in which it was written.
	early = Day

	// leastMarks and leastSteps are the minimum retention of marks and steps. Both are above one hour,
	// because statements insert marks and steps of the last hour without a check of the floor.
	leastMarks, leastSteps = retention.LeastMarks, 80 * time.Minute

	// ahead is the maximum time by which the time of a row may be in the future. Leaves for that time are not
	// emptied.
	ahead = time.Hour + 20*time.Minute

	leafWait  = 100 * time.Millisecond // maximum wait for the lock of a leaf; other transactions wait as long
	pruneFor  = 10 * time.Second       // maximum time of deletes from one table in one Maintain
	prunePage = 5000                   // maximum number of rows of one delete
)

// Keeping is the state of one run of Maintain.
type Keeping struct {
	store.Retention
	Now  time.Time // of the database
	Rows Rings
	ring string // Rows as skald_setting has it
	done store.Maintained
}

// maintain empties the leaves with only expired rows, each in a short transaction. The transaction locks the
// leaf, checks that all shards have passed the rows of the leaf, and truncates it. Then maintain deletes
// expired rows of other tables.
func (s *Steward) maintain(ctx context.Context, keep store.Retention) (store.Maintained, error) {
	keep, err := retention.OrDefaults(keep)
	if err != nil {
		return store.Maintained{}, fmt.Errorf("maintain: %w", err)
	}
	k, err := s.newRun(ctx, keep, s.pg.Call("Here"), s.pg.Call("Looked", keep.Outbox.Microseconds(),
		keep.Marks.Microseconds(), keep.Steps.Microseconds(), keep.Sagas.Microseconds()))
	if err == nil {
		err = s.EmptyRows(ctx, &k)
	}
	if err == nil {
		err = s.Forget(ctx, &k)
	}
	return k.done, err
}

// newRun returns the state of a new run. It sends the given calls before its own statements.
func (s *Steward) newRun(ctx context.Context, keep store.Retention,
	calls ...sqlexec.Call) (k Keeping, err error) {
	k.Retention = keep
	var now int64
	err = s.pg.Short(ctx, "maintain", append(calls, s.pg.Call("Now").Into(&now),
		s.pg.Call("Ring").Into(&k.ring))...)
	if err == nil {
		k.Now = time.Unix(now, 0)
		k.Rows, err = Parse(k.ring, Default())
	}
	if err == nil {
		err = checkSlots(k.Retention, k.Rows)
	}
	k.Marks = max(k.Marks, leastMarks)
	return k, err
}

// oldRows returns the leaves that have no rows within the retention.
func (k *Keeping) oldRows() []int {
	live := k.Rows.Live(k.Now.Add(-k.Outbox), k.Now.Add(ahead), Day, early)
	return slices.DeleteFunc(k.Rows.Leaves(), func(n int) bool { return live[n] })
}

// checkSlots returns an error if the ring rows has too few slots for the retention. Two slots do not count:
// writers fill one slot, and another waits until it is emptied.
func checkSlots(keep store.Retention, rows Rings) error {
	if most := time.Duration(rows.Slots()-2) * Day; keep.Outbox > most {
		return &store.RetentionError{
			What: fmt.Sprintf("rows are to be kept %s, the ring has room for %s",
				retention.Spell(keep.Outbox), retention.Spell(most)),
			Remedy: fmt.Sprintf("run: skald migrate --outbox-slots %d", (keep.Outbox+Day-1)/Day+2),
		}
	}
	return nil
}

// EmptyRows empties the expired leaves that all shards have passed.
func (s *Steward) EmptyRows(ctx context.Context, k *Keeping) error {
	for _, n := range k.oldRows() {
		if err := s.noteLeft(s.EmptyRowLeaf(ctx, n, k), sqlexec.RowLeaf(n), &k.done); err != nil {
			return err
		}
	}
	return nil
}

// EmptyRowLeaf empties leaf n. It fails if a shard has not passed all rows of the leaf.
func (s *Steward) EmptyRowLeaf(ctx context.Context, n int, k *Keeping) error {
	text := s.pg.RowTexts(n)
	return s.truncateLeaf(ctx, "skald_outbox", text["RowsIn"], text["EmptyRows"], &k.done.Rows,
		sqlexec.Call{SQL: text["LockRows"]}, s.pg.Call("GuardRing", k.ring), s.covered(text))
}

// covered returns a call that fails unless every shard has passed all rows of a leaf. text has the statements
// for that leaf.
func (s *Steward) covered(text map[string]string) sqlexec.Call {
	return sqlexec.Call{SQL: "SELECT " + s.pg.Prefix + "skald_require((" + text["Covered"] + "), 'retention')"}
}

// truncateLeaf truncates a leaf unless the leaf is empty. The calls in guards must lock the leaf first and
// then check it.
func (s *Steward) truncateLeaf(ctx context.Context, table, filled, truncate string, count *int64,
	guards ...sqlexec.Call) error {
	var full bool
	if err := s.pg.Short(ctx, "check leaf", sqlexec.Call{SQL: filled}.Into(&full)); err != nil || !full {
		return err
	}
	// Walk keeps the guards from scanning the leaf. A scan of 10⁷ rows takes a minute, and relays would wait
	// for the lock of the leaf.
	calls := append([]sqlexec.Call{s.pg.Session(leafWait, sqlexec.DefaultHandle), s.pg.Call("Walk")},
		guards...)
	if err := s.pg.Runner.Run(ctx, append(calls, sqlexec.Call{SQL: truncate},
		s.pg.Call("Emptied", table))...); err != nil {
		return fmt.Errorf("empty leaf: %w", s.pg.Explain(err))
	}
	*count = -1
	return nil
}

// noteLeft handles the error of an attempt to empty a leaf. If the leaf was in use, noteLeft adds the table
// to done.Left and returns nil.
func (s *Steward) noteLeft(err error, table string, done *store.Maintained) error {
	switch {
	case err == nil:
		return nil
	case sqlexec.Lost(err):
		done.Left = append(done.Left, table+": a shard has not passed all of its rows yet")
		return nil
	case sqlexec.SQLState(err) == "55P03", sqlexec.SQLState(err) == "40P01":
		done.Left = append(done.Left, table+": another transaction has it locked")
		return nil
	}
	var right *store.RightError
	if errors.As(err, &right) {
		right.What, right.Remedy = "TRUNCATE on "+table, "GRANT TRUNCATE ON "+s.pg.Prefix+table+
			" TO the role that does the retention"
	}
	return err
}

// Forget deletes expired rows of all tables except the outbox.
func (s *Steward) Forget(ctx context.Context, k *Keeping) error {
	for _, forget := range []func(context.Context, *Keeping) error{
		s.forgetMarks, s.forgetSteps, s.forgetSagas, s.forgetRest,
	} {
		if err := forget(ctx, k); err != nil {
			return err
		}
	}
	return nil
}

// forgetRest deletes expired snapshots, quarantined messages and reservations.
func (s *Steward) forgetRest(ctx context.Context, k *Keeping) error {
	for _, d := range []struct {
		name  string
		args  []any
		table string
	}{{"DeleteSnapshots", nil, ""}, {"DeleteQuarantine", []any{k.Marks.Microseconds()}, "skald_quarantine"},
		{"DeleteReservations", nil, ""}} {
		err := s.batches(ctx, k, d.table, func() (n int64, err error) {
			del := s.pg.Call(d.name, d.args...)
			del.Done = func(rows int64) { n = rows }
			err = s.pg.Short(ctx, "prune", del)
			return n, err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// forgetMarks deletes expired marks and their answers. It also raises the floors, so that a late duplicate of
// a deleted mark counts as too old.
func (s *Steward) forgetMarks(ctx context.Context, k *Keeping) error {
	return s.batches(ctx, k, "skald_mark", func() (n int64, err error) {
		err = s.pg.Short(ctx, "forget marks", s.pg.Call("Walk"),
			s.pg.Call("DeleteMarks", k.Marks.Microseconds(), leastMarks.Microseconds()).Into(&n))
		k.done.Marks += n
		return n, err
	})
}

// forgetSagas deletes expired sagas.
func (s *Steward) forgetSagas(ctx context.Context, k *Keeping) error {
	return s.batches(ctx, k, "skald_saga", func() (n int64, err error) {
		del := s.pg.Call("DeleteSagas", k.Sagas.Microseconds())
		del.Done = func(rows int64) { n = rows }
		err = s.pg.Short(ctx, "forget sagas", s.pg.Call("Walk"), del)
		k.done.Sagas += n
		return n, err
	})
}

// batches calls deleteBatch, which deletes up to prunePage rows, until no expired rows are left or pruneFor
// has passed. The transactions are short, so that other transactions rarely wait.
func (s *Steward) batches(ctx context.Context, k *Keeping, table string,
	deleteBatch func() (int64, error)) error {
	for until := time.Now().Add(pruneFor); ; {
		n, err := deleteBatch()
		if err == nil && n > 0 && table != "" {
			err = s.pg.Short(ctx, "prune", s.pg.Call("Emptied", table))
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

// forgetSteps deletes expired steps. It also raises the floors, so that a late message of a deleted step
// counts as too old.
func (s *Steward) forgetSteps(ctx context.Context, k *Keeping) error {
	before := k.Now.Add(-max(k.Steps, leastSteps)).Truncate(time.Millisecond)
	return s.batches(ctx, k, "skald_step", func() (n int64, err error) {
		err = s.pg.Short(ctx, "forget steps", s.pg.Call("ForgetSteps", before).Into(&n))
		k.done.Steps += n
		return n, err
	})
}
