package sqlexec

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/skald-go/skald/store"
)

// A Session is a transaction that holds the file's write lock.
type Session struct {
	Tx *sql.Tx
	p  *Prepared

	// Of our own transactions: life is the context that Tx lives under, cut off by end or by the timer.
	life  context.Context
	end   context.CancelFunc
	timer *time.Timer
}

// leastBegin is what BEGIN gets in any case: the machine may be slow, and nobody in the way.
const leastBegin = time.Second

// Begin opens a transaction of our own: it waits for other writers for wait at most, for those of other
// processes for leastBegin at least, and is rolled back once it is older than most.
func (d *DB) Begin(ctx context.Context, wait, most time.Duration) (*Session, error) {
	p, err := d.Prepare(ctx)
	if err != nil {
		return nil, err
	}
	began := time.Now()
	life := context.WithoutCancel(ctx) // the transaction outlives the context that it was begun under
	var mine *turn
	if d.turns != nil {
		if mine, err = d.turns.take(ctx, wait); err != nil {
			return nil, err
		}
		life = context.WithValue(life, turnKey{}, mine)
	}
	life, end := context.WithCancel(life)
	stop := context.AfterFunc(ctx, end)
	timer := time.AfterFunc(max(wait-time.Since(began), leastBegin), end)
	tx, err := d.lock(life)
	inTime, alive := timer.Stop(), stop()
	if err == nil && inTime && alive {
		timer.Reset(most)
		return &Session{Tx: tx, p: p, life: life, end: end, timer: timer}, nil
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

// lock begins a transaction; a busy timeout that is shorter than its life is waited for again.
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

// Join is the session of a transaction of the caller's, perhaps on another *sql.DB: it has no prepared
// statements, and somebody else ends it.
func (d *DB) Join(ctx context.Context, tx *sql.Tx) (*Session, error) {
	p, err := d.Prepare(ctx)
	return &Session{Tx: tx, p: p}, err
}

// Close ends a transaction of our own, if it is still open.
func (x *Session) Close() error {
	defer x.end()
	x.timer.Stop()
	if err := x.Tx.Rollback(); err != nil && !errors.Is(err, sql.ErrTxDone) {
		return err
	}
	return nil
}

// Commit ends a transaction of our own.
func (x *Session) Commit() error {
	defer x.end()
	x.timer.Stop()
	if err := x.Tx.Commit(); err != nil {
		return x.Why(err)
	}
	return nil
}

// Undo rolls a transaction of our own back. store.ErrLent: somebody had ended it; whatever else there is to
// be said, its rows are undone.
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

// Drop rolls a transaction of our own back, from any goroutine. Then it is Held.
func (x *Session) Drop() { x.end() }

// Held tells whether a transaction of our own is over, since it was held for too long.
func (x *Session) Held() bool { return x.life.Err() != nil }

// Why tells of err in a transaction of our own what the matter is.
func (x *Session) Why(err error) error {
	switch {
	case x.Held():
		return fmt.Errorf("%w: %w", errHeld, err)
	case errors.Is(err, sql.ErrTxDone):
		return store.ErrLent
	}
	return err
}

// Exec runs a statement. Where the session has no prepared statements it runs the text.
func (x *Session) Exec(ctx context.Context, name string, args ...any) (sql.Result, error) {
	if x.life == nil {
		return x.Tx.ExecContext(ctx, x.p.text[name], args...)
	}
	return x.p.In(ctx, x.Tx, name).ExecContext(ctx, args...)
}

// Count runs a statement and counts the rows that it changed.
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

// Rows runs a statement, in a transaction of our own.
func (x *Session) Rows(ctx context.Context, name string, args ...any) (*sql.Rows, error) {
	return x.p.In(ctx, x.Tx, name).QueryContext(ctx, args...)
}

// Quiet is ctx without its end: under the write lock statements do not wait, and one that were interrupted
// would take the whole transaction with it.
func Quiet(ctx context.Context) context.Context { return context.WithoutCancel(ctx) }
