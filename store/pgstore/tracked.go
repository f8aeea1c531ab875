package pgstore

import (
	"context"
	"database/sql"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/skald-go/skald/store"
	"github.com/skald-go/skald/store/pgstore/internal/sqlexec"
)

var (
	_ store.Tracker[pgx.Tx]  = (*Store)(nil)
	_ store.Tracker[*sql.Tx] = (*SQLStore)(nil)
)

// LockTracked reads and locks the rows of sagas, and creates missing ones: one round trip.
func (s *Store) LockTracked(ctx context.Context, tx pgx.Tx, flow string,
	keys ...string) ([]store.Tracked, error) {
	list, out, err := s.sagas.LockTracked(flow, keys)
	if err == nil {
		rows, _ := tx.Query(ctx, list.SQL, list.Args...) // CollectRows returns its error
		_, err = pgx.CollectRows(rows,
			func(row pgx.CollectableRow) (struct{}, error) { return struct{}{}, list.Scan(row) })
	}
	if err != nil {
		return nil, fmt.Errorf("lock tracked sagas: %w", s.pg.Own(err))
	}
	return *out, nil
}

// LockTracked reads and locks the rows of sagas, and creates missing ones: one round trip.
func (s *SQLStore) LockTracked(ctx context.Context, tx *sql.Tx, flow string,
	keys ...string) ([]store.Tracked, error) {
	list, out, err := s.sagas.LockTracked(flow, keys)
	if err == nil {
		err = scanAll(ctx, tx, list)
	}
	if err != nil {
		return nil, fmt.Errorf("lock tracked sagas: %w", s.pg.Own(err))
	}
	return *out, nil
}

func scanAll(ctx context.Context, tx *sql.Tx, c sqlexec.Call) error {
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
