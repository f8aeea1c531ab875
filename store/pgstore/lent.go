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

	sending sync.Mutex // held while rows or a short statement are sent

	mu         sync.Mutex
	tx         pgx.Tx // pgx's own
	kept       ahead
	wrote      bool   // rows were sent before the commit
	status     byte   // of the connection, after the last statement
	encoding   string // of the client, after the last statement
	raw        bool   // the handler has the connection itself: rows are sent at once
	over       bool   // the handler has returned
	fault      error  // of rows that were sent where no error could be returned
	savepoints int    // that were ever set
	openPoints int    // savepoints of Begin that are neither released nor rolled back
	unshared   bool   // a function kept a savepoint or the connection: a later one could meet it
	sets       bool   // a function changed a setting of the session
}

// ahead are rows that are sent before the next statement.
type ahead struct {
	rows []query.Row
	says [][2]string // topic and type of each, to name one that breaks a limit
}

const (
	inTransactionStatus = 'T'
	abortedStatus       = 'E'
	idleStatus          = 'I'
	lostStatus          = 'C' // ours: the connection is closed
)

var errReturned = fmt.Errorf("the function that was lent this transaction has returned: write before it returns, and wait for your goroutines: %w",
	errors.Join(errEnded, pgx.ErrTxClosed))

func newLent(s *Store, tx pgx.Tx, conn *pgx.Conn) *lent {
	return &lent{s: s, tx: tx, status: inTransactionStatus,
		encoding: conn.PgConn().ParameterStatus("client_encoding")}
}

// lentOf is the lent transaction that tx is, or is a savepoint in; nil: it is none, or inside a wrapper.
func lentOf(tx any) *lent {
	switch tx := tx.(type) {
	case *lent:
		return tx
	case *savepoint:
		return tx.of
	}
	return nil
}

// Same tells whether other is in the session of this transaction: then it is this one, a savepoint in it, or
// a wrapper around either. Of one that has ended its own error tells more.
func (l *lent) Same(other any) bool {
	tx, ok := other.(pgx.Tx)
	if !ok {
		return false
	}
	conn := connOf(tx)
	return conn == nil || conn == l.live().Conn()
}

// NameOf names the session and the database of other, and nothing that is secret.
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

// connOf is the connection of tx. To ask a lent transaction itself would end its keeping of rows.
func connOf(tx pgx.Tx) *pgx.Conn {
	if l := lentOf(tx); l != nil {
		return l.live().Conn()
	}
	return tx.Conn()
}

// live is pgx's own transaction, or one that answers that it is closed.
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

// open is the transaction for the handler's next statement.
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

// close takes the transaction away from the handler, with the rows that are still to be sent.
func (l *lent) close() (rows []query.Row, fault error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.over = true
	l.wrote = l.wrote || len(l.kept.rows) > 0
	return l.kept.rows, l.fault
}

// pass revokes the transaction, and returns the handle of the next function.
func (l *lent) pass() *lent {
	alone := l.sending.TryLock() // else a goroutine of the function is in a statement
	if alone {
		defer l.sending.Unlock()
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	next := &lent{s: l.s, tx: l.tx, kept: l.kept, wrote: l.wrote, status: l.status, encoding: l.encoding,
		raw: l.raw, fault: l.fault, savepoints: l.savepoints, sets: l.sets,
		unshared: l.unshared || l.raw || l.openPoints > 0 || !alone}
	l.kept, l.over, l.tx = ahead{}, true, ended()
	return next
}

// end makes the transaction, and all in it, refuse to be used.
func (l *lent) end() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.over, l.tx = true, ended()
}

// ended is a transaction that answers pgx.ErrTxClosed to all.
func ended() pgx.Tx {
	b := &pgx.Batch{}
	b.BeginTx(pgx.TxOptions{})
	return pgx.FailedBatchResults(b, errEnded).Tx()
}

// look notes how the connection is after a statement.
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

// take takes the rows that wait. In a transaction that is aborted none can stand: each savepoint that it can
// go back to is older than they are.
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
		l.wrote = true
		return nil
	}
	if l.back(a) { // nothing was sent: the caller's statement cannot be, either
		return err
	}
	return fmt.Errorf("send what outbox.Write was given before this statement: %w",
		sqlexec.Limit(l.s.pg.Explain(sqlexec.Lent(err)), named(a.says)))
}

// back has rows wait again, if the transaction goes on without them.
func (l *lent) back(a ahead) bool {
	l.look()
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.status != inTransactionStatus {
		return false
	}
	l.kept.rows = append(slices.Clip(a.rows), l.kept.rows...)
	l.kept.says = append(slices.Clip(a.says), l.kept.says...)
	return true
}

// flush sends the rows that wait by themselves.
func (l *lent) flush(ctx context.Context, tx pgx.Tx) error {
	return l.send(ctx, tx, l.take())
}

func (l *lent) send(ctx context.Context, tx pgx.Tx, a ahead) error {
	if len(a.rows) == 0 {
		return nil
	}
	return l.sent(a, sqlexec.Exec(ctx, tx, l.s.outbox.Insert(a.rows)))
}

// keep has rows wait. False: they are to be sent at once, since an answer is known to come, or the handler
// may send statements that are not seen here.
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
		return false, fmt.Errorf("a statement has ended the transaction: %w", store.ErrLent)
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
		l.kept.says = append(l.kept.says, [2]string{m.Topic, m.Type})
	}
	return true, nil
}

// named are messages of those topics and types.
func named(says [][2]string) []skald.Message {
	var out []skald.Message
	for _, s := range says {
		out = append(out, skald.Message{Topic: s[0], Type: s[1]})
	}
	return out
}

// Write adds es to tx, which it never commits. In a lent transaction rows wait for the next statement there,
// or for the commit: its error is then that statement's, or the commit's.
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
	rows, err := said(es)
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

// writeNow carries out what es hold beside rows.
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

// alone keeps two goroutines of a handler from using the connection at once; nil: it is not a handler's.
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
		if conn := connOf(tx); conn != nil { // no round trip: the server tells it unasked
			if l != nil && conn.PgConn().TxStatus() == idleStatus {
				return fmt.Errorf("a statement has ended the transaction: %w", store.ErrLent)
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
