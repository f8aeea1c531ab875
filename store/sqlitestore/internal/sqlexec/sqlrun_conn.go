package sqlexec

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"

	"modernc.org/sqlite"
)

// fullConn has the methods of modernc.org/sqlite's connection that database/sql uses.
type fullConn interface {
	driver.Conn
	driver.ConnBeginTx
	driver.ConnPrepareContext
	driver.ExecerContext
	driver.QueryerContext
	driver.Pinger
	driver.SessionResetter
	driver.Validator
	sqlite.HookRegisterer
}

type conn struct {
	fullConn
	turns turnstile
	same  func() error // see place
	turn  *turn        // during a write transaction
	inTx  bool
	// gone reports that SQLite rolled back the transaction. Then the connection refuses statements, because
	// SQLite would commit each of them by itself.
	gone bool
	left bool // a statement may have left state on the connection: see mayLeaveState
}

// IsValid returns false if database/sql must close the connection instead of using it again.
func (c *conn) IsValid() bool { return !c.left && c.fullConn.IsValid() }

// heed records a statement that may leave state on the connection.
func (c *conn) heed(q string) {
	if !mayLeaveState(q) {
		return
	}
	c.left = true
	if c.turn != nil {
		c.turn.left.Store(true)
	}
}

func (c *conn) BeginTx(ctx context.Context, o driver.TxOptions) (driver.Tx, error) {
	mine, err := c.enter(ctx, o)
	if err != nil {
		return nil, err
	}
	base, err := c.fullConn.BeginTx(ctx, o)
	if err == nil {
		if err = c.same(); err != nil {
			err = errors.Join(err, base.Rollback())
		}
	}
	if err != nil {
		mine.end()
		return nil, err
	}
	c.turn, c.inTx, c.gone = mine, true, false
	return &connTx{base, c}, nil
}

func (c *conn) enter(ctx context.Context, o driver.TxOptions) (*turn, error) {
	if mine, ok := ctx.Value(turnKey{}).(*turn); ok && mine.at == c.turns && !mine.over.Load() {
		return mine, nil
	}
	if o.ReadOnly {
		return nil, nil
	}
	return c.turns.take(ctx, BusyTimeout)
}

func (c *conn) leave() {
	c.inTx, c.gone = false, false
	c.turn.end()
	c.turn = nil
}

func (c *conn) Close() error {
	defer c.leave()
	return c.fullConn.Close()
}

func (c *conn) ExecContext(ctx context.Context, q string, args []driver.NamedValue) (driver.Result, error) {
	if c.gone {
		return nil, ErrGone
	}
	c.heed(q)
	return c.fullConn.ExecContext(ctx, q, args)
}

func (c *conn) QueryContext(ctx context.Context, q string, args []driver.NamedValue) (driver.Rows, error) {
	if c.gone {
		return nil, ErrGone
	}
	c.heed(q)
	return c.fullConn.QueryContext(ctx, q, args)
}

func (c *conn) PrepareContext(ctx context.Context, q string) (driver.Stmt, error) {
	c.heed(q)
	base, err := c.fullConn.PrepareContext(ctx, q)
	if err != nil {
		return nil, err
	}
	full, ok := base.(fullStmt)
	if !ok {
		return nil, fmt.Errorf("prepare: %T is not a statement of the supported SQLite driver", base)
	}
	return &stmt{full, c}, nil
}

type fullStmt interface {
	driver.Stmt
	driver.StmtExecContext
	driver.StmtQueryContext
}

type stmt struct {
	fullStmt
	c *conn
}

func (s *stmt) ExecContext(ctx context.Context, args []driver.NamedValue) (driver.Result, error) {
	if s.c.gone {
		return nil, ErrGone
	}
	return s.fullStmt.ExecContext(ctx, args)
}

func (s *stmt) QueryContext(ctx context.Context, args []driver.NamedValue) (driver.Rows, error) {
	if s.c.gone {
		return nil, ErrGone
	}
	return s.fullStmt.QueryContext(ctx, args)
}

type connTx struct {
	driver.Tx
	c *conn
}

func (t *connTx) Commit() error {
	defer t.c.leave()
	if t.c.gone {
		// The text that ended the transaction may have begun another one. If not, this returns a harmless
		// error.
		_ = t.Tx.Rollback()
		return ErrGone
	}
	t.c.inTx = false
	if err := t.c.same(); err != nil {
		return errors.Join(err, t.Tx.Rollback())
	}
	return t.Tx.Commit()
}

func (t *connTx) Rollback() error {
	defer t.c.leave()
	if t.c.gone {
		_ = t.Tx.Rollback() // see Commit
		return nil
	}
	t.c.inTx = false
	return t.Tx.Rollback()
}
