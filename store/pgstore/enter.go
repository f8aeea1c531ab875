package pgstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/skald-go/skald/store"
	"github.com/skald-go/skald/store/pgstore/internal/query"
	"github.com/skald-go/skald/store/pgstore/internal/sqlexec"
)

// groupsWithoutRows returns the calls for all parts of es except the outbox rows, as one group for each
// effect. If es only move sagas, all moves are one call.
func (c *core) groupsWithoutRows(es []store.Effect) (groups [][]sqlexec.Call, err error) {
	if len(es) > 1 && query.MovesOnly(es) {
		move, err := c.sagas.MoveEach(es)
		return [][]sqlexec.Call{{move}}, err
	}
	for i := range es {
		calls, err := c.callsWithoutRows(&es[i])
		if err != nil {
			return nil, err
		}
		groups = append(groups, calls)
	}
	return groups, nil
}

// callsWithoutRows returns the calls for all parts of e except the outbox rows, for a transaction of the
// caller.
func (c *core) callsWithoutRows(e *store.Effect) ([]sqlexec.Call, error) {
	calls, err := c.consumerCalls(e)
	if err != nil {
		return nil, err
	}
	moves, err := c.sagas.Move(e.Saga)
	if err != nil {
		return nil, err
	}
	tracked, err := c.sagas.SaveTracked(e.Tracked)
	return append(append(calls, moves...), tracked...), err
}

// enterCalls returns the calls of an intake for a transaction of the caller. They leave its timeouts
// unchanged.
func (c *core) enterCalls(in store.Intake, found *store.Found) ([]sqlexec.Call, error) {
	in.Isolation = store.Serializable // the isolation of the caller's transaction is not known
	calls, err := c.intake(in, found)
	for i := range calls {
		calls[i].With = ""
	}
	return calls, err
}

// Enter applies an intake in a transaction of the caller: one round trip, or two if a mark exists.
func (s *Store) Enter(ctx context.Context, tx pgx.Tx, in store.Intake) (found store.Found, err error) {
	calls, err := s.enterCalls(in, &found)
	if err != nil {
		return found, fmt.Errorf("enter: %w", err)
	}
	defer func() { s.patience.Leave(ctx, s.pool, connOf(tx), err) }()
	now, later := splitNeeded(in, calls)
	if err := sqlexec.SendIn(ctx, tx, now); err != nil {
		return found, fmt.Errorf("enter: %w", s.pg.Beginning(err))
	}
	if err := sqlexec.SendIn(ctx, tx, wantedOf(later)); err != nil {
		return found, fmt.Errorf("enter: %w", s.pg.Beginning(err))
	}
	return found, nil
}

// wantedOf returns the calls that the results of earlier calls made necessary.
func wantedOf(calls []sqlexec.Call) (out []sqlexec.Call) {
	for _, c := range calls {
		if c.Need() {
			out = append(out, c)
		}
	}
	return out
}

// Enter applies an intake in a transaction of the caller: one round trip for each statement.
func (s *SQLStore) Enter(ctx context.Context, tx *sql.Tx, in store.Intake) (found store.Found, err error) {
	calls, err := s.enterCalls(in, &found)
	if err != nil {
		return found, fmt.Errorf("enter: %w", err)
	}
	for _, c := range calls {
		if c.Need != nil && !c.Need() {
			continue
		}
		if err := s.runOne(ctx, tx, c); err != nil {
			return found, fmt.Errorf("enter: %w", s.pg.Beginning(err))
		}
	}
	return found, nil
}

// runOne runs a single call in a transaction of the caller.
func (s *SQLStore) runOne(ctx context.Context, tx *sql.Tx, c sqlexec.Call) (err error) {
	if !s.pgx {
		return sqlexec.SendText(ctx, tx, "", []sqlexec.Call{c})
	}
	if c.Scan == nil {
		did, err := tx.ExecContext(ctx, c.SQL, c.Args...)
		if err == nil && c.Done != nil {
			n, _ := did.RowsAffected() // pgx always returns the number
			c.Done(n)
		}
		return err
	}
	rows, err := tx.QueryContext(ctx, c.SQL, c.Args...)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	for rows.Next() {
		if err := c.Scan(rows); err != nil {
			return err
		}
	}
	return rows.Err()
}
