package pgstore

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/jackc/pgx/v5"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/store"
	"github.com/skald-go/skald/store/pgstore/internal/query"
	"github.com/skald-go/skald/store/pgstore/internal/sqlexec"
)

// lent is the handler's pgx.Tx. The handler cannot commit it or roll it back.
//
// Write buffers its rows here. The handler's next statement, or the commit, sends them first. So the rows
// have the order, the savepoint and the role of the call to Write.
type lent struct {
	s *Store

	sending sync.Mutex // locked while rows or a short statement are sent

	mu         sync.Mutex
	tx         pgx.Tx // pgx's own
	kept       ahead
	wrote      bool   // rows were sent before the commit
	status     byte   // of the connection, after the last statement
	encoding   string // of the client, after the last statement
	raw        bool   // the handler uses the connection directly, so rows are sent immediately
	over       bool   // the handler has returned
	fault      error  // of rows that were sent where no error could be returned
	savepoints int    // savepoints ever set
	openPoints int    // savepoints of Begin that are neither released nor rolled back
	unshared   bool   // a function left state that a later function would meet: see lasting
	sets       bool   // a function left state that a later transaction would meet
	points     pointState
}

// ahead is the rows and the savepoint to send before the next statement.
type ahead struct {
	rows  []query.Row
	kinds [][2]string // topic and type of each, for the error of one that exceeds a limit

	point  bool // send a savepoint, too
	before int  // number of rows before the savepoint
}

func (a *ahead) empty() bool { return len(a.rows) == 0 && !a.point }

// A pointState is the state of the savepoint that the unit sets for each function.
type pointState struct {
	set   bool // a savepoint is in the session
	valid bool // it is the savepoint of the last function
}

const (
	setPoint        = "savepoint skald_message"
	releasePoint    = "release savepoint skald_message"
	rollbackToPoint = "rollback to savepoint skald_message"
)

// point sets a savepoint before the next statement. Returns false if the transaction cannot have one.
func (l *lent) point() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.unshared || l.raw || l.over || l.fault != nil || l.status != inTransactionStatus {
		return false
	}
	l.kept.point, l.kept.before, l.points.valid = true, len(l.kept.rows), false
	return true
}

// unpoint drops the rows since a savepoint that was not sent. If sent is true, the session has the savepoint.
func (l *lent) unpoint() (sent bool, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.unshared || l.raw || l.fault != nil:
		return false, store.ErrUnshared
	case l.kept.point && l.status == inTransactionStatus:
		l.kept.rows, l.kept.kinds = l.kept.rows[:l.kept.before], l.kept.kinds[:l.kept.before]
		return false, nil
	case l.kept.point || !l.points.valid:
		return false, errNoSavepoint
	}
	l.kept = ahead{}
	return true, nil
}

// calls returns the statements that send a.
func (l *lent) calls(a ahead) (calls []sqlexec.Call) {
	if !a.point {
		return []sqlexec.Call{l.s.outbox.Insert(a.rows)}
	}
	if a.before > 0 {
		calls = append(calls, l.s.outbox.Insert(a.rows[:a.before]))
	}
	if l.points.set {
		calls = append(calls, sqlexec.Call{SQL: releasePoint})
	}
	calls = append(calls, sqlexec.Call{SQL: setPoint})
	if rest := a.rows[a.before:]; len(rest) > 0 {
		calls = append(calls, l.s.outbox.Insert(rest))
	}
	return calls
}

const (
	inTransactionStatus = 'T'
	abortedStatus       = 'E'
	idleStatus          = 'I'
	lostStatus          = 'C' // Skald's own: the connection is closed
)

var errReturned = fmt.Errorf("the function that was lent this transaction has returned: write before it returns, and wait for your goroutines: %w",
	errors.Join(errEnded, pgx.ErrTxClosed))

func newLent(s *Store, tx pgx.Tx, conn *pgx.Conn) *lent {
	return &lent{s: s, tx: tx, status: inTransactionStatus,
		encoding: conn.PgConn().ParameterStatus("client_encoding")}
}

// lentOf returns the lent transaction that tx is, or is a savepoint of. Returns nil for any other, also for
// a wrapper.
func lentOf(tx any) *lent {
	switch tx := tx.(type) {
	case *lent:
		return tx
	case *savepoint:
		return tx.of
	}
	return nil
}

// Same reports whether other uses the session of this transaction: it is this one, a savepoint in it, or a
// wrapper of either. Returns true for an ended one, whose own error is clearer.
func (l *lent) Same(other any) bool {
	tx, ok := other.(pgx.Tx)
	if !ok {
		return false
	}
	conn := connOf(tx)
	return conn == nil || conn == l.live().Conn()
}

