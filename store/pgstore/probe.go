package pgstore

import (
	"context"
	"fmt"
)

// Probe asks the server whether it takes writes, on a connection that is not of the pool.
func (s *Store) Probe(ctx context.Context) error {
	if s.pg.Err != nil {
		return s.pg.Err
	}
	return probed(s.pg.ProbePool(ctx, s.pool))
}

// Probe asks the server whether it takes writes. The connection is none of the DB's once pgx's driver has
// begun a transaction. With another driver it is one of the DB's: Probe then returns nil while all of them
// are lent.
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
