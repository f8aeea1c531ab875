package pgstore

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// resizeMarks puts a ring of new leaves behind the one in use. An id must never fall on two leaves, whatever a process
// believes of the rings: so every leaf in use is first barred for ids from the beginning of the new ring on, and shown
// to have none; only then does the new ring count. A process that does not know it yet is refused, and reads anew.
func (m *migrator) resizeMarks(ctx context.Context, slots int) error {
	next, old, err := m.plan(ctx, slots)
	if err != nil || next == nil {
		return err
	}
	for n := range next.Slots {
		leaf := next.First + n
		err := m.patiently(ctx, "skald_mark", func(tx pgx.Tx, _ settings) error {
			return m.makeLeaf(ctx, tx, firstMarks, markLeaf(leaf), leaf, "NewMarkLeaf", "AttachMarkLeaf")
		})
		if err != nil {
			return err
		}
	}
	if err := m.alterLeaves(ctx, next, old, "Bar"); err != nil {
		return err
	}
	err = m.alterLeaves(ctx, next, old, "ProveBar")
	if state(err) == "23514" {
		return errors.Join(&ClockError{Leaf: refusing(err)}, m.alterLeaves(ctx, next, old, "Unbar"))
	}
	if err != nil {
		return err
	}
	return m.turn(ctx, next)
}

// firstID is below every id of version 7 of that time.
func firstID(ms int64) string {
	return fmt.Sprintf("%08x-%04x-0000-0000-000000000000", ms>>16, ms&0xffff)
}

// plan notes what is to be done, so that whoever runs it again goes on with it. next is nil where nothing is to do.
func (m *migrator) plan(ctx context.Context, slots int) (next *ring, old ring, err error) {
	err = m.step(ctx, func(tx pgx.Tx, have settings) error {
		old = have.marks[len(have.marks)-1]
		switch {
		case have.next == nil && old.Slots == slots:
			return nil
		case have.next != nil && have.next.Slots != slots:
			return fmt.Errorf("a change to %d slots is under way: run it again with that, then with %d", have.next.Slots, slots)
		}
		now, err := m.clock(ctx, tx)
		if err != nil {
			return err
		}
		next = have.next
		if next == nil {
			leaves := have.marks.leaves()
			next = &ring{First: leaves[len(leaves)-1] + 1, Slots: slots}
		}
		if next.From < now+(lead/2).Milliseconds() { // new, or it was left for long
			next.From = now + lead.Milliseconds()
		}
		return m.set(ctx, tx, "mark ring next", next)
	})
	return next, old, err
}

// errOther: whoever was paused must not undo what another run has done.
var errOther = errors.New("another run of it has gone on meanwhile: run it again")

// alterLeaves runs the statement of that name for each leaf of old, in a transaction of its own, as long as the plan
// stands.
func (m *migrator) alterLeaves(ctx context.Context, next *ring, old ring, name string) error {
	for n := range old.Slots {
		leaf := markLeaf(old.First + n)
		err := m.patiently(ctx, leaf, func(tx pgx.Tx, have settings) error {
			if have.next == nil || *have.next != *next {
				return errOther
			}
			sql := strings.ReplaceAll(m.leafed(firstMarks, leaf, old.First+n)[name], "/*until*/", firstID(next.From))
			_, err := tx.Exec(ctx, sql, pgx.QueryExecModeSimpleProtocol)
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func refusing(err error) string {
	var pe *pgconn.PgError
	if errors.As(err, &pe) {
		return pe.TableName
	}
	return "skald_mark"
}

// turn makes the new ring count.
func (m *migrator) turn(ctx context.Context, next *ring) error {
	return m.step(ctx, func(tx pgx.Tx, have settings) error {
		if have.next == nil || *have.next != *next {
			return errOther
		}
		if err := m.set(ctx, tx, "mark ring", append(have.marks, *next)); err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, m.sql["ForgetRing"], "mark ring next"); err != nil {
			return fmt.Errorf("store ring: %w", err)
		}
		m.did = append(m.did, fmt.Sprintf("mark ring: %d slots from %s on, was %d", next.Slots,
			time.UnixMilli(next.From).UTC().Format(time.RFC3339), have.marks.slots()))
		return nil
	})
}
