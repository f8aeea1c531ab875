package pgstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/skald-go/skald/store"
	"github.com/skald-go/skald/store/pgstore/internal/query"
	"github.com/skald-go/skald/store/pgstore/internal/sqlexec"
)

// SQLStore is a driver over database/sql. It is safe for concurrent use. Close the DB yourself.
//
// A message costs five round trips in addition to the handler's own statements, and each Write in the handler
// costs one more. Write sends rows immediately, because the store does not see the handler's savepoints.
//
// A handler must not end the transaction. The database refuses a COMMIT of the handler. Commit and Rollback
// of the unit then return store.ErrLent, and the message becomes a dead letter. If the handler sends
// ROLLBACK, the database may commit its later statements. The database refuses PREPARE TRANSACTION and rolls
// back. If the handler returns that error, its message fails.
//
// If a handler leaves a temporary object, a LISTEN, a cursor WITH HOLD or a setting that the server reports,
// the store closes the connection after the commit. The server reports TimeZone, DateStyle, application_name,
// and since PostgreSQL 18 search_path. The store does not detect other settings, so use SET LOCAL. It does
// not detect prepared statements and session locks (pg_advisory_lock) either.
type SQLStore struct {
	*core
	db     *sql.DB
	pgx    bool                           // db uses pgx's driver directly
	config atomic.Pointer[pgx.ConnConfig] // of a connection of db; nil until it is known
}

var (
	_ store.Driver[*sql.Tx] = (*SQLStore)(nil)
)

// NewSQL returns a store in db. db should use pgx's driver: sql.Open("pgx", …) or stdlib.OpenDBFromPool. A
// tracing driver may wrap it if its connections have a method Raw. lib/pq's driver also works, but Skald's
// own transactions then take three round trips instead of one.
func NewSQL(db *sql.DB, o *Options) *SQLStore {
	_, ok := db.Driver().(*stdlib.Driver)
	return &SQLStore{core: newCore(sqlexec.OverSQL(db, o.patience()), o), db: db, pgx: ok}
}

// sqlUnit is a transaction that Skald began for a handler, over database/sql: see unit.
type sqlUnit struct {
	s     *SQLStore
	conn  *sql.Conn // nil after the unit ended
	tx    *sql.Tx
	stop  context.CancelFunc // cancels the transaction; without it, a lost server would keep conn in use
	found store.Found
	have  query.Locked
	level store.Isolation
	queue []store.Effect // see unit
	kept  bool           // see unit
	used  bool           // a function received the transaction
	left  bool           // the session may have state of the function: see sqlexec.DB.GuardLentState
	// reported has the settings of the session before the transaction.
	reported sqlexec.Reported
	// undone reports that the server refused a PREPARE TRANSACTION of the function, and rolled back.
	undone bool
	stale  bool // the function left state in the session, so the connection must be closed

	own     *sql.Conn // the connection, also after the end
	dropped atomic.Bool
}

// Begin opens a transaction and applies an intake: two round trips.
func (s *SQLStore) Begin(ctx context.Context, in store.Intake) (store.Unit[*sql.Tx], error) {
	u := &sqlUnit{s: s, level: in.Isolation}
	calls, err := s.intake(in, &u.found)
	if err != nil {
		return nil, fmt.Errorf("begin: %w", err)
	}
	err = s.patience.Within(ctx, in.Wait, func(ctx context.Context) error {
		return u.open(ctx, in, s.bind(in, calls))
	})
	if err = u.leftover(ctx, err); err != nil {
		u.drop(err)
		return nil, fmt.Errorf("begin: %w", s.pg.Beginning(err))
	}
	u.have, u.kept = query.LockedBy(in, u.found), query.AnyBlocked(u.found) && !query.Many(in)
	return u, nil
}

// leftover replaces err if state that an earlier function left in the session may be the cause: see
// sqlexec.Leftover.
func (u *sqlUnit) leftover(ctx context.Context, err error) error {
	if u.conn == nil || err == nil {
		return err
	}
	_ = sqlexec.WithDriverConn(u.conn, func(c *pgx.Conn) error {
		err = sqlexec.Leftover(ctx, c, err)
		return nil // driver.ErrBadConn would wait for the end of the transaction
	})
	return err
}

