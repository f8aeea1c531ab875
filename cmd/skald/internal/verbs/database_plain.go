package verbs

import (
	"context"
	"database/sql"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/skald-go/skald/cmd/skald/internal/cli"
)

// plain opens a PostgreSQL database for foreign tables. It does not need Skald's tables.
func plain(ctx context.Context, db Database, connections int) (*sql.DB, func(), error) {
	s, ok := db.(Server)
	if !ok {
		return nil, nil,
			&cli.UsageError{
				What: "foreign tables are supported in PostgreSQL only: give --store postgres://…; " +
					"in SQLite insert into skald_outbox instead (docs/adopt.md)"}
	}
	cfg := s.Config.Copy()
	if !s.bounded {
		cfg.MaxConns = int32(connections)
	}
	pool, err := pgxpool.NewWithConfig(ctx, cfg)
	if err != nil {
		return nil, nil, err
	}
	if err := pool.Ping(ctx); err != nil {
		pool.Close()
		return nil, nil, err
	}
	plain := stdlib.OpenDBFromPool(pool)
	return plain, func() {
		_ = plain.Close()
		pool.Close()
	}, nil
}
