package sqlexec

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/skald-go/skald/store"
)

const (
	Begin    = "begin isolation level read committed read write"
	commit   = "commit"
	Rollback = "rollback"
	// Writes makes a transaction of database/sql read-write. database/sql can begin a transaction as "read
	// only", but not as "read write".
	Writes = "set transaction read write"
)

// OverPool returns a Runner over a pgx pool.
func OverPool(pool *pgxpool.Pool, p Patience) Runner { return poolRunner{pool, p} }

// poolRunner sends a whole transaction as one pipeline.
type poolRunner struct {
	pool *pgxpool.Pool
	p    Patience
}

func (r poolRunner) Run(ctx context.Context, calls ...Call) error {
	conn, err := r.p.Acquire(ctx, r.pool)
	if err != nil {
		return err
	}
	defer Release(conn)
	all := make([]Call, 0, len(calls)+1)
	all = append(append(all, Call{SQL: Begin}), calls...)
	err = r.p.RoundTrip(ctx, r.pool, conn.Conn(), 0, func(ctx context.Context) error {
		return SendCommit(ctx, conn.Conn(), all)
	})
	return Leftover(ctx, conn.Conn(), err)
}

func (r poolRunner) Within(ctx context.Context, session Call, f func(send Sender) error) error {
	conn, err := r.p.Acquire(ctx, r.pool)
	if err != nil {
		return err
	}
	defer Release(conn)
	trip := func(ctx context.Context, f func(context.Context) error) error {
		return r.p.RoundTrip(ctx, r.pool, conn.Conn(), 0, f)
	}
	err = trip(ctx, func(ctx context.Context) error {
		return Send(ctx, conn.Conn(), []Call{{SQL: Begin}, session})
	})
	if err == nil {
		err = f(func(ctx context.Context, calls ...Call) error {
			within, stop := r.p.bound(ctx)
			defer stop()
			return explainTimeout(within, Send(within, conn.Conn(), calls))
		})
	}
	if err != nil {
		r.p.leave(ctx, r.pool, conn.Conn(), err)
		return Leftover(ctx, conn.Conn(), err)
	}
	return trip(ctx, func(ctx context.Context) error { return committed(conn.Exec(ctx, commit)) })
}

// Send sends the calls as one pipeline in the transaction of conn; the first call may begin the transaction.
func Send(ctx context.Context, conn *pgx.Conn, calls []Call) error {
	b := &pgx.Batch{}
	queue(b, calls)
	br := conn.SendBatch(ctx, b)
	defer br.Close()
	if err := readResults(br, calls); err != nil {
		return err
	}
	return br.Close()
}

// SendCommit sends the calls and a COMMIT in one round trip. It returns an error if the server rolled back
// instead.
func SendCommit(ctx context.Context, conn *pgx.Conn, calls []Call) error {
	b := &pgx.Batch{}
	queue(b, calls)
	b.Queue(commit)
	br := conn.SendBatch(ctx, b)
	defer br.Close()
	if err := readResults(br, calls); err != nil {
		return err
	}
	if err := committed(br.Exec()); err != nil {
		return err
	}
	return br.Close()
}

// committed returns an error if the server answered a COMMIT with ROLLBACK, as it does in an aborted
// transaction.
func committed(tag pgconn.CommandTag, err error) error {
	if err == nil && tag.String() != "COMMIT" {
		return pgx.ErrTxCommitRollback
	}
	return err
}

func queue(b *pgx.Batch, calls []Call) {
	for _, c := range calls {
		b.Queue(c.SQL, c.Args...)
	}
}

// readResults reads the results of the calls and returns the first error.
func readResults(br pgx.BatchResults, calls []Call) error {
	for _, c := range calls {
		if err := readResult(br, c); err != nil {
			if c.Fail != nil {
				err = c.Fail(err)
			}
			return err
		}
	}
	return nil
}

func readResult(br pgx.BatchResults, c Call) error {
	if c.Scan == nil {
		tag, err := br.Exec()
		if err == nil && c.Done != nil {
			c.Done(tag.RowsAffected())
		}
		return err
	}
	rows, err := br.Query()
	if err != nil {
		return err
	}
	defer rows.Close()
	n := int64(0)
	for ; rows.Next(); n++ {
		if err := c.Scan(rows); err != nil {
			return err
		}
	}
	rows.Close()
	if c.Done != nil && rows.Err() == nil {
		c.Done(n)
	}
	return rows.Err()
}