// open takes a connection, begins a transaction and sends the calls of an intake.
func (u *sqlUnit) open(ctx context.Context, in store.Intake, calls []sqlexec.Call) (err error) {
	if u.conn, err = u.s.patience.Conn(ctx, u.s.db); err != nil {
		return err
	}
	u.own, u.reported = u.conn, sqlexec.ReportedBySQL(u.conn)
	// database/sql rolls back when the context of BeginTx is done. The context of Begin may end before that
	// of the handler.
	sessionID, stop := context.WithCancel(context.WithoutCancel(ctx))
	u.stop = stop
	defer context.AfterFunc(ctx, stop)()
	if u.tx, err = u.conn.BeginTx(sessionID, &sql.TxOptions{Isolation: sqlLevel(in.Isolation)}); err != nil {
		return err
	}
	if err := u.write(ctx); err != nil {
		return err
	}
	return u.prepare(ctx, in, calls)
}

// prepare sends the calls of an intake. If a statement is new to the connection, pgx prepares it in an extra
// round trip, which locks the tables of the statement. In that case prepare sets the timeouts first, in one
// more round trip.
func (u *sqlUnit) prepare(ctx context.Context, in store.Intake, calls []sqlexec.Call) error {
	err := sqlexec.WithDriverConn(u.conn, func(c *pgx.Conn) error {
		if calls = recordSession(c, in, calls); wasPrepared(c, calls) {
			return nil
		}
		session := u.s.pg.Session(timeouts(in))
		text, err := sqlexec.Inlined(session.SQL, session.Args)
		if err == nil {
			_, err = c.PgConn().Exec(ctx, text).ReadAll()
		}
		return err
	})
	if err != nil && !errors.Is(err, sqlexec.ErrForeign) {
		return err
	}
	if err := u.send(ctx, "", calls); err != nil {
		return err
	}
	_ = sqlexec.WithDriverConn(u.conn, func(c *pgx.Conn) error { notePrepared(c, calls); return nil })
	return nil
}

func sqlLevel(level store.Isolation) sql.IsolationLevel {
	switch level {
	case store.RepeatableRead:
		return sql.LevelRepeatableRead
	case store.Serializable:
		return sql.LevelSerializable
	}
	return sql.LevelReadCommitted
}

// write makes the transaction read-write if the session is read-only by default: one more round trip. It must
// run before pgx prepares other statements. lib/pq requests read-write by itself.
func (u *sqlUnit) write(ctx context.Context) error {
	err := sqlexec.WithDriverConn(u.conn, func(c *pgx.Conn) error {
		if u.s.config.Load() == nil {
			u.s.config.Store(c.Config())
		}
		if c.PgConn().ParameterStatus("default_transaction_read_only") != "on" {
			return nil
		}
		_, err := c.PgConn().Exec(ctx, sqlexec.Writes).ReadAll()
		return err
	})
	if errors.Is(err, sqlexec.ErrForeign) {
		return nil
	}
	return err
}

// inTransaction is a statement that fails outside of a transaction. Without it, each statement after a COMMIT
// of the handler would commit by itself.
const inTransaction = "SAVEPOINT skald_unit;\n"

// send sends the calls in the transaction: one round trip. If the driver does not track the state of the
// transaction, send also sends the SQL text prefix, before the calls.
func (u *sqlUnit) send(ctx context.Context, prefix string, calls []sqlexec.Call) error {
	return sqlexec.SendOn(ctx, u.conn, u.tx, prefix, calls)
}

func (u *sqlUnit) Tx() *sql.Tx {
	u.used = true
	return u.tx
}
func (u *sqlUnit) Found() store.Found { return u.found }

