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

// ProbePool asks the server of a pgx pool whether it takes writes, on a connection that is not of the pool.
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

// ProbeSQL asks the server of db whether it takes writes: on a connection of its own where config is known,
// else on one of db. Returns nil if all connections of db are lent: nobody can be asked then.
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

// refusedOne reports whether a server that runs refused one more connection, as at max_connections or with a
// password that was changed since. Connections that are open may work all the same.
func refusedOne(err error) bool {
	var dial *pgconn.ConnectError
	code := SQLState(err)
	return errors.As(err, &dial) && code != "" && !classOf(err, "08", "57")
}

// probe asks on a connection of its own.
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

func (d *DB) writable(ctx context.Context, conn *pgx.Conn) error {
	var standby bool
	err := conn.QueryRow(ctx, d.SQL["Probe"], pgx.QueryExecModeSimpleProtocol).Scan(&standby)
	if err == nil && standby {
		err = store.ErrStandby
	}
	return err
}
