package pgstore

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/skald-go/skald/store"
)

var (
	_ store.Tracker[pgx.Tx]  = (*Store)(nil)
	_ store.Tracker[*sql.Tx] = (*SQLStore)(nil)
)

// LockTracked reads the row of a saga, or makes it: a round trip, two for a new one.
func (s *Store) LockTracked(ctx context.Context, tx pgx.Tx, flow, key string) (store.Tracked, error) {
	return s.lockTracked(flow, key, func(c call) scanner { return tx.QueryRow(ctx, c.sql, c.args...) })
}

// SaveTracked writes the row that LockTracked locked: a round trip.
func (s *Store) SaveTracked(ctx context.Context, tx pgx.Tx, t store.Tracked) error {
	if err := exec(ctx, tx, s.savedTracked(&t)); err != nil {
		return fmt.Errorf("save a tracked saga: %w", s.explain(err))
	}
	return nil
}

// LockTracked reads the row of a saga, or makes it: a round trip, two for a new one.
func (s *SQLStore) LockTracked(ctx context.Context, tx *sql.Tx, flow, key string) (store.Tracked, error) {
	return s.lockTracked(flow, key, func(c call) scanner { return tx.QueryRowContext(ctx, c.sql, c.args...) })
}

// SaveTracked writes the row that LockTracked locked: a round trip.
func (s *SQLStore) SaveTracked(ctx context.Context, tx *sql.Tx, t store.Tracked) error {
	c := s.savedTracked(&t)
	if _, err := tx.ExecContext(ctx, c.sql, c.args...); err != nil {
		return fmt.Errorf("save a tracked saga: %w", s.explain(err))
	}
	return nil
}

func (c *core) lockTracked(flow, key string, ask func(call) scanner) (store.Tracked, error) {
	t := store.Tracked{Flow: flow, Key: key}
	if c.err != nil {
		return t, c.err
	}
	read := func(name string) error {
		var due, drifted *time.Time
		err := ask(c.call(name, key, flow)).Scan(&t.State, &due, &t.Drift, &t.Body, &t.At, &t.Changed, &drifted)
		t = dated(t, due, drifted)
		return err
	}
	err := read("FindTracked")
	if errors.Is(err, pgx.ErrNoRows) || errors.Is(err, sql.ErrNoRows) {
		err = read("MakeTracked")
	}
	if err != nil {
		return t, fmt.Errorf("lock a tracked saga: %w", c.explain(err))
	}
	return t, nil
}

func (c *core) savedTracked(t *store.Tracked) call {
	var due *time.Time
	if !t.Due.IsZero() {
		due = &t.Due
	}
	return c.call("SaveTracked", t.Key, t.Flow, t.State, due, t.Body, int32(min(t.Drift, math.MaxInt32)))
}

// tracked lists tracked sagas.
func (c *core) tracked(ctx context.Context, q store.TrackedQuery) (out []store.Tracked, err error) {
	list := c.call("ListTracked", legible(q.Flow), legible(q.Key), legible(q.State), q.Overdue, int32(cmp.Or(q.Limit, defaultLimit)))
	list.scan = func(row scanner) error {
		var t store.Tracked
		var due, drifted *time.Time
		err := row.Scan(&t.Flow, &t.Key, &t.State, &due, &t.Drift, &t.Body, &t.At, &t.Changed, &drifted)
		out = append(out, dated(t, due, drifted))
		return err
	}
	if err := c.short(ctx, "list tracked sagas", list); err != nil {
		return nil, err
	}
	return out, nil
}

// dated is t with its times in UTC.
func dated(t store.Tracked, due, drifted *time.Time) store.Tracked {
	if t.At, t.Changed = t.At.UTC(), t.Changed.UTC(); due != nil {
		t.Due = due.UTC()
	}
	if drifted != nil {
		t.Drifted = drifted.UTC()
	}
	return t
}

// trackedCounts counts tracked sagas into out.
func (c *core) trackedCounts(out *[]store.TrackedCounts) call {
	count := c.call("CountTracked")
	count.scan = func(row scanner) error {
		var n store.TrackedCounts
		err := row.Scan(&n.Flow, &n.Running, &n.Compensating, &n.Overdue, &n.OverdueKey, &n.Drifted, &n.DriftedKey)
		*out = append(*out, n)
		return err
	}
	return count
}
