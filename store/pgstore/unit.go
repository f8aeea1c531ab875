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

// unit is a transaction that Skald began and lent to a handler.
type unit struct {
	s      *Store
	mu     sync.Mutex    // guards writes of conn, and Drop
	conn   *pgxpool.Conn // nil after the unit ended
	tx     *lent
	found  store.Found
	marks  []store.Mark // of the intake
	have   query.Locked
	sagas  []store.SagaRef // locked by it
	level  store.Isolation
	queue  []store.Effect // to be applied after the commit, see splitQueue
	kept   bool           // a parked message already has a mark: the unit can only be rolled back
	nth    int            // number of units begun in a row, each after the commit of the one before
	shared bool           // several functions use it: see Usable
	// undone: the server refused a PREPARE TRANSACTION of the function, and rolled back
	undone bool
	// reported has the settings of the session before the transaction, and within those after the intake
	reported, within sqlexec.Reported
}

// Begin opens a transaction and applies in: one round trip, or two if a mark already exists.
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
	now, later := splitNeeded(in, s.bind(in, calls))
	now = started(conn.Conn(), in, now)
	u.reported = sqlexec.ReportedBy(conn.Conn())
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
	notePrepared(conn.Conn(), now)
	u.lend(conn, tx, in)
	return u, nil
}

// roundTrip runs f on conn within the patience plus wait, the time that its statements may wait for rivals.
// If f fails, no transaction stays open.
func (s *Store) roundTrip(ctx context.Context, conn *pgxpool.Conn, wait time.Duration,
	f func(ctx context.Context) error) error {
	return s.patience.RoundTrip(ctx, s.pool, conn.Conn(), wait, f)
}

func (u *unit) lend(conn *pgxpool.Conn, tx pgx.Tx, in store.Intake) {
	u.conn, u.tx, u.marks = conn, newLent(u.s, tx, conn.Conn()), in.Marks
	u.have, u.level = query.LockedBy(in, u.found), in.Isolation
	u.sagas, u.kept = query.LockedSagas(in, u.found), query.AnyBlocked(u.found) && !query.Many(in)
	u.within = sqlexec.ReportedBy(conn.Conn())
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

// Outage reports whether the connection was lost, or an outage aborted the transaction.
func (u *unit) Outage(_ context.Context, err error) bool {
	if u.conn == nil {
		return false
	}
	conn := u.conn.Conn()
	u.undone = conn.PgConn().TxStatus() == 'I' && sqlexec.PrepareRefused(err)
	return failedItself(conn.IsClosed(), conn.PgConn().TxStatus() == 'E', err)
}

// failedItself reports whether an outage is the cause of a handler's err. closed and aborted are the state
// of the connection and the transaction. pgx closes the connection if a context of the handler ends during
// a statement, so err may then have another cause.
func failedItself(closed, aborted bool, err error) bool {
	switch {
	case err == nil:
		return false
	case closed:
		return true
	}
	return aborted && sqlexec.SQLState(err) != "" && Outage(sqlexec.Lent(err))
}

// Usable reads the transaction status that came with the last statement: no round trip.
func (u *unit) Usable(context.Context) error {
	if u.conn == nil {
		return errEnded
	}
	if u.tx.unshared {
		return store.ErrUnshared
	}
	if _, ok := u.tx.live().(*over); ok {
		return nil
	}
	if err := usable(u.conn.Conn()); err != nil {
		return err
	}
	if u.changed() {
		return store.ErrUnshared
	}
	u.shared = true
	return nil
}

var errNoSavepoint = errors.New("there is no savepoint to roll back to")

// Savepoint sets a savepoint, in place of the last one. It travels with the next statement: no round trip.
func (u *unit) Savepoint(context.Context) bool {
	if _, ok := u.tx.live().(*over); u.conn == nil || ok {
		return false
	}
	return u.tx.point()
}

// Undo rolls back to the savepoint: one round trip, or none if the function sent no statement.
func (u *unit) Undo(ctx context.Context) error {
	if u.conn == nil {
		return errEnded
	}
	sent, err := u.tx.unpoint()
	if !sent || err != nil {
		return err
	}
	conn := u.conn.Conn()
	err = u.s.roundTrip(ctx, u.conn, 0, func(ctx context.Context) error {
		_, err := conn.PgConn().Exec(ctx, rollbackToPoint).ReadAll()
		return err
	})
	u.tx.look()
	if err == nil {
		err = usable(conn)
	}
	if err != nil {
		return fmt.Errorf("roll back to the savepoint: %w", err)
	}
	return nil
}

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

// leave takes the connection from the unit.
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
		return fmt.Errorf("an earlier error, which the handler ignored, aborted the transaction: %w",
			pgx.ErrTxCommitRollback)
	}
	return nil
}

