package sqlexec

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"strings"

	"modernc.org/sqlite"
)

// fullConn is what the vendor's connection can do and database/sql makes use of.
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
	turn  *turn        // while in a transaction that writes
	inTx  bool
	// the transaction was rolled back, and not by its owner: SQLite would commit each statement for itself
	gone bool
	set  bool // a PRAGMA was run on it: whatever that changed stays with the connection
}

// IsValid: database/sql closes a connection that is not, instead of lending it to the next.
func (c *conn) IsValid() bool { return !c.set && c.fullConn.IsValid() }

// heed takes note of what a statement may leave behind.
func (c *conn) heed(q string) {
	c.set = c.set || setsSomething(q)
}

// setsSomething tells of a text with a PRAGMA in it. A table-valued pragma_… only reads.
func setsSomething(q string) bool {
	const word = "pragma"
	for i := 0; i+len(word) < len(q); i++ {
		if strings.EqualFold(q[i:i+len(word)], word) && q[i+len(word)] != '_' {
			return true
		}
	}
	return false
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
		return nil, fmt.Errorf("prepare: %T is not a statement that Skald knows", base)
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
		// of what may have been begun behind it, in the same text: no answer where nothing was
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