// NameOf identifies the session and the database of other, without secrets.
func (*lent) NameOf(other any) string {
	tx, ok := other.(pgx.Tx)
	if !ok || connOf(tx) == nil {
		return fmt.Sprintf("%T %p", other, other)
	}
	conn := connOf(tx)
	at := conn.Config()
	return fmt.Sprintf("of backend %d at %s:%d, database %q", conn.PgConn().PID(), at.Host, at.Port,
		at.Database)
}

// connOf returns the connection of tx. The method Conn of a lent transaction would end its buffering.
func connOf(tx pgx.Tx) *pgx.Conn {
	if l := lentOf(tx); l != nil {
		return l.live().Conn()
	}
	return tx.Conn()
}

// live returns pgx's own transaction, or one whose methods return an error after the end.
func (l *lent) live() pgx.Tx {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.tx
}

func (l *lent) swap(tx pgx.Tx) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.tx = tx
}

// open returns the transaction for the handler's next statement.
func (l *lent) open(ctx context.Context) (pgx.Tx, error) {
	l.mu.Lock()
	tx, returned := l.tx, l.over
	l.mu.Unlock()
	if returned {
		return nil, errReturned
	}
	if o, ok := tx.(*over); ok {
		return o.again(ctx)
	}
	return tx, nil
}

// close revokes the transaction and returns the rows that are not sent yet.
func (l *lent) close() (rows []query.Row, fault error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.over = true
	l.wrote = l.wrote || len(l.kept.rows) > 0
	return l.kept.rows, l.fault
}

// pass revokes the transaction, and returns the handle of the next function.
func (l *lent) pass() *lent {
	alone := l.sending.TryLock() // if it fails, a goroutine of the function runs a statement
	if alone {
		defer l.sending.Unlock()
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	next := &lent{s: l.s, tx: l.tx, kept: l.kept, wrote: l.wrote, status: l.status, encoding: l.encoding,
		raw: l.raw, fault: l.fault, savepoints: l.savepoints, sets: l.sets, points: l.points,
		unshared: l.unshared || l.raw || l.openPoints > 0 || !alone}
	l.kept, l.over, l.tx = ahead{}, true, ended()
	return next
}

// end makes each later call of the transaction and its parts fail.
func (l *lent) end() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.over, l.tx = true, ended()
}

// ended returns a transaction whose calls return pgx.ErrTxClosed.
func ended() pgx.Tx {
	b := &pgx.Batch{}
	b.BeginTx(pgx.TxOptions{})
	return pgx.FailedBatchResults(b, errEnded).Tx()
}

// look records the state of the connection after a statement.
func (l *lent) look() {
	l.mu.Lock()
	defer l.mu.Unlock()
	conn := l.tx.Conn()
	if _, waits := l.tx.(*over); waits || conn == nil {
		return
	}
	if l.status = conn.PgConn().TxStatus(); conn.IsClosed() {
		l.status = lostStatus
	}
	l.encoding = conn.PgConn().ParameterStatus("client_encoding")
}

// take removes the buffered rows and returns them. An aborted transaction cannot store them, because each
// of its savepoints is older than they are.
func (l *lent) take() ahead {
	l.mu.Lock()
	defer l.mu.Unlock()
	a := l.kept
	l.kept = ahead{}
	if l.status == abortedStatus {
		return ahead{}
	}
	return a
}

// sent records the outcome of rows that were sent. If they were not written and the transaction goes on, it
// buffers them again.
func (l *lent) sent(a ahead, err error) error {
	if err == nil {
		l.look()
		l.mu.Lock()
		defer l.mu.Unlock()
		l.wrote = l.wrote || len(a.rows) > 0
		if a.point {
			l.points = pointState{set: true, valid: true}
		}
		return nil
	}
	if l.back(a) { // nothing was sent, so the caller's statement cannot be sent either
		return err
	}
	return fmt.Errorf("send the rows of outbox.Write before this statement: %w",
		sqlexec.Limit(l.s.pg.Explain(sqlexec.Lent(err)), named(a.kinds)))
}

// back buffers rows again if the transaction continues without them.
func (l *lent) back(a ahead) bool {
	l.look()
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.status != inTransactionStatus {
		return false
	}
	l.kept.rows = append(slices.Clip(a.rows), l.kept.rows...)
	l.kept.kinds = append(slices.Clip(a.kinds), l.kept.kinds...)
	if a.point {
		l.kept.point, l.kept.before = true, a.before
	}
	return true
}

// flush sends the buffered rows, without another statement.
func (l *lent) flush(ctx context.Context, tx pgx.Tx) error {
	return l.send(ctx, tx, l.take())
}