// changed reports whether a reported setting of the session changed since the intake.
func (u *unit) changed() bool { return sqlexec.ReportedBy(u.conn.Conn()) != u.within }

// end revokes the transaction and releases the connection, once.
func (u *unit) end() {
	if u.conn == nil {
		return
	}
	if u.tx.sets { // also after a rollback: a prepared statement outlives it
		sqlexec.Close(context.Background(), u.conn.Conn())
	}
	u.tx.end()
	sqlexec.Release(u.leave())
}

// Commit writes the buffered rows and effects, then es, and commits: one round trip.
func (u *unit) Commit(ctx context.Context, es ...store.Effect) error {
	err := u.commit(ctx, es)
	if err == nil {
		u.s.settleQueue(ctx, u.queue)
	}
	return err
}

// commit writes es, commits, and returns the connection.
func (u *unit) commit(ctx context.Context, es []store.Effect) error {
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
	err = u.committed(ctx, err, es)
	if err == nil && sqlexec.ReportedBy(conn) != u.reported { // a database function changed a setting
		sqlexec.Close(ctx, conn)
	}
	return err
}

// committed reports the outcome of a commit.
func (u *unit) committed(ctx context.Context, err error, es []store.Effect) error {
	if err == nil {
		if u.tx.wrote {
			u.s.waker.Wake()
		}
		u.s.wakeFor(es...)
		return nil
	}
	_ = sqlexec.Undo(ctx, u.conn.Conn())
	if errors.Is(err, store.ErrUnshared) { // the temporary objects outlive the rollback if they are older
		sqlexec.Close(ctx, u.conn.Conn())
	}
	if sqlexec.Lost(err) {
		err = fmt.Errorf("%w: %w", store.ErrLost, err)
	}
	sent := append(named(u.tx.kept.kinds), messages(es)...)
	return fmt.Errorf("commit: %w", sqlexec.Limit(u.s.pg.Explain(sqlexec.Lent(err)), sent))
}

// last returns the calls to send before COMMIT.
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
	now, queue, touch := u.s.splitQueue(u.level, es)
	u.queue = queue
	calls, err := u.s.outflow(now, rows, u.have, u.marks...)
	calls = append(touch, calls...)
	if !u.s.sagas.MoveHeld(u.sagas, calls) {
		calls = append([]sqlexec.Call{u.s.pg.GuardLent()}, calls...)
	}
	if u.shared {
		calls = append(calls, u.s.pg.GuardTemporary())
	}
	return append(calls, u.s.pg.FreeLent()), err
}

// Rollback undoes everything and then applies instead. The first of them needs no extra round trip.
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
		if u.undone {
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
	if again { // on another connection: the pool may need this one for it
		first, err = u.s.applyOne(ctx, instead[0])
	}
	if err != nil {
		return make([]bool, len(instead)), fmt.Errorf("roll back: %w", err)
	}
	rest, err := u.s.Apply(ctx, instead[1:]...)
	return append([]bool{first}, rest...), err
}

// instead rolls back and applies e in the same pipeline. again reports that the caller must apply e
// separately.
func (u *unit) instead(ctx context.Context, e store.Effect) (stored, again bool, err error) {
	conn := u.conn.Conn()
	calls, err := u.s.outflow([]store.Effect{e}, nil, nil)
	if err != nil {
		_ = sqlexec.Undo(ctx, conn)
		stored, err = u.s.verdict(err, e)
		return stored, false, err
	}
	if conn.IsClosed() || u.undone {
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
		if sqlexec.SQLState(err) == "25P02" || sqlexec.OfSetting(err) {
			// Statements that are new to the connection are prepared before the ROLLBACK: in an aborted
			// transaction, or with the role and the tables that the function left there.
			return false, true, nil
		}
		err = u.s.pg.Explain(err)
	}
	stored, err = u.s.verdict(err, e)
	return stored, false, err
}
