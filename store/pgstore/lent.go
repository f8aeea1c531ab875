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

// lent is the pgx.Tx that a handler or a step receives. Its Commit and Rollback return store.ErrLent.
//
// Write buffers outbox rows in lent, so that they cost no round trip. The next statement of the handler, or
// the commit, sends these rows first. So the rows get the order, the savepoint and the role that they had at
// the call to Write.
type lent struct {
	s *Store

	sending sync.Mutex // locked while rows or a short statement are sent

	mu         sync.Mutex
	tx         pgx.Tx // of pgx itself
	kept       ahead
	wrote      bool   // rows were sent before the commit
	status     byte   // transaction status of the connection after the last statement
	encoding   string // client_encoding after the last statement
	raw        bool   // the handler uses the connection directly, so Write sends rows immediately
	over       bool   // the handler has returned
	fault      error  // of rows that Conn sent: Conn itself cannot return an error
	savepoints int    // number of savepoints of Begin, for their names
	openPoints int    // number of savepoints of Begin that are neither released nor rolled back
	unshared   bool   // a function left state that affects a later function: see lasting
	sets       bool   // a function left state that affects a later transaction of the session
	points     pointState
}

// ahead has the rows and the savepoint to send before the next statement.
type ahead struct {
	rows  []query.Row
	kinds [][2]string // topic and type of each row, for the error if the row exceeds a limit

	point  bool // also send a savepoint
	before int  // number of rows before the savepoint
}

func (a *ahead) empty() bool { return len(a.rows) == 0 && !a.point }

// A pointState describes the savepoint that the unit sets before each function, if several share it.
type pointState struct {
	set   bool // the session has a savepoint
	valid bool // this savepoint is that of the last function
}

const (
	setPoint        = "savepoint skald_message"
	releasePoint    = "release savepoint skald_message"
	rollbackToPoint = "rollback to savepoint skald_message"
)

// point buffers a savepoint, to be sent before the next statement. It returns false if the transaction cannot
// go back to a savepoint.
func (l *lent) point() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.unshared || l.raw || l.over || l.fault != nil || l.status != inTransactionStatus {
		return false
	}
	l.kept.point, l.kept.before, l.points.valid = true, len(l.kept.rows), false
	return true
}

