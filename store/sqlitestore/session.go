package sqlitestore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/skald-go/skald/store"
)

// A session is a transaction that holds the file's write lock.
type session struct {
	tx *sql.Tx
	p  *prepared

	// Of our own transactions: life is the context that tx lives under, cut off by end or by the timer.
	sessionID context.Context
	end       context.CancelFunc
	timer     *time.Timer
}

// leastBegin is what BEGIN gets in any case: the machine may be slow, and nobody in the way.
const leastBegin = time.Second

// begin opens a transaction of our own: it waits for other writers for wait at most, for those of other
// processes for leastBegin at least, and is rolled back once it is older than most.
func (s *Store) begin(ctx context.Context, wait, most time.Duration) (*session, error) {
	p, err := s.prepare(ctx)
	if err != nil {
		return nil, err
	}
	began := time.Now()
	sessionID := context.WithoutCancel(ctx) // the transaction outlives the context that it was begun under
	var mine *turn
	if s.turns != nil {
		if mine, err = s.turns.take(ctx, wait); err != nil {
			return nil, err
		}
		sessionID = context.WithValue(sessionID, turnKey{}, mine)
	}
	sessionID, end := context.WithCancel(sessionID)
	stop := context.AfterFunc(ctx, end)
	timer := time.AfterFunc(max(wait-time.Since(began), leastBegin), end)
	tx, err := s.lock(sessionID)
	inTime, alive := timer.Stop(), stop()
	if err == nil && inTime && alive {
		timer.Reset(most)
		return &session{tx: tx, p: p, sessionID: sessionID, end: end, timer: timer}, nil
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

// lock begins a transaction; a busy timeout that is shorter than life is waited for again.
func (s *Store) lock(sessionID context.Context) (*sql.Tx, error) {
	for {
		tx, err := s.db.BeginTx(sessionID, nil)
		if err == nil || !busy(err) {
			return tx, err
		}
		select {
		case <-sessionID.Done():
			return nil, err
		case <-time.After(time.Millisecond):
		}
	}
}

// close ends a transaction of our own, if it is still open.
func (x *session) close() error {
	defer x.end()
	x.timer.Stop()
	if err := x.tx.Rollback(); err != nil && !errors.Is(err, sql.ErrTxDone) {
		return err
	}
	return nil
}

func (x *session) commit() error {
	if err := x.tx.Commit(); err != nil {
		return x.why(err)
	}
	return nil
}

// why tells of err in a transaction of our own what the matter is.
func (x *session) why(err error) error {
	switch {
	case x.sessionID.Err() != nil:
		return fmt.Errorf("%w: %w", errHeld, err)
	case errors.Is(err, sql.ErrTxDone):
		return store.ErrLent
	}
	return err
}

// exec runs a statement and counts the rows that it changed. Where the session has no prepared statements (a
// transaction of the caller's, perhaps on another *sql.DB) it runs the text.
func (x *session) exec(ctx context.Context, name string, args ...any) (sql.Result, error) {
	if x.sessionID == nil {
		return x.tx.ExecContext(ctx, x.p.text[name], args...)
	}
	return x.tx.StmtContext(ctx, x.p.stmts[name]).ExecContext(ctx, args...)
}

func (x *session) count(ctx context.Context, name string, args ...any) (int64, error) {
	res, err := x.exec(ctx, name, args...)
	if err != nil {
		return 0, err
	}
	return res.RowsAffected()
}

func (x *session) row(ctx context.Context, name string, args ...any) *sql.Row {
	if x.sessionID == nil {
		return x.tx.QueryRowContext(ctx, x.p.text[name], args...)
	}
	return x.tx.StmtContext(ctx, x.p.stmts[name]).QueryRowContext(ctx, args...)
}

func (x *session) rows(ctx context.Context, name string, args ...any) (*sql.Rows, error) {
	return x.tx.StmtContext(ctx, x.p.stmts[name]).QueryContext(ctx, args...)
}

// quiet is ctx without its end: under the write lock statements do not wait, and one that were interrupted
// would take the whole transaction with it.
func quiet(ctx context.Context) context.Context { return context.WithoutCancel(ctx) }
