package sqlexec

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/skald-go/skald/store"
)

// ProbePool returns an error if the server of a pool does not accept writes. It opens a connection outside of
// the pool, so it also works while all connections of the pool are in use. If the server refuses another
// connection, ProbePool uses one of the pool.
func (d *DB) ProbePool(ctx context.Context, pool *pgxpool.Pool) error {
	config := pool.Config()
	if config.BeforeConnect != nil {
		if err := config.BeforeConnect(ctx, config.ConnConfig); err != nil {
			return err
		}
	}
	err := d.probe(ctx, config.ConnConfig)
	if !refusedOne(err) {
		return err
	}
	conn, acquired := pool.Acquire(ctx)
	if acquired != nil {
		return errors.Join(err, acquired)
	}
	defer Release(conn)
	return d.writable(ctx, conn.Conn())
}

// ProbeSQL returns an error if the server of db does not accept writes. It opens an extra connection if
// config is not nil, otherwise it uses a connection of db. It returns nil if it cannot check, because all
// connections of db are in use.
func (d *DB) ProbeSQL(ctx context.Context, db *sql.DB, config *pgx.ConnConfig) error {
	if config != nil {
		if err := d.probe(ctx, config); !refusedOne(err) {
			return err
		}
	}
	var standby bool
	err := db.QueryRowContext(ctx, d.SQL["Probe"]).Scan(&standby)
	switch stats := db.Stats(); {
	case errors.Is(err, context.DeadlineExceeded) && stats.MaxOpenConnections > 0 &&
		stats.InUse >= stats.MaxOpenConnections:
		return nil
	case err == nil && standby:
		return store.ErrStandby
	}
	return err
}

// refusedOne reports whether a running server refused another connection. Examples are max_connections and a
// changed password. Open connections may still work.
func refusedOne(err error) bool {
	var dial *pgconn.ConnectError
	code := SQLState(err)
	return errors.As(err, &dial) && code != "" && !classOf(err, "08", "57")
}

// probe checks the server on a new connection.
func (d *DB) probe(ctx context.Context, config *pgx.ConnConfig) error {
	conn, err := pgx.ConnectConfig(ctx, config)
	if err != nil {
		return err
	}
	defer func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer cancel()
		_ = conn.Close(ctx)
	}()
	return d.writable(ctx, conn)
}

// writable returns store.ErrStandby if the server of conn is a standby.
func (d *DB) writable(ctx context.Context, conn *pgx.Conn) error {
	var standby bool
	err := conn.QueryRow(ctx, d.SQL["Probe"], pgx.QueryExecModeSimpleProtocol).Scan(&standby)
	if err == nil && standby {
		err = store.ErrStandby
	}
	return err
}