// Undo rolls back a transaction that may be open. Afterwards conn has no transaction, or is closed.
func Undo(ctx context.Context, conn *pgx.Conn) error {
	if conn.IsClosed() || conn.PgConn().TxStatus() == 'I' {
		return nil
	}
	ctx, stop := context.WithTimeout(context.WithoutCancel(ctx), DefaultWait)
	defer stop()
	_, err := conn.Exec(ctx, Rollback)
	if err != nil {
		shut, end := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer end()
		_ = conn.Close(shut) // the state of the session is unknown
	}
	return err
}

// lentRollback rolls back. It first reads whether Skald began the transaction.
const lentRollback = "SELECT coalesce(current_setting('skald.lent', true), '') = 'yes'; ROLLBACK"

// UndoLent rolls back the transaction of a handler, in one round trip. It returns store.ErrLent if a
// statement of the handler ended that transaction. It returns nil for a lost connection, because the server
// rolls back then.
func UndoLent(ctx context.Context, conn *pgx.Conn) error {
	switch {
	case conn.IsClosed():
		return nil
	case conn.PgConn().TxStatus() == 'I':
		return store.ErrLent
	case conn.PgConn().TxStatus() == 'E': // an aborted transaction cannot run the query in lentRollback
		return Undo(ctx, conn)
	}
	within, stop := context.WithTimeout(context.WithoutCancel(ctx), DefaultWait)
	defer stop()
	rs, err := conn.PgConn().Exec(within, lentRollback).ReadAll()
	if err != nil {
		return errors.Join(err, Undo(ctx, conn))
	}
	if rows := rs[0].Rows; len(rows) != 1 || string(rows[0][0]) != "t" {
		return store.ErrLent
	}
	return nil
}

// Open begins a transaction and runs the calls in the transaction, in one round trip.
func Open(ctx context.Context, conn *pgx.Conn, level pgx.TxIsoLevel, calls []Call) (pgx.Tx, error) {
	b := &pgx.Batch{}
	b.BeginTx(pgx.TxOptions{IsoLevel: level, AccessMode: pgx.ReadWrite})
	queue(b, calls)
	br := conn.SendBatch(ctx, b)
	defer br.Close()
	if _, err := br.Exec(); err != nil {
		return nil, err
	}
	if err := readResults(br, calls); err != nil {
		return nil, err
	}
	return br.Tx(), br.Close()
}

// SendFollowing commits a transaction and begins the next one, in one round trip. It sends the calls,
// COMMIT, BEGIN and the calls of the next transaction. PostgreSQL skips everything after an error, so the
// second transaction begins only if the commit succeeded. err is an error of the first transaction. The
// result begun is true if all of nextCalls succeeded.
func SendFollowing(ctx context.Context, conn *pgx.Conn, calls, nextCalls []Call) (begun bool, err error) {
	b := &pgx.Batch{}
	queue(b, calls)
	b.Queue(commit)
	b.Queue(Begin)
	queue(b, nextCalls)
	br := conn.SendBatch(ctx, b)
	defer br.Close()
	if err := readResults(br, calls); err != nil {
		return false, err
	}
	if err := committed(br.Exec()); err != nil {
		return false, err
	}
	if _, err := br.Exec(); err != nil {
		return false, nil
	}
	return readResults(br, nextCalls) == nil && br.Close() == nil, nil
}

// SendIn runs the calls in tx, in one round trip.
func SendIn(ctx context.Context, tx pgx.Tx, calls []Call) error {
	if len(calls) == 0 {
		return nil
	}
	b := &pgx.Batch{}
	queue(b, calls)
	br := tx.SendBatch(ctx, b)
	defer br.Close()
	if err := readResults(br, calls); err != nil {
		return err
	}
	return br.Close()
}

// Exec runs c in tx and ignores its rows.
func Exec(ctx context.Context, tx pgx.Tx, c Call) error {
	_, err := tx.Exec(ctx, c.SQL, c.Args...)
	return err
}
