package pgstore

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/skald-go/skald/store"
	"github.com/skald-go/skald/store/pgstore/internal/query"
	"github.com/skald-go/skald/store/pgstore/internal/sqlexec"
)

// A unit is a transaction of ours, lent to a handler.
type unit struct {
	s     *Store
	mu    sync.Mutex    // of writing conn, and of Drop
	conn  *pgxpool.Conn // nil: ended
	tx    *lent
	found store.Found
	marks []store.Mark // of the intake
	have  query.Locked
	sagas []store.SagaRef // that it has locked
	kept  bool            // a message of it is, and has a mark all the same: it is for rolling back
	nth   int             // of those in a row that were begun after each other's commit
}

// Begin opens a transaction and takes in: one round trip, two where a mark is there.
func (s *Store) Begin(ctx context.Context, in store.Intake) (store.Unit[pgx.Tx], error) {
	u := &unit{s: s}
	calls, err := s.intake(in, &u.found)
	if err != nil {
		return nil, fmt.Errorf("begin: %w", err)
	}
	s.waiting.Add(1)
	conn, err := s.patience.Acquire(ctx, s.pool)
	s.waiting.Add(-1)
	if err != nil {
		return nil, fmt.Errorf("begin: %w", err)
	}
	now, later := apart(in, s.bind(in, calls))
	var tx pgx.Tx
	err = s.roundTrip(ctx, conn, in.Wait, func(ctx context.Context) (err error) {
		if tx, err = sqlexec.Open(ctx, conn.Conn(), isoLevel(in.Isolation), now); err == nil {
			tx, err = u.look(ctx, conn.Conn(), tx, in, later)
		}
		return err
	})
	if err != nil {
		err = sqlexec.Leftover(ctx, conn.Conn(), err)
		sqlexec.Release(conn)
		return nil, fmt.Errorf("begin: %w", s.pg.Beginning(err))
	}
	prepares(conn.Conn(), now)
	u.lend(conn, tx, in)
	return u, nil
}

// roundTrip does f on conn within the patience, and wait for rivals. Where it fails, nothing is left open.
func (s *Store) roundTrip(ctx context.Context, conn *pgxpool.Conn, wait time.Duration,
	f func(ctx context.Context) error) error {
	return s.patience.RoundTrip(ctx, s.pool, conn.Conn(), wait, f)
}

func (u *unit) lend(conn *pgxpool.Conn, tx pgx.Tx, in store.Intake) {
	sqlexec.NoteLent(conn.Conn())
	u.conn, u.tx, u.marks = conn, newLent(u.s, tx, conn.Conn()), in.Marks
	u.have = query.LockedBy(in, u.found)
	u.sagas, u.kept = query.Held(in, u.found), query.Holding(u.found) && !query.Many(in)
}

func isoLevel(level store.Isolation) pgx.TxIsoLevel {
	switch level {
	case store.RepeatableRead:
		return pgx.RepeatableRead
	case store.Serializable:
		return pgx.Serializable
	}
	return pgx.ReadCommitted
}

func (u *unit) Tx() pgx.Tx { return u.tx }
func (u *unit) Found() store.Found {
	found := u.found
	found.Follows = true
	return found
}

// Outage tells whether the connection was lost, or the transaction aborted by what is nobody's fault.
func (u *unit) Outage(_ context.Context, err error) bool {
	if u.conn == nil {
		return false
	}
	conn := u.conn.Conn()
	return failedItself(conn.IsClosed(), conn.PgConn().TxStatus() == 'E', err)
}

// failedItself tells of a transaction whose handler answered err whether it failed by what may pass. pgx
// closes the connection where a context of the handler's own ends in a statement, whatever err says of that.
func failedItself(closed, aborted bool, err error) bool {
	switch {
	case err == nil:
		return false
	case closed:
		return true
	}
	return aborted && sqlexec.SQLState(err) != "" && Outage(sqlexec.Lent(err))
}

// Usable asks the connection for the status of its last statement: no round trip.
func (u *unit) Usable(context.Context) error {
	if u.conn == nil {
		return errEnded
	}
	if u.tx.unshared {
		return errKeptOpen
	}
	if _, ok := u.tx.live().(*over); ok {
		return nil
	}
	return usable(u.conn.Conn())
}

var errKeptOpen = errors.New("a function kept a savepoint, or the connection: what follows needs another transaction")

// Return revokes the handle of a function that has returned.
func (u *unit) Return() {
	if u.conn != nil {
		u.tx = u.tx.pass()
	}
}

// Drop closes the socket: pgx's own Close waits for a statement. The cancel request ends a statement that the
// server is in, since it reads from the socket only after that.
func (u *unit) Drop() {
	u.mu.Lock()
	conn := u.conn
	if conn == nil {
		u.mu.Unlock()
		return
	}
	server := conn.Conn().PgConn()
	_ = server.Conn().Close()
	u.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), sqlexec.DefaultWait)
	defer cancel()
	_ = server.CancelRequest(ctx)
}

// leave takes the connection away from the unit.
func (u *unit) leave() *pgxpool.Conn {
	u.mu.Lock()
	defer u.mu.Unlock()
	conn := u.conn
	u.conn = nil
	return conn
}

