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

// OverSQL is a runner over database/sql.
func OverSQL(db *sql.DB, p Patience) Runner { return dbRunner{db, p} }

// dbRunner borrows the pgx connection below one of database/sql, and so sends a whole transaction as one
// pipeline.
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
	err := Below(conn, func(c *pgx.Conn) error {
		all := make([]Call, 0, len(calls)+1)
		err := SendCommit(ctx, c, append(append(all, Call{SQL: Begin}), calls...))
		if err != nil {
			_ = Undo(ctx, c)
		}
		return err
	})
	if errors.Is(err, ErrForeign) {
		return runText(ctx, conn, calls)
	}
	return err
}

func (r dbRunner) Within(ctx context.Context, f func(send Sender) error) error {
	return r.p.OnConn(longer(ctx, time.Duration(r.p)), r.db, func(ctx context.Context, conn *sql.Conn) error {
		return within(ctx, conn, f)
	})
}

func within(ctx context.Context, conn *sql.Conn, f func(send Sender) error) error {
	tx, err := conn.BeginTx(ctx, &sql.TxOptions{Isolation: sql.LevelReadCommitted})
	if err != nil {
		return err
	}
	in := func(ctx context.Context, calls ...Call) error { return SendOn(ctx, conn, tx, "", calls) }
	if err = in(ctx, Call{SQL: Writes}); err == nil {
		err = f(in)
	}
	if err != nil {
		_ = tx.Rollback()
		return err
	}
	return tx.Commit()
}

// Below gives f the pgx connection below conn, also below a driver that only traces, or answers ErrForeign.
func Below(conn *sql.Conn, f func(*pgx.Conn) error) error {
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

// SendOn carries out calls in tx, which conn is in. A driver that is not pgx is sent before, then the calls
// as one text.
func SendOn(ctx context.Context, conn *sql.Conn, tx *sql.Tx, before string, calls []Call) error {
	err := Below(conn, func(c *pgx.Conn) error { return Send(ctx, c, calls) })
	if errors.Is(err, ErrForeign) {
		return SendText(ctx, tx, before, calls)
	}
	return err
}