// Outage reports whether the handler's error err comes from a lost connection or from an outage that aborted
// the transaction. A driver other than pgx does not expose that state, so Outage sends a statement.
func (u *sqlUnit) Outage(ctx context.Context, err error) bool {
	if u.conn == nil || u.tx == nil || err == nil {
		return false
	}
	var closed, aborted bool
	seen := sqlexec.WithDriverConn(u.conn, func(c *pgx.Conn) error {
		closed, aborted = c.IsClosed(), c.PgConn().TxStatus() == 'E'
		return nil
	})
	u.undone = sqlexec.PrepareRefused(err)
	u.stale = sqlexec.PreparedByFunction(err)
	if errors.Is(seen, sqlexec.ErrForeign) {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer cancel()
		_, seen = u.tx.ExecContext(ctx, "SELECT 1")
		aborted = sqlexec.SQLState(seen) == "25P02"
	}
	return failedItself(closed || sqlexec.ConnectionLost(seen), aborted, err)
}

// end rolls back an open transaction and returns the connection to the pool.
func (u *sqlUnit) end() {
	if u.conn == nil {
		return
	}
	if u.tx != nil {
		_ = u.tx.Rollback() // an error only means that the transaction ended before
	}
	if u.stop != nil {
		u.stop()
	}
	if u.stale {
		sqlexec.Discard(context.Background(), u.conn)
	}
	_ = u.conn.Close()
	u.conn = nil
}

// drop does as end. It closes the connection if err means that nothing may use the connection again.
func (u *sqlUnit) drop(err error) {
	if u.tx != nil {
		_ = u.tx.Rollback()
	}
	if u.conn != nil {
		sqlexec.Dropped(u.conn, err)
	}
	u.end()
}

// Commit applies es and commits: two round trips.
func (u *sqlUnit) Commit(ctx context.Context, es ...store.Effect) error {
	if u.conn == nil {
		return fmt.Errorf("commit: %w", errEnded)
	}
	err := u.s.patience.Within(ctx, 0, func(ctx context.Context) error { return u.commit(ctx, es) })
	if err == nil && u.leftState(ctx) {
		sqlexec.Discard(ctx, u.conn)
	}
	u.stale = u.stale || errors.Is(err, store.ErrLent)
	u.drop(err)
	if ctx.Err() == nil && (errors.Is(err, sql.ErrTxDone) || sqlexec.SQLState(err) == "25P01") {
		err = store.ErrLent
	}
	if sqlexec.Lost(err) {
		err = fmt.Errorf("%w: %w", store.ErrLost, err)
	}
	if err != nil {
		return fmt.Errorf("commit: %w", sqlexec.Limit(u.s.pg.Explain(sqlexec.Lent(err)), messages(es)))
	}
	u.s.wakeFor(es...)
	u.s.settleQueue(ctx, u.queue)
	return nil
}

// leftState reports whether the session has state of the function after the commit. It needs one round trip
// if the guard found signs of such state, otherwise none.
func (u *sqlUnit) leftState(ctx context.Context) bool {
	return u.used && (sqlexec.ReportedBySQL(u.conn) != u.reported || u.left && u.s.pg.LeftBehind(ctx, u.conn))
}

// CommitThen only commits, because database/sql cannot send the commit and the next begin in one round trip.
func (u *sqlUnit) CommitThen(ctx context.Context, _ store.Intake,
	es ...store.Effect) (store.Unit[*sql.Tx], error) {
	return nil, u.Commit(ctx, es...)
}

// commit applies es in the transaction and commits.
func (u *sqlUnit) commit(ctx context.Context, es []store.Effect) error {
	if err := u.ready(); err != nil {
		return err
	}
	if u.kept {
		return errKept
	}
	now, queue, touch := u.s.splitQueue(u.level, es)
	u.queue = queue
	calls, err := u.s.outflow(now, nil, u.have)
	if err != nil {
		return err
	}
	calls = slices.Concat([]sqlexec.Call{u.s.pg.GuardLentState(&u.left)}, touch, calls,
		[]sqlexec.Call{u.s.pg.FreeLent()})
	if err := u.send(ctx, inTransaction, calls); err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	defer context.AfterFunc(ctx, u.stop)()
	return u.tx.Commit() // the driver detects the tag ROLLBACK
}

// ready returns an error if the transaction ended or is aborted. It returns nil with a driver other than pgx;
// there the next statement returns the error.
func (u *sqlUnit) ready() error {
	err := sqlexec.WithDriverConn(u.conn, usable)
	if errors.Is(err, sqlexec.ErrForeign) {
		return nil
	}
	return err
}