// unpoint drops the buffered rows after the savepoint. If atServer is true, the session has the savepoint,
// and the caller must also roll back to the savepoint there.
func (l *lent) unpoint() (atServer bool, err error) {
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

// callsOf returns the calls that write the rows of a and set its savepoint, in their order.
func (l *lent) callsOf(a ahead) (list []sqlexec.Call) {
	if !a.point {
		return []sqlexec.Call{l.s.outbox.Insert(a.rows)}
	}
	if a.before > 0 {
		list = append(list, l.s.outbox.Insert(a.rows[:a.before]))
	}
	if l.points.set {
		list = append(list, sqlexec.Call{SQL: releasePoint})
	}
	list = append(list, sqlexec.Call{SQL: setPoint})
	if rest := a.rows[a.before:]; len(rest) > 0 {
		list = append(list, l.s.outbox.Insert(rest))
	}
	return list
}

const (
	inTransactionStatus = 'T'
	abortedStatus       = 'E'
	idleStatus          = 'I'
	lostStatus          = 'C' // the connection is closed; PostgreSQL does not use this status
)

var errReturned = fmt.Errorf("the function that was lent this transaction has returned: write before it returns, and wait for your goroutines: %w",
	errors.Join(errEnded, pgx.ErrTxClosed))

func newLent(s *Store, tx pgx.Tx, conn *pgx.Conn) *lent {
	return &lent{s: s, tx: tx, status: inTransactionStatus,
		encoding: conn.PgConn().ParameterStatus("client_encoding")}
}

// lentOf returns tx if it is a lent transaction, or the lent transaction that contains the savepoint tx. It
// returns nil for any other tx, also for a wrapper.
func lentOf(tx any) *lent {
	switch tx := tx.(type) {
	case *lent:
		return tx
	case *savepoint:
		return tx.of
	}
	return nil
}

// Same reports whether v uses the session of this transaction. It does if v is this transaction, a savepoint
// in this transaction, or a wrapper of either. Same also returns true for an ended transaction, because the
// error of its next statement is clearer.
func (l *lent) Same(v any) bool {
	tx, ok := v.(pgx.Tx)
	if !ok {
		return false
	}
	conn := connOf(tx)
	return conn == nil || conn == l.live().Conn()
}

// NameOf returns the session and the database of the transaction v for an error text, without secrets.
func (*lent) NameOf(v any) string {
	tx, ok := v.(pgx.Tx)
	if !ok || connOf(tx) == nil {
		return fmt.Sprintf("%T %p", v, v)
	}
	conn := connOf(tx)
	at := conn.Config()
	return fmt.Sprintf("of backend %d at %s:%d, database %q", conn.PgConn().PID(), at.Host, at.Port,
		at.Database)
}

// connOf returns the connection of tx. It avoids the method Conn of a lent transaction, which ends buffering.
func connOf(tx pgx.Tx) *pgx.Conn {
	if l := lentOf(tx); l != nil {
		return l.live().Conn()
	}
	return tx.Conn()
}

// live returns the pgx.Tx itself. After the end it is one that only returns errors.
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

// open returns the pgx.Tx for the handler's next statement. It begins a transaction that was rolled back
// early again: see over.
func (l *lent) open(ctx context.Context) (pgx.Tx, error) {
	l.mu.Lock()
	tx, returned := l.tx, l.over
	l.mu.Unlock()
	if returned {
		return nil, errReturned
	}
	if o, ok := tx.(*over); ok {
		return o.rebegin(ctx)
	}
	return tx, nil
}

// close revokes the transaction and returns the buffered rows.
func (l *lent) close() (rows []query.Row, fault error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.over = true
	l.wrote = l.wrote || len(l.kept.rows) > 0
	return l.kept.rows, l.fault
}

// pass revokes this handle of the transaction, and returns a new handle for the next function.
func (l *lent) pass() *lent {
	alone := l.sending.TryLock() // fails while a goroutine of the function runs a statement
	if alone {
		defer l.sending.Unlock()
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	next := &lent{s: l.s, tx: l.tx, kept: l.kept, wrote: l.wrote, status: l.status, encoding: l.encoding,
		raw: l.raw, fault: l.fault, savepoints: l.savepoints, sets: l.sets, points: l.points,
		unshared: l.unshared || l.raw || l.openPoints > 0 || !alone}
	l.kept, l.over, l.tx = ahead{}, true, endedTx()
	return next
}

// end makes each later call of the transaction and of its savepoints fail.
func (l *lent) end() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.over, l.tx = true, endedTx()
}

// endedTx returns a pgx.Tx that only returns pgx.ErrTxClosed.
func endedTx() pgx.Tx {
	b := &pgx.Batch{}
	b.BeginTx(pgx.TxOptions{})
	return pgx.FailedBatchResults(b, errEnded).Tx()
}

// noteState records the transaction status and the client encoding of the connection after a statement.
func (l *lent) noteState() {
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

// takeBuffered removes the buffered rows and returns them. It returns no rows if the transaction is aborted:
// a rollback to any savepoint would also undo these rows.
func (l *lent) takeBuffered() ahead {
	l.mu.Lock()
	defer l.mu.Unlock()
	a := l.kept
	l.kept = ahead{}
	if l.status == abortedStatus {
		return ahead{}
	}
	return a
}

// finishSend records the result of a send of the rows in a. If the rows were not written and the transaction
// continues, finishSend buffers the rows again.
func (l *lent) finishSend(a ahead, err error) error {
	if err == nil {
		l.noteState()
		l.mu.Lock()
		defer l.mu.Unlock()
		l.wrote = l.wrote || len(a.rows) > 0
		if a.point {
			l.points = pointState{set: true, valid: true}
		}
		return nil
	}
	if l.rebuffer(a) { // pgx sent nothing, so the statement of the handler was not sent either
		return err
	}
	return fmt.Errorf("send the rows of outbox.Write before this statement: %w",
		sqlexec.Limit(l.s.pg.Explain(sqlexec.Lent(err)), named(a.kinds)))
}

// rebuffer buffers the rows of a again, before newer rows. It returns false if the transaction does not
// continue.
func (l *lent) rebuffer(a ahead) bool {
	l.noteState()
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
	return l.send(ctx, tx, l.takeBuffered())
}

func (l *lent) send(ctx context.Context, tx pgx.Tx, a ahead) error {
	if a.empty() {
		return nil
	}
	calls := l.callsOf(a)
	if len(calls) == 1 {
		return l.finishSend(a, sqlexec.Exec(ctx, tx, calls[0]))
	}
	return l.finishSend(a, sqlexec.SendIn(ctx, tx, calls))
}

// buffer buffers rows. It returns false if the caller must send them now. The reason is that the transaction
// is aborted, or that the handler may send statements that Skald does not see.
func (l *lent) buffer(ctx context.Context, rows []query.Row, es []store.Effect) (bool, error) {
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

// named returns messages with only a topic and a type, for an error text.
func named(kinds [][2]string) []skald.Message {
	var out []skald.Message
	for _, s := range kinds {
		out = append(out, skald.Message{Topic: s[0], Type: s[1]})
	}
	return out
}

// Write adds es to tx and never commits tx. In a transaction of a handler, Write buffers the outbox rows
// until the next statement or the commit. That statement or the commit then returns an error of these rows.
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
		if kept, err := l.buffer(ctx, rows, es); kept || err != nil {
			return err
		}
	}
	return s.insertNow(ctx, tx, l, rows, es)
}

// writeNow writes all parts of es except the outbox rows.
func (s *Store) writeNow(ctx context.Context, tx pgx.Tx, l *lent, es []store.Effect) error {
	groups, err := s.groupsWithoutRows(es)
	for _, calls := range groups {
		if err == nil {
			err = l.runAlone(func() error { return sqlexec.SendIn(ctx, tx, calls) })
		}
	}
	if err != nil {
		return s.pg.Losing(err)
	}
	return nil
}

// runAlone runs f while no other goroutine of the handler uses the connection. If l is nil, the transaction
// does not belong to a handler, and runAlone only runs f.
func (l *lent) runAlone(f func() error) error {
	if l == nil {
		return f()
	}
	l.sending.Lock()
	defer l.sending.Unlock()
	return f()
}

// insertNow sends rows immediately, after rows that l buffered.
func (s *Store) insertNow(ctx context.Context, tx pgx.Tx, l *lent, rows []query.Row,
	es []store.Effect) error {
	err := l.runAlone(func() error {
		if conn := connOf(tx); conn != nil { // no round trip: pgx has both states already
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
		defer l.noteState()
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
