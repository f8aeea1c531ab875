package pgstore

import (
	"cmp"
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"math"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/skald-go/skald/store"
	"github.com/skald-go/skald/store/pgstore/internal/column"
	"github.com/skald-go/skald/store/pgstore/internal/pgrun"
)

var (
	_ store.Tracker[pgx.Tx]  = (*Store)(nil)
	_ store.Tracker[*sql.Tx] = (*SQLStore)(nil)
)

// LockTracked reads the rows of sagas, or makes them: a round trip.
func (s *Store) LockTracked(ctx context.Context, tx pgx.Tx, flow string,
	keys ...string) ([]store.Tracked, error) {
	list, out, err := s.lockTracked(flow, keys)
	if err == nil {
		rows, _ := tx.Query(ctx, list.SQL, list.Args...) // CollectRows and its like answer its error
		_, err = pgx.CollectRows(rows,
			func(row pgx.CollectableRow) (struct{}, error) { return struct{}{}, list.Scan(row) })
	}
	if err != nil {
		return nil, fmt.Errorf("lock tracked sagas: %w", s.pg.Explain(err))
	}
	return *out, nil
}

// SaveTracked writes rows that LockTracked locked: a round trip.
func (s *Store) SaveTracked(ctx context.Context, tx pgx.Tx, rows ...store.Tracked) error {
	save, err := s.saveTracked(rows)
	if err == nil {
		err = pgrun.Exec(ctx, tx, save)
	}
	if err != nil {
		return fmt.Errorf("save tracked sagas: %w", s.pg.Explain(err))
	}
	return nil
}

// LockTracked reads the rows of sagas, or makes them: a round trip.
func (s *SQLStore) LockTracked(ctx context.Context, tx *sql.Tx, flow string,
	keys ...string) ([]store.Tracked, error) {
	list, out, err := s.lockTracked(flow, keys)
	if err == nil {
		err = scanAll(ctx, tx, list)
	}
	if err != nil {
		return nil, fmt.Errorf("lock tracked sagas: %w", s.pg.Explain(err))
	}
	return *out, nil
}

// SaveTracked writes rows that LockTracked locked: a round trip.
func (s *SQLStore) SaveTracked(ctx context.Context, tx *sql.Tx, rows ...store.Tracked) error {
	save, err := s.saveTracked(rows)
	if err == nil {
		_, err = tx.ExecContext(ctx, save.SQL, save.Args...)
	}
	if err != nil {
		return fmt.Errorf("save tracked sagas: %w", s.pg.Explain(err))
	}
	return nil
}

// scanAll scans each row that a call answers.
func scanAll(ctx context.Context, tx *sql.Tx, c pgrun.Call) error {
	rows, err := tx.QueryContext(ctx, c.SQL, c.Args...)
	if err != nil {
		return err
	}
	defer func() { _ = rows.Close() }()
	for rows.Next() {
		if err := c.Scan(rows); err != nil {
			return err
		}
	}
	return rows.Err()
}

// lockTracked is the call that reads into rows. Lists go as JSON: not every driver of database/sql takes
// arrays.
func (c *core) lockTracked(flow string, keys []string) (list pgrun.Call, rows *[]store.Tracked, err error) {
	text, err := json.Marshal(keys)
	if err = cmp.Or(c.pg.Err, err); err != nil {
		return list, nil, err
	}
	rows = new([]store.Tracked)
	list = c.pg.Call("LockTracked", flow, string(text))
	list.Scan = func(row pgrun.Scanner) error {
		t := store.Tracked{Flow: flow}
		var due, drifted *time.Time
		err := row.Scan(&t.Key, &t.State, &due, &t.Drift, &t.Body, &t.At, &t.Changed, &drifted)
		*rows = append(*rows, dated(t, due, drifted))
		return err
	}
	return list, rows, nil
}

func (c *core) saveTracked(rows []store.Tracked) (pgrun.Call, error) {
	type saved struct {
		Key   string     `json:"key"`
		Flow  string     `json:"flow"`
		State string     `json:"state"`
		Due   *time.Time `json:"due"`
		Drift int        `json:"drift"`
		Body  string     `json:"body"`
	}
	all := make([]saved, len(rows))
	for i := range rows {
		t := &rows[i]
		all[i] = saved{t.Key, t.Flow, t.State, nil, min(t.Drift, math.MaxInt32), t.Body}
		if !t.Due.IsZero() {
			all[i].Due = &t.Due
		}
	}
	text, err := json.Marshal(all)
	return c.pg.Call("SaveTracked", string(text)), cmp.Or(c.pg.Err, err)
}

// tracked lists tracked sagas.
func (c *core) tracked(ctx context.Context, q store.TrackedQuery) (out []store.Tracked, err error) {
	list := c.pg.Call("ListTracked", column.Legible(q.Flow), column.Legible(q.Key), column.Legible(q.State),
		q.Overdue, int32(cmp.Or(q.Limit, defaultLimit)))
	list.Scan = func(row pgrun.Scanner) error {
		var t store.Tracked
		var due, drifted *time.Time
		err := row.Scan(&t.Flow, &t.Key, &t.State, &due, &t.Drift, &t.Body, &t.At, &t.Changed, &drifted)
		out = append(out, dated(t, due, drifted))
		return err
	}
	if err := c.pg.Short(ctx, "list tracked sagas", list); err != nil {
		return nil, err
	}
	return out, nil
}

// dated is t with its times in UTC.
func dated(t store.Tracked, due, drifted *time.Time) store.Tracked {
	t.At, t.Changed, t.Due, t.Drifted = t.At.UTC(), t.Changed.UTC(), column.OrZero(due),
		column.OrZero(drifted)
	return t
}

// trackedCounts counts tracked sagas into out.
func (c *core) trackedCounts(out *[]store.TrackedCounts) pgrun.Call {
	count := c.pg.Call("CountTracked")
	count.Scan = func(row pgrun.Scanner) error {
		var n store.TrackedCounts
		err := row.Scan(&n.Flow, &n.Running, &n.Compensating, &n.Overdue, &n.OverdueKey, &n.Drifted,
			&n.DriftedKey)
		*out = append(*out, n)
		return err
	}
	return count
}
