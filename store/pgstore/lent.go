package pgstore

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/store"
	"github.com/skald-go/skald/store/pgstore/internal/outbox"
	"github.com/skald-go/skald/store/pgstore/internal/pgrun"
	"github.com/skald-go/skald/store/pgstore/internal/saga"
)

// lent is the transaction as the handler has it: it does all but end.
type lent struct {
	pgx.Tx
	s     *Store
	kept  []outbox.Row // for the commit
	says  [][2]string  // topic and type of those, to name one that breaks a limit
	inner []*savepoint
}

func (*lent) Commit(context.Context) error   { return store.ErrLent }
func (*lent) Rollback(context.Context) error { return store.ErrLent }

// Same tells whether other is in the session of this transaction: then it is this one, a savepoint in it, or
// a wrapper around either. Of one that has ended its own error tells more.
func (l *lent) Same(other any) bool {
	tx, ok := other.(pgx.Tx)
	return ok && (tx.Conn() == nil || tx.Conn() == l.Conn())
}

// NameOf names the session and the database of other, and nothing that is secret.
func (*lent) NameOf(other any) string {
	tx, ok := other.(pgx.Tx)
	if !ok || tx.Conn() == nil {
		return fmt.Sprintf("%T %p", other, other)
	}
	at := tx.Conn().Config()
	return fmt.Sprintf("of backend %d at %s:%d, database %q", tx.Conn().PgConn().PID(), at.Host, at.Port,
		at.Database)
}

// Begin makes a savepoint. What was kept is written before it, so that rows keep the order of the calls.
func (l *lent) Begin(ctx context.Context) (pgx.Tx, error) {
	if len(l.kept) > 0 {
		if err := pgrun.Exec(ctx, l.Tx, l.s.outbox.Insert(l.kept)); err != nil {
			return nil, fmt.Errorf("write rows before a savepoint: %w",
				pgrun.Limit(l.s.pg.Explain(err), l.said(nil)))
		}
		l.kept, l.says = nil, nil
		l.s.waker.Wake()
	}
	tx, err := l.Tx.Begin(ctx)
	if err != nil {
		return nil, err
	}
	return l.nest(tx), nil
}

func (l *lent) nest(tx pgx.Tx) *savepoint {
	sp := &savepoint{Tx: tx, of: l, open: true}
	l.inner = append(l.inner, sp)
	return sp
}

// keeps tells whether rows can wait for the commit: not while a savepoint is open, which might undo them.
func (l *lent) keeps() bool {
	for _, sp := range l.inner {
		if sp.open {
			return false
		}
	}
	return true
}

// end makes the transaction, and all in it, refuse to be used.
func (l *lent) end() {
	l.Tx = ended()
	for _, sp := range l.inner {
		sp.Tx = l.Tx
	}
}

// ended is a transaction that answers pgx.ErrTxClosed to all.
func ended() pgx.Tx {
	b := &pgx.Batch{}
	b.BeginTx(pgx.TxOptions{})
	return pgx.FailedBatchResults(b, errEnded).Tx()
}

// A savepoint is what lent.Begin gives.
type savepoint struct {
	pgx.Tx
	of   *lent
	open bool
}

func (sp *savepoint) Begin(ctx context.Context) (pgx.Tx, error) {
	tx, err := sp.Tx.Begin(ctx)
	if err != nil {
		return nil, err
	}
	return sp.of.nest(tx), nil
}

func (sp *savepoint) Commit(ctx context.Context) error {
	sp.open = false
	return sp.Tx.Commit(ctx)
}

func (sp *savepoint) Rollback(ctx context.Context) error {
	sp.open = false
	return sp.Tx.Rollback(ctx)
}

// Write adds es to tx, which it never commits.
func (s *Store) Write(ctx context.Context, tx pgx.Tx, es ...store.Effect) (err error) {
	defer func() { s.patience.Leave(ctx, s.pool, tx.Conn(), err) }()
	if s.pg.Err != nil {
		return s.pg.Err
	}
	rows, err := said(es)
	if err != nil {
		return fmt.Errorf("write: %w", err)
	}
	for i := range es {
		calls, err := s.writing(&es[i])
		if err == nil {
			err = pgrun.SendIn(ctx, tx, calls)
		}
		if err != nil {
			return fmt.Errorf("write: %w", s.pg.Losing(err))
		}
	}
	if saga.Stirs(es) {
		s.waker.Wake()
	}
	if len(rows) == 0 {
		return ctx.Err()
	}
	if l, ok := tx.(*lent); ok && l.s.core == s.core && l.keeps() {
		return l.keep(ctx, rows, es)
	}
	if conn := tx.Conn(); conn != nil { // no round trip: the server tells it unasked
		if encoding := conn.PgConn().ParameterStatus("client_encoding"); encoding != "" {
			if err := pgrun.CheckClient(encoding); err != nil {
				return fmt.Errorf("write: %w", err)
			}
		}
	}
	if err := pgrun.Exec(ctx, tx, s.outbox.Insert(rows)); err != nil {
		return fmt.Errorf("write: %w", pgrun.Limit(s.pg.Explain(err), messages(es)))
	}
	s.waker.Wake()
	return nil
}

func (l *lent) keep(ctx context.Context, rows []outbox.Row, es []store.Effect) error {
	if l.Tx.Conn() == nil {
		return fmt.Errorf("write: %w", errors.Join(errEnded, pgx.ErrTxClosed))
	}
	l.kept = append(l.kept, rows...)
	for i := range es {
		for j := range es[i].Rows {
			l.says = append(l.says, [2]string{es[i].Rows[j].Topic, es[i].Rows[j].Type})
		}
	}
	return ctx.Err()
}

// said are what was kept, and the rows of es.
func (l *lent) said(es []store.Effect) []skald.Message {
	var out []skald.Message
	for _, s := range l.says {
		out = append(out, skald.Message{Topic: s[0], Type: s[1]})
	}
	return append(out, messages(es)...)
}
