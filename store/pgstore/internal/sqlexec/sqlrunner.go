package sqlexec

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
)

// OverSQL returns a Runner over database/sql.
func OverSQL(db *sql.DB, p Patience) Runner { return dbRunner{db, p} }

// dbRunner sends a whole transaction as one pipeline, through the pgx connection below a *sql.Conn. With
// another driver it sends one text.
type dbRunner struct {
	db *sql.DB
	p  Patience
}

func (r dbRunner) Run(ctx context.Context, calls ...Call) error {
	return r.p.OnConn(ctx, r.db, func(ctx context.Context, conn *sql.Conn) error {
		return run(ctx, conn, calls)
	})
}

func run(ctx context.Context, conn *sql.Conn, calls []Call) error {
	err := WithDriverConn(conn, func(c *pgx.Conn) error {
		all := make([]Call, 0, len(calls)+1)
		err := SendCommit(ctx, c, append(append(all, Call{SQL: Begin}), calls...))
		if err != nil {
			_ = Undo(ctx, c)
		}
		return Leftover(ctx, c, err)
	})
	if errors.Is(err, ErrForeign) {
		return runText(ctx, conn, calls)
	}
	return err
}

func (r dbRunner) Within(ctx context.Context, session Call, f func(send Sender) error) error {
	return r.p.OnConn(withExtraTime(ctx, time.Duration(r.p)), r.db,
		func(ctx context.Context, conn *sql.Conn) error {
			err := WithDriverConn(conn, func(c *pgx.Conn) error { return within(ctx, c, session, f) })
			if errors.Is(err, ErrForeign) {
				return withinText(ctx, conn, session, f)
			}
			return err
		})
}

func within(ctx context.Context, conn *pgx.Conn, session Call, f func(send Sender) error) error {
	err := Send(ctx, conn, []Call{{SQL: Begin}, session})
	if err == nil {
		err = f(func(ctx context.Context, calls ...Call) error { return Send(ctx, conn, calls) })
	}
	if err == nil {
		err = committed(conn.Exec(ctx, commit))
	}
	if err != nil {
		_ = Undo(ctx, conn)
	}
	return Leftover(ctx, conn, err)
}

// WithDriverConn calls f with the pgx connection below conn. A tracing driver may be in between if its
// connections have a method Raw. WithDriverConn returns ErrForeign if the driver is not pgx.
func WithDriverConn(conn *sql.Conn, f func(*pgx.Conn) error) error {
	return conn.Raw(func(c any) error {
		for {
			if c, ok := c.(*stdlib.Conn); ok {
				return f(c.Conn())
			}
			wrapper, ok := c.(interface{ Raw() driver.Conn })
			if !ok {
				return ErrForeign
			}
			c = wrapper.Raw()
		}
	})
}

// SendOn runs the calls in tx, the transaction of conn: one round trip. With a driver other than pgx, it
// first runs the SQL text prefix.
func SendOn(ctx context.Context, conn *sql.Conn, tx *sql.Tx, prefix string, calls []Call) error {
	err := WithDriverConn(conn, func(c *pgx.Conn) error { return Send(ctx, c, calls) })
	if errors.Is(err, ErrForeign) {
		return SendText(ctx, tx, prefix, calls)
	}
	return err
}
