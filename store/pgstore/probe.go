package pgstore

import (
	"context"
	"fmt"
)

// Probe checks that the server accepts writes, on a connection outside of the pool.
func (s *Store) Probe(ctx context.Context) error {
	if s.pg.Err != nil {
		return s.pg.Err
	}
	return probed(s.pg.ProbePool(ctx, s.pool))
}

// Probe checks that the server accepts writes. With pgx's driver it opens an extra connection, after the
// first transaction. With another driver Probe uses a connection of the DB, and returns nil if all
// connections are in use.
func (s *SQLStore) Probe(ctx context.Context) error {
	if s.pg.Err != nil {
		return s.pg.Err
	}
	return probed(s.pg.ProbeSQL(ctx, s.db, s.config.Load()))
}

func probed(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("probe the database: %w", err)
}