// usable returns why the transaction of a handler cannot be committed.
func usable(conn *pgx.Conn) error {
	switch {
	case conn.IsClosed():
		return errors.New("the connection was lost: nothing was committed")
	case conn.PgConn().TxStatus() == 'I': // by a statement of the handler's own
		return store.ErrLent
	case conn.PgConn().TxStatus() == 'E':
		return fmt.Errorf("an error that the handler swallowed had aborted the transaction: %w",
			pgx.ErrTxCommitRollback)
	}
	return nil
}

// end takes the transaction away from the handler and hands the connection back, once.
func (u *unit) end() {
	if u.conn == nil {
		return
	}
	u.tx.end()
	sqlexec.Release(u.leave())
}

// Commit writes what was kept, then es, then commits: one round trip.
func (u *unit) Commit(ctx context.Context, es ...store.Effect) error {
	if u.conn == nil {
		return fmt.Errorf("commit: %w", errEnded)
	}
	defer u.end()
	conn := u.conn.Conn()
	err := u.s.roundTrip(ctx, u.conn, 0, func(ctx context.Context) error {
		calls, err := u.last(ctx, conn, es)
		if err != nil {
			return err
		}
		return sqlexec.SendCommit(ctx, conn, calls)
	})
	return u.committed(ctx, err, es)
}

// committed reports the outcome of a commit.
func (u *unit) committed(ctx context.Context, err error, es []store.Effect) error {
	if err == nil {
		if u.tx.wrote {
			u.s.waker.Wake()
		}
		u.s.stood(es...)
		if u.tx.sets { // which outlives the transaction
			sqlexec.Close(ctx, u.conn.Conn())
		}
		return nil
	}
	_ = sqlexec.Undo(ctx, u.conn.Conn())
	if sqlexec.Lost(err) {
		err = fmt.Errorf("%w: %w", store.ErrLost, err)
	}
	said := append(named(u.tx.kept.says), messages(es)...)
	return fmt.Errorf("commit: %w", sqlexec.Limit(u.s.pg.Explain(sqlexec.Lent(err)), said))
}

// last are the calls before COMMIT.
func (u *unit) last(ctx context.Context, conn *pgx.Conn, es []store.Effect) ([]sqlexec.Call, error) {
	rows, fault := u.tx.close()
	switch {
	case conn.IsClosed():
		return nil, errors.New("the connection was lost: nothing was committed")
	case fault != nil:
		return nil, fault
	case u.kept:
		return nil, errKept
	}
	if o, ok := u.tx.live().(*over); ok {
		if _, err := o.again(ctx); err != nil {
			return nil, err
		}
	}
	if err := usable(conn); err != nil {
		return nil, err
	}
	calls, err := u.s.outflow(es, rows, u.have, u.marks...)
	if !u.s.sagas.MoveHeld(u.sagas, calls) {
		calls = append([]sqlexec.Call{u.s.pg.GuardLent()}, calls...)
	}
	return append(calls, u.s.pg.FreeLent()), err
}

// Rollback undoes everything and then does Apply(instead...): one round trip for the first of them.
func (u *unit) Rollback(ctx context.Context, instead ...store.Effect) ([]bool, error) {
	if u.conn == nil {
		return nil, fmt.Errorf("roll back: %w", errEnded)
	}
	_, _ = u.tx.close()
	if len(instead) == 0 {
		defer u.end()
		if _, ok := u.tx.live().(*over); ok {
			return nil, nil
		}
		if err := sqlexec.UndoLent(ctx, u.conn.Conn()); err != nil {
			return nil, fmt.Errorf("roll back: %w", err)
		}
		return nil, nil
	}
	if _, ok := u.tx.live().(*over); ok {
		u.end()
		return u.s.Apply(ctx, instead...)
	}
	first, again, err := u.instead(ctx, instead[0])
	u.end()
	if again { // on a connection of its own, for which ours may be needed
		first, err = u.s.applyOne(ctx, instead[0])
	}
	if err != nil {
		return make([]bool, len(instead)), fmt.Errorf("roll back: %w", err)
	}
	rest, err := u.s.Apply(ctx, instead[1:]...)
	return append([]bool{first}, rest...), err
}

// instead rolls back and applies e in the same pipeline, or tells that e is to be applied again, by itself.
func (u *unit) instead(ctx context.Context, e store.Effect) (stood, again bool, err error) {
	conn := u.conn.Conn()
	calls, err := u.s.outflow([]store.Effect{e}, nil, nil)
	if err != nil {
		_ = sqlexec.Undo(ctx, conn)
		stood, err = u.s.verdict(err, e)
		return stood, false, err
	}
	if conn.IsClosed() {
		return false, true, nil
	}
	var before []sqlexec.Call
	switch conn.PgConn().TxStatus() {
	case 'I':
		return false, false, store.ErrLent
	case 'T':
		before = []sqlexec.Call{u.s.pg.GuardLent()}
	}
	before = append(before, sqlexec.Call{SQL: sqlexec.Rollback}, sqlexec.Call{SQL: sqlexec.Begin},
		u.s.pg.Session(sqlexec.DefaultWait, sqlexec.DefaultHandle))
	err = u.s.roundTrip(ctx, u.conn, 0, func(ctx context.Context) error {
		return sqlexec.SendCommit(ctx, conn, append(before, calls...))
	})
	if err != nil {
		if sqlexec.SQLState(err) == "25P02" {
			// statements that are new to the connection cannot be prepared in an aborted transaction
			return false, true, nil
		}
		err = u.s.pg.Explain(err)
	}
	stood, err = u.s.verdict(err, e)
	return stood, false, err
}
