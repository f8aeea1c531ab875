package pgstore

import (
	"context"
	"errors"
	"sync/atomic"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgtype"
)

// This file has the results of statements in a lent transaction, and its savepoints. A result records the
// state of the connection at its end, so that lent notices an aborted or ended transaction.

// lentRows is the result of a query in a lent transaction.
type lentRows struct {
	pgx.Rows
	of   *lent
	in   pgx.BatchResults // the pipeline that ends with these rows; nil without a pipeline
	done bool
	err  error
}

func (r *lentRows) end() {
	if r.done {
		return
	}
	r.done = true
	if r.in != nil {
		r.err = r.in.Close()
	}
	r.of.noteState()
}

func (r *lentRows) Close() {
	r.Rows.Close()
	r.end()
}

func (r *lentRows) Next() bool {
	more := r.Rows.Next()
	if !more {
		r.end()
	}
	return more
}

func (r *lentRows) Err() error {
	if err := r.Rows.Err(); err != nil {
		return err
	}
	return r.err
}

// Scan closes the rows if the scan fails, as pgx does.
func (r *lentRows) Scan(dest ...any) error {
	err := r.Rows.Scan(dest...)
	if err != nil {
		r.Close()
	}
	return err
}

func (r *lentRows) Values() ([]any, error) {
	values, err := r.Rows.Values()
	if err != nil {
		r.Close()
	}
	return values, err
}

// lentRow is the result of QueryRow: the first row of rows.
type lentRow struct{ rows pgx.Rows }

func (r lentRow) Scan(dest ...any) error {
	defer r.rows.Close()
	for _, d := range dest {
		if _, ok := d.(*pgtype.DriverBytes); ok { // pgx would overwrite these bytes when it closes the rows
			return errors.New("cannot scan into *pgtype.DriverBytes from QueryRow")
		}
	}
	if !r.rows.Next() {
		if err := r.rows.Err(); err != nil {
			return err
		}
		return pgx.ErrNoRows
	}
	if err := r.rows.Scan(dest...); err != nil {
		return err
	}
	r.rows.Close()
	return r.rows.Err()
}

// lentBatch is the result of a batch in a lent transaction.
type lentBatch struct {
	pgx.BatchResults
	of *lent
}

func (b *lentBatch) Close() error {
	defer b.of.noteState()
	return b.BatchResults.Close()
}

// savepoint is the transaction that lent.Begin returns.
type savepoint struct {
	of     *lent
	name   string
	closed atomic.Bool
}

func (sp *savepoint) end(ctx context.Context, sql string) error {
	if sp.closed.Load() {
		return pgx.ErrTxClosed
	}
	_, err := sp.of.exec(ctx, sql+" "+sp.name)
	if sp.closed.CompareAndSwap(false, true) && err == nil {
		sp.of.counts(-1)
	}
	return err
}

func (sp *savepoint) Commit(ctx context.Context) error { return sp.end(ctx, "release savepoint") }

func (sp *savepoint) Rollback(ctx context.Context) error { return sp.end(ctx, "rollback to savepoint") }

// tx returns the transaction of the savepoint. After the end of the savepoint, it is one that only returns
// pgx.ErrTxClosed.
func (sp *savepoint) tx() pgx.Tx {
	if sp.closed.Load() {
		return endedTx()
	}
	return sp.of
}

func (sp *savepoint) Begin(ctx context.Context) (pgx.Tx, error) { return sp.tx().Begin(ctx) }

func (sp *savepoint) Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error) {
	return sp.tx().Exec(ctx, sql, args...)
}

func (sp *savepoint) Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error) {
	return sp.tx().Query(ctx, sql, args...)
}

func (sp *savepoint) QueryRow(ctx context.Context, sql string, args ...any) pgx.Row {
	return sp.tx().QueryRow(ctx, sql, args...)
}

func (sp *savepoint) SendBatch(ctx context.Context, b *pgx.Batch) pgx.BatchResults {
	return sp.tx().SendBatch(ctx, b)
}

func (sp *savepoint) CopyFrom(ctx context.Context, table pgx.Identifier, columns []string,
	from pgx.CopyFromSource) (int64, error) {
	return sp.tx().CopyFrom(ctx, table, columns, from)
}

func (sp *savepoint) Prepare(ctx context.Context, name, sql string) (*pgconn.StatementDescription, error) {
	return sp.tx().Prepare(ctx, name, sql)
}

func (sp *savepoint) LargeObjects() pgx.LargeObjects { return sp.of.LargeObjects() }

func (sp *savepoint) Conn() *pgx.Conn { return sp.of.Conn() }