func (l *lent) send(ctx context.Context, tx pgx.Tx, a ahead) error {
	if a.empty() {
		return nil
	}
	calls := l.calls(a)
	if len(calls) == 1 {
		return l.sent(a, sqlexec.Exec(ctx, tx, calls[0]))
	}
	return l.sent(a, sqlexec.SendIn(ctx, tx, calls))
}

// keep buffers rows. It returns false if the caller must send them now: the transaction is not in a normal
// state, or the handler may send statements that Skald does not see.
func (l *lent) keep(ctx context.Context, rows []query.Row, es []store.Effect) (bool, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.over:
		return false, errReturned
	case l.fault != nil:
		return false, l.fault
	case ctx.Err() != nil:
		return false, ctx.Err()
	case l.status == idleStatus:
		return false, fmt.Errorf("a statement ended the transaction: %w", store.ErrLent)
	case l.raw || l.status != inTransactionStatus:
		return false, nil
	}
	if l.encoding != "" {
		if err := sqlexec.CheckClient(l.encoding); err != nil {
			return false, err
		}
	}
	l.kept.rows = append(l.kept.rows, rows...)
	for _, m := range messages(es) {
		l.kept.kinds = append(l.kept.kinds, [2]string{m.Topic, m.Type})
	}
	return true, nil
}

// named returns messages with those topics and types.
func named(kinds [][2]string) []skald.Message {
	var out []skald.Message
	for _, s := range kinds {
		out = append(out, skald.Message{Topic: s[0], Type: s[1]})
	}
	return out
}

// Write adds es to tx and never commits it. In a lent transaction it buffers the rows until the next
// statement or the commit, which then returns their error.
func (s *Store) Write(ctx context.Context, tx pgx.Tx, es ...store.Effect) error {
	err := s.write(ctx, tx, es)
	s.patience.Leave(ctx, s.pool, connOf(tx), err)
	if err != nil {
		return fmt.Errorf("write: %w", err)
	}
	return nil
}

func (s *Store) write(ctx context.Context, tx pgx.Tx, es []store.Effect) error {
	if s.pg.Err != nil {
		return s.pg.Err
	}
	rows, err := onlyRows(es)
	if err != nil {
		return err
	}
	if sp, ok := tx.(*savepoint); ok && sp.closed.Load() {
		return pgx.ErrTxClosed
	}
	l := lentOf(tx)
	if err := s.writeNow(ctx, tx, l, es); err != nil {
		return err
	}
	if query.Stirs(es) {
		s.waker.Wake()
	}
	if len(rows) == 0 {
		return ctx.Err()
	}
	if l != nil && l.s.core == s.core {
		if kept, err := l.keep(ctx, rows, es); kept || err != nil {
			return err
		}
	}
	return s.insertNow(ctx, tx, l, rows, es)
}

// writeNow writes the parts of es other than rows.
func (s *Store) writeNow(ctx context.Context, tx pgx.Tx, l *lent, es []store.Effect) error {
	groups, err := s.writings(es)
	for _, calls := range groups {
		if err == nil {
			err = l.alone(func() error { return sqlexec.SendIn(ctx, tx, calls) })
		}
	}
	if err != nil {
		return s.pg.Losing(err)
	}
	return nil
}

// alone keeps two goroutines of a handler from using the connection concurrently. A nil l is not a
// handler's.
func (l *lent) alone(f func() error) error {
	if l == nil {
		return f()
	}
	l.sending.Lock()
	defer l.sending.Unlock()
	return f()
}

func (s *Store) insertNow(ctx context.Context, tx pgx.Tx, l *lent, rows []query.Row,
	es []store.Effect) error {
	err := l.alone(func() error {
		if conn := connOf(tx); conn != nil { // no round trip: the server sends the setting by itself
			if l != nil && conn.PgConn().TxStatus() == idleStatus {
				return fmt.Errorf("a statement ended the transaction: %w", store.ErrLent)
			}
			if encoding := conn.PgConn().ParameterStatus("client_encoding"); encoding != "" {
				if err := sqlexec.CheckClient(encoding); err != nil {
					return err
				}
			}
		}
		if l == nil {
			return sqlexec.Exec(ctx, tx, s.outbox.Insert(rows))
		}
		own, err := l.open(ctx)
		if err != nil {
			return err
		}
		defer l.look()
		if err := l.flush(ctx, own); err != nil {
			return err
		}
		return sqlexec.Exec(ctx, own, s.outbox.Insert(rows))
	})
	if err != nil {
		return sqlexec.Limit(s.pg.Explain(err), messages(es))
	}
	s.waker.Wake()
	return nil
}
