package sqlitestore

import (
	"cmp"
	"context"
	"database/sql"
	"time"

	"github.com/skald-go/skald/store"
	"github.com/skald-go/skald/store/sqlitestore/internal/column"
	"github.com/skald-go/skald/store/sqlitestore/internal/sqlrun"
)

var _ store.Tracker[*sql.Tx] = (*Store)(nil)

// LockTracked reads the rows of sagas, or makes them. SQLite has one writer: nothing else need be locked.
func (s *Store) LockTracked(ctx context.Context, tx *sql.Tx, flow string,
	keys ...string) ([]store.Tracked, error) {
	x, _, err := s.within(ctx, tx)
	rows := make([]store.Tracked, len(keys))
	for i := 0; i < len(keys) && err == nil; i++ {
		rows[i], err = scanTracked(x.Row(ctx, "MakeTracked", keys[i], flow).Scan)
	}
	return rows, sqlrun.Failed("lock tracked sagas", err)
}

// SaveTracked writes rows that LockTracked locked.
func (s *Store) SaveTracked(ctx context.Context, tx *sql.Tx, rows ...store.Tracked) error {
	x, _, err := s.within(ctx, tx)
	for i := 0; i < len(rows) && err == nil; i++ {
		t := &rows[i]
		due := sql.NullInt64{Int64: t.Due.UnixMilli(), Valid: !t.Due.IsZero()}
		_, err = x.Exec(ctx, "SaveTracked", t.Key, t.Flow, t.State, due, t.Body, t.Drift)
	}
	return sqlrun.Failed("save tracked sagas", err)
}

// tracked lists tracked sagas.
func (s *Store) tracked(ctx context.Context, q store.TrackedQuery) ([]store.Tracked, error) {
	rows, err := s.run.Query(ctx, "ListTracked", q.Flow, q.Key, q.State, q.Overdue, cmp.Or(q.Limit,
		defaultLimit))
	if err != nil {
		return nil, sqlrun.Failed("list tracked sagas", err)
	}
	out, err := sqlrun.Collect(rows, scanTracked)
	return out, sqlrun.Failed("list tracked sagas", err)
}

func scanTracked(scan func(...any) error) (t store.Tracked, err error) {
	var due, drifted sql.NullInt64
	var at, changed int64
	err = scan(&t.Flow, &t.Key, &t.State, &due, &t.Drift, &t.Body, &at, &changed, &drifted)
	t.Drifted = column.OfMillis(drifted)
	if t.At, t.Changed = time.UnixMilli(at).UTC(), time.UnixMilli(changed).UTC(); due.Valid {
		t.Due = time.UnixMilli(due.Int64).UTC()
	}
	return t, err
}

// countTracked counts tracked sagas.
func (s *Store) countTracked(ctx context.Context) ([]store.TrackedCounts, error) {
	rows, err := s.run.Query(ctx, "CountTracked")
	if err != nil {
		return nil, sqlrun.Failed("count tracked sagas", err)
	}
	out, err := sqlrun.Collect(rows, func(scan func(...any) error) (n store.TrackedCounts, err error) {
		err = scan(&n.Flow, &n.Running, &n.Compensating, &n.Overdue, &n.OverdueKey, &n.Drifted, &n.DriftedKey)
		return n, err
	})
	return out, sqlrun.Failed("count tracked sagas", err)
}