// Return does nothing: a *sql.Tx cannot be revoked.
func (*sqlUnit) Return() {}

// SharesUnseen returns true, because the store does not see the statements of a function, and they may leave
// settings.
func (*SQLStore) SharesUnseen() bool { return true }

// Savepoint returns false, because a savepoint would cost a round trip for each message.
func (*sqlUnit) Savepoint(context.Context) bool { return false }

// Undo returns an error, because Savepoint sets none.
func (*sqlUnit) Undo(context.Context) error { return errNoSavepoint }

// Drop cancels the context of the transaction, so database/sql rolls back and frees the place in the pool. If
// the handler runs a statement with another context, the rollback waits for the end of that statement.
func (u *sqlUnit) Drop() {
	u.dropped.Store(true)
	u.stop()
	go func() { _ = u.own.Close() }()
}

// Usable returns an error if the transaction cannot be committed. With pgx it reads the transaction status
// that came with the last statement. With another driver it needs one round trip.
func (u *sqlUnit) Usable(ctx context.Context) error {
	if u.conn == nil {
		return errEnded
	}
	if u.s.pgx {
		return u.ready()
	}
	return u.checkOpen(ctx)
}

// checkOpen returns store.ErrLent if the handler ended the transaction that Skald began: one round trip.
func (u *sqlUnit) checkOpen(ctx context.Context) error {
	ctx, stop := context.WithTimeout(context.WithoutCancel(ctx), sqlexec.DefaultWait)
	defer stop()
	if err := u.ready(); err != nil {
		return err
	}
	err := u.send(ctx, inTransaction, []sqlexec.Call{u.s.pg.GuardLent()})
	if errors.Is(err, sql.ErrTxDone) || sqlexec.SQLState(err) == "25P01" {
		return store.ErrLent
	}
	return err
}

// Rollback rolls back the transaction. Then it applies the effects in another transaction. It returns
// store.ErrLent if the handler ended the transaction itself.
func (u *sqlUnit) Rollback(ctx context.Context, effects ...store.Effect) ([]bool, error) {
	if u.dropped.Load() {
		return u.s.Apply(ctx, effects...)
	}
	if u.conn == nil {
		return nil, fmt.Errorf("roll back: %w", errEnded)
	}
	if u.used && errors.Is(u.checkOpen(ctx), store.ErrLent) && !u.undone {
		u.stale = true // statements after that end may have left state
		u.end()
		return make([]bool, len(effects)), fmt.Errorf("roll back: %w", store.ErrLent)
	}
	err := u.tx.Rollback()
	u.end()
	if errors.Is(err, sql.ErrTxDone) && !u.undone {
		return make([]bool, len(effects)), fmt.Errorf("roll back: %w", store.ErrLent)
	}
	if len(effects) > 0 {
		return u.s.Apply(ctx, effects...)
	}
	if err != nil {
		return nil, fmt.Errorf("roll back: %w", err)
	}
	return nil, nil
}

// Write adds es to tx immediately and never commits tx.
func (s *SQLStore) Write(ctx context.Context, tx *sql.Tx, es ...store.Effect) error {
	if s.pg.Err != nil {
		return s.pg.Err
	}
	rows, err := onlyRows(es)
	if err != nil {
		return fmt.Errorf("write: %w", err)
	}
	groups, err := s.groupsWithoutRows(es)
	for _, c := range slices.Concat(groups...) {
		if err == nil {
			err = s.runOne(ctx, tx, c)
		}
	}
	if err != nil {
		return fmt.Errorf("write: %w", s.pg.Losing(err))
	}
	if query.Stirs(es) {
		s.waker.Wake()
	}
	if len(rows) == 0 {
		return ctx.Err()
	}
	c := s.outbox.Insert(rows)
	if !s.pgx { // other drivers do not support arrays
		if c.SQL, err = sqlexec.Inlined(c.SQL, c.Args); err != nil {
			return fmt.Errorf("write: %w", err)
		}
		c.Args = nil
	}
	if _, err := tx.ExecContext(ctx, c.SQL, c.Args...); err != nil {
		return fmt.Errorf("write: %w", sqlexec.Limit(s.pg.Explain(err), messages(es)))
	}
	s.waker.Wake()
	return nil
}
