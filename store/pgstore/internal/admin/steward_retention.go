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

	// early is the maximum age of a transaction that writes. Its rows have its start time, so they may be
	// that much older than the ring that they were written with.
	early = Day

	// leastMarks and leastSteps: marks of IDs and steps of sagas of the last hour are inserted without a
	// check of the floor.
	leastMarks, leastSteps = retention.LeastMarks, 80 * time.Minute

	// ahead is the maximum time by which a row may be in the future; one more slot is free.
	ahead = time.Hour + 20*time.Minute

	leafWait  = 100 * time.Millisecond // maximum wait for the lock of a leaf; others queue behind it
	pruneFor  = 10 * time.Second       // maximum time of deletes from one table in one Maintain
	prunePage = 5000                   // maximum number of rows of one delete
)

// Keeping is the state of one run of Maintain.
type Keeping struct {
	store.Retention
	Now  time.Time // by the database
	Rows Rings
	ring string // Rows as stored
	done store.Maintained
}

// maintain empties the slots that are outside of keep, each in a short transaction. This locks the leaf, if
// that is free, then checks that the shards have passed its rows, then truncates it.
func (s *Steward) maintain(ctx context.Context, keep store.Retention) (store.Maintained, error) {
	keep, err := retention.OrDefaults(keep)
	if err != nil {
		return store.Maintained{}, fmt.Errorf("maintain: %w", err)
	}
	k, err := s.keeping(ctx, keep, s.pg.Call("Here"), s.pg.Call("Looked", keep.Outbox.Microseconds(),
		keep.Marks.Microseconds(), keep.Steps.Microseconds(), keep.Sagas.Microseconds()))
	if err == nil {
		err = s.EmptyRows(ctx, &k)
	}
	if err == nil {
		err = s.Forget(ctx, &k)
	}
	return k.done, err
}

// keeping returns a new run, whose first statements are first.
func (s *Steward) keeping(ctx context.Context, keep store.Retention,
	first ...sqlexec.Call) (k Keeping, err error) {
	k.Retention = keep
	var now int64
	err = s.pg.Short(ctx, "maintain", append(first, s.pg.Call("Now").Into(&now),
		s.pg.Call("Ring").Into(&k.ring))...)
	if err == nil {
		k.Now = time.Unix(now, 0)
		k.Rows, err = Parse(k.ring, Default())
	}
	if err == nil {
		err = fits(k.Retention, k.Rows)
	}
	k.Marks = max(k.Marks, leastMarks)
	return k, err
}

// oldRows returns the leaves that have no rows within the retention.
func (k *Keeping) oldRows() []int {
	live := k.Rows.Live(k.Now.Add(-k.Outbox), k.Now.Add(ahead), Day, early)
	return slices.DeleteFunc(k.Rows.Leaves(), func(n int) bool { return live[n] })
}

// fits returns an error if rows has not enough slots for keep. One slot is being filled, and one waits to
// be emptied.
func fits(keep store.Retention, rows Rings) error {
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
		if err := s.leave(s.EmptyRowLeaf(ctx, n, k), sqlexec.RowLeaf(n), &k.done); err != nil {
			return err
		}
	}
	return nil
}

// EmptyRowLeaf empties leaf n, if all shards have passed its rows.
func (s *Steward) EmptyRowLeaf(ctx context.Context, n int, k *Keeping) error {
	text := s.pg.RowTexts(n)
	return s.empty(ctx, "skald_outbox", text["RowsIn"], text["EmptyRows"], &k.done.Rows,
		sqlexec.Call{SQL: text["LockRows"]}, s.pg.Call("GuardRing", k.ring), s.covered(text))
}

// covered returns a call that fails unless every shard has passed all rows of a leaf.
func (s *Steward) covered(text map[string]string) sqlexec.Call {
	return sqlexec.Call{SQL: "SELECT " + s.pg.Prefix + "skald_require((" + text["Covered"] + "), 'retention')"}
}

// empty truncates a leaf unless it is empty: first the lock, then the guards.
func (s *Steward) empty(ctx context.Context, table, filled, truncate string, count *int64,
	guards ...sqlexec.Call) error {
	var full bool
	if err := s.pg.Short(ctx, "check leaf", sqlexec.Call{SQL: filled}.Into(&full)); err != nil || !full {
		return err
	}
	// The guards look for rows that no index covers. A scan of a leaf with 10⁷ rows would keep its lock,
	// for which relays wait, for a minute.
	calls := append([]sqlexec.Call{s.pg.Session(leafWait, sqlexec.DefaultHandle), s.pg.Call("Walk")},
		guards...)
	if err := s.pg.Runner.Run(ctx, append(calls, sqlexec.Call{SQL: truncate},
		s.pg.Call("Emptied", table))...); err != nil {
		return fmt.Errorf("empty leaf: %w", s.pg.Explain(err))
	}
	*count = -1
	return nil
}

// leave records a leaf that could not be emptied, and returns every other error.
func (s *Steward) leave(err error, table string, done *store.Maintained) error {
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

// Forget deletes expired rows in the tables without a ring.
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

// forgetMarks deletes expired marks and their answers, and raises the floors.
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

// batches deletes batch after batch, each in a short transaction, so that a rival never waits longer than
// for one of them.
func (s *Steward) batches(ctx context.Context, k *Keeping, table string, one func() (int64, error)) error {
	for until := time.Now().Add(pruneFor); ; {
		n, err := one()
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

// forgetSteps deletes expired steps and raises the floors.
func (s *Steward) forgetSteps(ctx context.Context, k *Keeping) error {
	before := k.Now.Add(-max(k.Steps, leastSteps)).Truncate(time.Millisecond)
	return s.batches(ctx, k, "skald_step", func() (n int64, err error) {
		err = s.pg.Short(ctx, "forget steps", s.pg.Call("ForgetSteps", before).Into(&n))
		k.done.Steps += n
		return n, err
	})
}
