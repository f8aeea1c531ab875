package sqlitestore

import (
	"cmp"
	"context"
	"database/sql"
	"fmt"
	"time"

	"github.com/skald-go/skald/store"
	"github.com/skald-go/skald/store/sqlitestore/internal/sqlexec"
)

// sagaDefaultLimit is the number of entries if the query sets no limit.
const sagaDefaultLimit = 1000

// lockTracked reads the rows of sagas and creates missing rows. It locks the file, because SQLite has no
// other lock.
func lockTracked(ctx context.Context, x *sqlexec.Session, flow string, keys ...string) ([]store.Tracked,
	error) {
	rows := make([]store.Tracked, len(keys))
	for i, key := range keys {
		var err error
		if rows[i], err = scanTracked(x.Row(ctx, "MakeTracked", key, flow).Scan); err != nil {
			return rows, err
		}
	}
	return rows, nil
}

// saveTracked writes rows. LockTracked must have read these rows in the same transaction.
func saveTracked(ctx context.Context, x *sqlexec.Session, rows []store.Tracked) error {
	for i := range rows {
		t := &rows[i]
		if _, err := x.Exec(ctx, "SaveTracked", t.Key, t.Flow, t.State, sqlexec.Millis(t.Due), t.Body,
			t.Drift); err != nil {
			return fmt.Errorf("save tracked sagas: %w", err)
		}
	}
	return nil
}

// Tracked lists tracked sagas.
func (s *sagaTable) Tracked(ctx context.Context, q store.TrackedQuery) ([]store.Tracked, error) {
	limit := cmp.Or(q.Limit, sagaDefaultLimit)
	rows, err := s.run.Query(ctx, "ListTracked", q.Flow, q.Key, q.State, q.Overdue, limit)
	if err != nil {
		return nil, sqlexec.Failed("list tracked sagas", err)
	}
	out, err := sqlexec.Collect(rows, scanTracked)
	return out, sqlexec.Failed("list tracked sagas", err)
}

func scanTracked(scan func(...any) error) (t store.Tracked, err error) {
	var due, drifted sql.NullInt64
	var at, changed int64
	err = scan(&t.Flow, &t.Key, &t.State, &due, &t.Drift, &t.Body, &at, &changed, &drifted)
	t.Drifted = sqlexec.OfMillis(drifted)
	if t.At, t.Changed = time.UnixMilli(at).UTC(), time.UnixMilli(changed).UTC(); due.Valid {
		t.Due = time.UnixMilli(due.Int64).UTC()
	}
	return t, err
}

// countTracked counts tracked sagas.
func (s *sagaTable) countTracked(ctx context.Context) ([]store.TrackedCounts, error) {
	rows, err := s.run.Query(ctx, "CountTracked")
	if err != nil {
		return nil, sqlexec.Failed("count tracked sagas", err)
	}
	out, err := sqlexec.Collect(rows, func(scan func(...any) error) (n store.TrackedCounts, err error) {
		err = scan(&n.Flow, &n.Running, &n.Compensating, &n.Overdue, &n.OverdueKey, &n.Drifted, &n.DriftedKey)
		return n, err
	})
	return out, sqlexec.Failed("count tracked sagas", err)
}
