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

// unit is a transaction that Skald began and that a handler uses, over a pgx pool. It takes marks and locks
// at its begin, and it applies the effects of the handler at its commit.
type unit struct {
	s      *Store
	conn   *pgx.Conn // nil before lend
	tx     *lent
	found  store.Found
	marks  []store.Mark // of the intake
	have   query.Locked
	sagas  []store.SagaRef // locked by the intake
	level  store.Isolation
	queue  []store.Effect // effects to apply after the commit, see splitQueue
	kept   bool           // a message is parked or dead, so the unit can only be rolled back
	nth    int            // number of units before this one that CommitThen ran in a row on the connection
	shared bool           // several functions use it: see Usable
	// undone reports that the server refused a PREPARE TRANSACTION of the function, and rolled back.
	undone bool
	// reported has the settings of the session before the transaction, and within those after the intake.
	reported, within sqlexec.Reported

	mu      sync.Mutex    // guards the following fields, and writes of tx
	pooled  *pgxpool.Conn // nil after the unit ended
	dropped bool
}

// Begin opens a transaction and applies an intake: one round trip, or two if a mark already exists.
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
	now = recordSession(conn.Conn(), in, now)
	u.reported = sqlexec.ReportedBy(conn.Conn())
	var tx pgx.Tx
	err = s.roundTrip(ctx, conn.Conn(), in.Wait, func(ctx context.Context) (err error) {
		if tx, err = sqlexec.Open(ctx, conn.Conn(), isoLevel(in.Isolation), now); err == nil {
			tx, err = u.readVerdicts(ctx, conn.Conn(), tx, in, later)
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

// roundTrip runs f on conn. The limit of f is the patience plus lockWait, the time that the statements of f
// may wait for locks. If f fails, roundTrip leaves no open transaction on conn.
func (s *Store) roundTrip(ctx context.Context, conn *pgx.Conn, lockWait time.Duration,
	f func(ctx context.Context) error) error {
	return s.patience.RoundTrip(ctx, s.pool, conn, lockWait, f)
}

// lend completes the unit after its begin, so that a handler can use the transaction.
func (u *unit) lend(conn *pgxpool.Conn, tx pgx.Tx, in store.Intake) {
	u.conn, u.pooled = conn.Conn(), conn
	u.tx, u.marks = newLent(u.s, tx, conn.Conn()), in.Marks
	u.have, u.level = query.LockedBy(in, u.found), in.Isolation
	u.sagas, u.kept = query.LockedSagas(in, u.found), query.AnyBlocked(u.found) && !query.Many(in)
	u.within = sqlexec.ReportedBy(u.conn)
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

// Outage reports whether the handler's error err comes from a lost connection or from an outage that aborted
// the transaction.
func (u *unit) Outage(_ context.Context, err error) bool {
	if u.hasEnded() {
		return false
	}
	conn := u.conn
	u.undone = conn.PgConn().TxStatus() == 'I' && sqlexec.PrepareRefused(err)
	return failedItself(conn.IsClosed(), conn.PgConn().TxStatus() == 'E', err)
}

// failedItself reports whether an outage is the cause of a handler's error err. closed reports a closed
// connection, aborted an aborted transaction. If the connection is closed, err itself may be any error,
// because pgx also closes it if a context of the handler ends during a statement.
func failedItself(closed, aborted bool, err error) bool {
	switch {
	case err == nil:
		return false
	case closed:
		return true
	}
	return aborted && sqlexec.SQLState(err) != "" && Outage(sqlexec.Lent(err))
}

// Usable returns an error if the transaction cannot continue with another function. It reads the transaction
// status that came with the last statement: no round trip.
func (u *unit) Usable(context.Context) error {
	if u.hasEnded() {
		return errEnded
	}
	if u.tx.unshared {
		return store.ErrUnshared
	}
	if _, ok := u.tx.live().(*over); ok {
		return nil
	}
	if err := usable(u.conn); err != nil {
		return err
	}
	if u.changed() {
		return store.ErrUnshared
	}
	u.shared = true
	return nil
}

var errNoSavepoint = errors.New("there is no savepoint to roll back to")

// Savepoint sets a savepoint, in place of the last one. The next statement sends it: no round trip. Savepoint
// returns false if the transaction cannot have a savepoint.
func (u *unit) Savepoint(context.Context) bool {
	if _, ok := u.tx.live().(*over); u.hasEnded() || ok {
		return false
	}
	return u.tx.point()
}

// Undo rolls back to the savepoint: one round trip, or none if the function sent no statement.
func (u *unit) Undo(ctx context.Context) error {
	if u.hasEnded() {
		return errEnded
	}
	sent, err := u.tx.unpoint()
	if !sent || err != nil {
		return err
	}
	conn := u.conn
	err = u.s.roundTrip(ctx, u.conn, 0, func(ctx context.Context) error {
		_, err := conn.PgConn().Exec(ctx, rollbackToPoint).ReadAll()
		return err
	})
	u.tx.noteState()
	if err == nil {
		err = usable(conn)
	}
	if err != nil {
		return fmt.Errorf("roll back to the savepoint: %w", err)
	}
	return nil
}

// hasEnded reports whether the unit no longer has a connection: it was committed, rolled back or dropped.
func (u *unit) hasEnded() bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.pooled == nil
}

func (u *unit) isDropped() bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.dropped
}

// handle returns the present handle of the transaction. It locks, because a goroutine of an earlier function
// may still run statements.
func (u *unit) handle() *lent {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.tx
}

// Return revokes the handle of a function that has returned, or that the caller no longer waits for. The next
// function gets a new handle.
func (u *unit) Return() {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.tx != nil {
		u.tx = u.tx.pass()
	}
}

// Drop ends the transaction while a statement of the handler may still run. It closes the socket itself,
// because Close of pgx would wait for the statement. It also sends a cancel request, because the server would
// notice the closed socket only after the statement.
func (u *unit) Drop() {
	u.mu.Lock()
	conn := u.pooled
	u.pooled, u.dropped = nil, u.dropped || conn != nil
	u.mu.Unlock()
	if conn == nil {
		return
	}
	server := conn.Hijack().PgConn() // Release would wait for the function's statement
	_ = server.Conn().Close()
	ctx, cancel := context.WithTimeout(context.Background(), sqlexec.DefaultWait)
	defer cancel()
	_ = server.CancelRequest(ctx)
}

// leave takes the connection from the unit. It returns nil if Drop took the connection before.
func (u *unit) leave() *pgxpool.Conn {
	u.mu.Lock()
	defer u.mu.Unlock()
	conn := u.pooled
	u.pooled = nil
	return conn
}

// usable returns an error if the transaction of a handler cannot be committed.
func usable(conn *pgx.Conn) error {
	switch {
	case conn.IsClosed():
		return errors.New("the connection was lost: nothing was committed")
	case conn.PgConn().TxStatus() == 'I': // a statement of the handler ended the transaction
		return store.ErrLent
	case conn.PgConn().TxStatus() == 'E':
		return fmt.Errorf("an earlier error, which the handler ignored, aborted the transaction: %w",
			pgx.ErrTxCommitRollback)
	}
	return nil
}

// changed reports whether a setting that the server reports changed since the intake.
func (u *unit) changed() bool { return sqlexec.ReportedBy(u.conn) != u.within }

// end revokes the transaction and returns the connection to the pool, once.
func (u *unit) end() {
	pooled := u.leave()
	if pooled == nil {
		return
	}
	if u.tx.sets { // also after a rollback: a prepared statement outlives it
		sqlexec.Close(context.Background(), u.conn)
	}
	u.tx.end()
	sqlexec.Release(pooled)
}

// Commit applies es with the rows that Write buffered, and commits: one round trip.
func (u *unit) Commit(ctx context.Context, es ...store.Effect) error {
	err := u.commit(ctx, es)
	if err == nil {
		u.s.settleQueue(ctx, u.queue)
	}
	return err
}

// commit applies es, commits, and returns the connection to the pool.
func (u *unit) commit(ctx context.Context, es []store.Effect) error {
	if u.hasEnded() {
		return fmt.Errorf("commit: %w", errEnded)
	}
	defer u.end()
	conn := u.conn
	err := u.s.roundTrip(ctx, conn, 0, func(ctx context.Context) error {
		calls, err := u.lastCalls(ctx, conn, es)
		if err != nil {
			return err
		}
		return sqlexec.SendCommit(ctx, conn, calls)
	})
	err = u.committed(ctx, err, es)
	if err == nil && u.settle(ctx) {
		u.queue = nil
	}
	if err == nil && sqlexec.ReportedBy(conn) != u.reported { // a database function changed a setting
		sqlexec.Close(ctx, conn)
	}
	return err
}

// settle applies the changes that splitQueue separated, on the connection of the unit. It returns false if
// that fails; then settleQueue tries them on another connection.
func (u *unit) settle(ctx context.Context) bool {
	if len(u.queue) == 0 {
		return true
	}
	calls, err := u.s.outflow(u.queue, nil, nil)
	if err != nil {
		return false
	}
	calls = append([]sqlexec.Call{{SQL: sqlexec.Begin}, u.s.pg.Session(sqlexec.DefaultWait,
		sqlexec.DefaultHandle)}, calls...)
	err = u.s.roundTrip(context.WithoutCancel(ctx), u.conn, 0, func(ctx context.Context) error {
		return sqlexec.SendCommit(ctx, u.conn, calls)
	})
	if err != nil {
		_ = sqlexec.Undo(context.WithoutCancel(ctx), u.conn)
	}
	return err == nil
}

// committed handles the result of a commit: it wakes relays after a success, and rolls back after err. It
// returns err with details.
func (u *unit) committed(ctx context.Context, err error, es []store.Effect) error {
	if err == nil {
		if u.tx.wrote {
			u.s.waker.Wake()
		}
		u.s.wakeFor(es...)
		return nil
	}
	_ = sqlexec.Undo(ctx, u.conn)
	if errors.Is(err, store.ErrUnshared) { // the temporary objects outlive the rollback if they are older
		sqlexec.Close(ctx, u.conn)
	}
	if sqlexec.Lost(err) {
		err = fmt.Errorf("%w: %w", store.ErrLost, err)
	}
	sent := append(named(u.tx.kept.kinds), messages(es)...)
	return fmt.Errorf("commit: %w", sqlexec.Limit(u.s.pg.Explain(sqlexec.Lent(err)), sent))
}

// lastCalls revokes the handler's transaction and returns the calls to send before COMMIT.
func (u *unit) lastCalls(ctx context.Context, conn *pgx.Conn, es []store.Effect) ([]sqlexec.Call, error) {
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
		if _, err := o.rebegin(ctx); err != nil {
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

// Rollback rolls back the transaction. Then it applies the effects in other transactions. The rollback and
// the first effect share one round trip.
func (u *unit) Rollback(ctx context.Context, effects ...store.Effect) ([]bool, error) {
	if u.isDropped() {
		return u.s.Apply(ctx, effects...)
	}
	if u.hasEnded() {
		return nil, fmt.Errorf("roll back: %w", errEnded)
	}
	_, _ = u.tx.close()
	if len(effects) == 0 {
		defer u.end()
		if _, ok := u.tx.live().(*over); ok {
			return nil, nil
		}
		if u.undone {
			return nil, nil
		}
		if err := sqlexec.UndoLent(ctx, u.conn); err != nil {
			return nil, fmt.Errorf("roll back: %w", err)
		}
		return nil, nil
	}
	if _, ok := u.tx.live().(*over); ok {
		u.end()
		return u.s.Apply(ctx, effects...)
	}
	first, again, err := u.rollbackAndApply(ctx, effects[0])
	u.end()
	if again { // after end, because a pool with one connection needs that connection
		first, err = u.s.applyOne(ctx, effects[0])
	}
	if err != nil {
		return make([]bool, len(effects)), fmt.Errorf("roll back: %w", err)
	}
	rest, err := u.s.Apply(ctx, effects[1:]...)
	return append([]bool{first}, rest...), err
}

// rollbackAndApply rolls back and applies e in the same pipeline. If retry is true, the pipeline failed, and
// the caller must apply e separately.
func (u *unit) rollbackAndApply(ctx context.Context, e store.Effect) (stored, retry bool, err error) {
	conn := u.conn
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
			// pgx prepares statements that are new to the connection before the ROLLBACK. So they fail in
			// an aborted transaction, or because of the role or tables of the function.
			return false, true, nil
		}
		err = u.s.pg.Explain(err)
	}
	stored, err = u.s.verdict(err, e)
	return stored, false, err
}
