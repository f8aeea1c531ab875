package pgstore

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

const (
	begin    = "begin isolation level read committed read write"
	commit   = "commit"
	rollback = "rollback"
	// writes is for transactions that pgx began for database/sql, which knows "read only" and not its
	// contrary.
	writes = "set transaction read write"
)

// poolRunner sends a whole transaction as one pipeline.
type poolRunner struct{ pool *pgxpool.Pool }

func (r poolRunner) run(ctx context.Context, calls ...call) error {
	conn, err := r.pool.Acquire(ctx)
	if err != nil {
		return fmt.Errorf("acquire connection: %w", err)
	}
	defer conn.Release()
	all := make([]call, 0, len(calls)+1)
	all = append(append(all, call{sql: begin}), calls...)
	if err := sendCommit(ctx, conn.Conn(), all); err != nil {
		_ = undo(ctx, conn.Conn())
		return err
	}
	return nil
}

func (r poolRunner) within(ctx context.Context, f func(send sender) error) error {
	conn, err := r.pool.Acquire(ctx)
	if err != nil {
		return fmt.Errorf("acquire connection: %w", err)
	}
	defer conn.Release()
	_, err = conn.Exec(ctx, begin)
	if err == nil {
		err = f(func(ctx context.Context, calls ...call) error { return send(ctx, conn.Conn(), calls) })
	}
	if err == nil {
		err = committed(conn.Exec(ctx, commit))
	}
	if err != nil {
		_ = undo(ctx, conn.Conn())
	}
	return err
}

// send carries out calls in the transaction that conn is in.
func send(ctx context.Context, conn *pgx.Conn, calls []call) error {
	b := &pgx.Batch{}
	queue(b, calls)
	br := conn.SendBatch(ctx, b)
	defer br.Close()
	if err := answers(br, calls); err != nil {
		return err
	}
	return br.Close()
}

// sendCommit sends calls and a COMMIT. Success is the tag COMMIT and nothing else.
func sendCommit(ctx context.Context, conn *pgx.Conn, calls []call) error {
	b := &pgx.Batch{}
	queue(b, calls)
	b.Queue(commit)
	br := conn.SendBatch(ctx, b)
	defer br.Close()
	if err := answers(br, calls); err != nil {
		return err
	}
	if err := committed(br.Exec()); err != nil {
		return err
	}
	return br.Close()
}

// committed is for the answer of a COMMIT.
func committed(tag pgconn.CommandTag, err error) error {
	if err == nil && tag.String() != "COMMIT" {
		return pgx.ErrTxCommitRollback
	}
	return err
}

func queue(b *pgx.Batch, calls []call) {
	for _, c := range calls {
		b.Queue(c.sql, c.args...)
	}
}

func answers(br pgx.BatchResults, calls []call) error {
	for _, c := range calls {
		if err := answer(br, c); err != nil {
			if c.fail != nil {
				err = c.fail(err)
			}
			return err
		}
	}
	return nil
}

func answer(br pgx.BatchResults, c call) error {
	if c.scan == nil {
		tag, err := br.Exec()
		if err == nil && c.done != nil {
			c.done(tag.RowsAffected())
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
		if err := c.scan(rows); err != nil {
			return err
		}
	}
	rows.Close()
	if c.done != nil && rows.Err() == nil {
		c.done(n)
	}
	return rows.Err()
}

// undo leaves conn outside of a transaction, or closed.
func undo(ctx context.Context, conn *pgx.Conn) error {
	if conn.IsClosed() || conn.PgConn().TxStatus() == 'I' {
		return nil
	}
	ctx, stop := context.WithTimeout(context.WithoutCancel(ctx), defaultWait)
	defer stop()
	_, err := conn.Exec(ctx, rollback)
	if err != nil {
		shut, end := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer end()
		_ = conn.Close(shut) // its state is unknown
	}
	return err
}
