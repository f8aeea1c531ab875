package sqlexec

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/skald-go/skald/store"
)

// Session is a transaction that has the file's write lock.
type Session struct {
	Tx *sql.Tx
	p  *Prepared

	turn *turn // nil for a file that Open did not open
	// life is the context of Tx. end or the timer cancels it. life is nil for a transaction of the caller.
	life  context.Context
	end   context.CancelFunc
	timer *time.Timer
}

// leastBegin is the minimum time for BEGIN, because the machine may be slow.
const leastBegin = time.Second

// Begin begins a transaction. It waits for other writers at most for the time lockWait, but for writers of
// other processes at least for the time leastBegin. Then it returns store.ErrBusy. A timer rolls back the
// transaction after the time limit.
func (d *DB) Begin(ctx context.Context, lockWait, limit time.Duration) (*Session, error) {
	p, err := d.Prepare(ctx)
	if err != nil {
		return nil, err
	}
	began := time.Now()
	life := context.WithoutCancel(ctx) // the transaction continues after the end of ctx
	var mine *turn
	if d.turns != nil {
		if mine, err = d.turns.take(ctx, lockWait); err != nil {
			return nil, err
		}
		life = context.WithValue(life, turnKey{}, mine)
	}
	life, end := context.WithCancel(life)
	stop := context.AfterFunc(ctx, end)
	timer := time.AfterFunc(max(lockWait-time.Since(began), leastBegin), end)
	tx, err := d.lock(life)
	inTime, alive := timer.Stop(), stop()
	if err == nil && inTime && alive {
		timer.Reset(limit)
		return &Session{Tx: tx, p: p, turn: mine, life: life, end: end, timer: timer}, nil
	}
	if err == nil {
		err = errors.Join(store.ErrBusy, tx.Rollback())
	}
	end()
	mine.end()
	switch {
	case !alive && ctx.Err() != nil:
		return nil, ctx.Err()
	case !inTime:
		return nil, fmt.Errorf("wait for another process's transaction: %w", store.ErrBusy)
	}
	return nil, err
}

// lock begins a transaction. It retries after SQLite's busy timeout until life ends.
func (d *DB) lock(life context.Context) (*sql.Tx, error) {
	for {
		tx, err := d.SQL.BeginTx(life, nil)
		if err == nil || !Busy(err) {
			return tx, err
		}
		select {
		case <-life.Done():
			return nil, err
		case <-time.After(time.Millisecond):
		}
	}
}

// Join returns a session for a transaction of the caller. The caller ends tx. The session uses no prepared
// statements, because tx may belong to another *sql.DB.
func (d *DB) Join(ctx context.Context, tx *sql.Tx) (*Session, error) {
	p, err := d.Prepare(ctx)
	return &Session{Tx: tx, p: p}, err
}

// Close rolls back a transaction of Begin, if it is still open.
func (x *Session) Close() error {
	defer x.end()
	x.timer.Stop()
	if err := x.Tx.Rollback(); err != nil && !errors.Is(err, sql.ErrTxDone) {
		return err
	}
	return nil
}

// Commit commits a transaction of Begin.
func (x *Session) Commit() error {
	defer x.end()
	x.timer.Stop()
	if err := x.Tx.Commit(); err != nil {
		return x.Why(err)
	}
	return nil
}

// Undo rolls back a transaction of Begin. It returns store.ErrLent if the handler already ended the
// transaction. It ignores other errors, because SQLite then undoes the transaction anyway.
func (x *Session) Undo() error {
	held := x.Held()
	x.timer.Stop()
	err := x.Tx.Rollback()
	x.end()
	if errors.Is(err, sql.ErrTxDone) && !held {
		return store.ErrLent
	}
	return nil
}

// Drop rolls back a transaction of Begin, from any goroutine. Afterwards Held returns true.
func (x *Session) Drop() { x.end() }

// Held returns true if a transaction of Begin exceeded its limit and was rolled back, or if Drop rolled it
// back.
func (x *Session) Held() bool { return x.life.Err() != nil }

// Leaves reports whether a statement of the transaction may have left state on its connection. It returns
// false for a file that Open did not open.
func (x *Session) Leaves() bool { return x.turn != nil && x.turn.left.Load() }

// Why adds a reason to err: why a transaction of Begin ended early.
func (x *Session) Why(err error) error {
	switch {
	case x.Held():
		return fmt.Errorf("%w: %w", errHeld, err)
	case errors.Is(err, sql.ErrTxDone):
		return store.ErrLent
	}
	return err
}

// Exec runs the statement name, by its text if the session has no prepared statements.
func (x *Session) Exec(ctx context.Context, name string, args ...any) (sql.Result, error) {
	if x.life == nil {
		return x.Tx.ExecContext(ctx, x.p.text[name], args...)
	}
	return x.p.In(ctx, x.Tx, name).ExecContext(ctx, args...)
}

// Count runs a statement and returns the number of changed rows.
func (x *Session) Count(ctx context.Context, name string, args ...any) (int64, error) {
	res, err := x.Exec(ctx, name, args...)
	if err != nil {
		return 0, err
	}
	return res.RowsAffected()
}

// Row runs a statement for one row.
func (x *Session) Row(ctx context.Context, name string, args ...any) *sql.Row {
	if x.life == nil {
		return x.Tx.QueryRowContext(ctx, x.p.text[name], args...)
	}
	return x.p.In(ctx, x.Tx, name).QueryRowContext(ctx, args...)
}

// Rows runs a statement in a transaction of Begin and returns its rows.
func (x *Session) Rows(ctx context.Context, name string, args ...any) (*sql.Rows, error) {
	return x.p.In(ctx, x.Tx, name).QueryContext(ctx, args...)
}

// Quiet returns ctx without its cancellation. A cancelled statement would roll back the whole transaction,
// and statements under the write lock are short anyway.
func Quiet(ctx context.Context) context.Context { return context.WithoutCancel(ctx) }
