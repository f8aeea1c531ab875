package pgstore

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/skald-go/skald/store"
)

// A SQLStore is PostgreSQL through database/sql. It is safe for concurrent use. Close the DB yourself.
//
// A message costs four round trips beside the handler's own, each further Write in the handler one more: rows are
// written at once, because a savepoint of the handler's is not to be seen here. A handler that commits the
// transaction that it was lent has committed its mark too: Commit then answers store.ErrLent and the consumer
// should stop.
type SQLStore struct {
	*core
	db *sql.DB
}

var (
	_ store.Driver[*sql.Tx] = (*SQLStore)(nil)
	_ store.Waker           = (*SQLStore)(nil)
)

// NewSQL is a store in db, which must be opened with pgx's driver: sql.Open("pgx", …) or stdlib.OpenDBFromPool.
func NewSQL(db *sql.DB, o *Options) *SQLStore {
	return &SQLStore{core: newCore(dbRunner{db}, o), db: db}
}

// dbRunner borrows the pgx connection below one of database/sql, and so sends a whole transaction as one pipeline.
type dbRunner struct{ db *sql.DB }

func (r dbRunner) run(ctx context.Context, calls ...call) error {
	conn, err := r.db.Conn(ctx)
	if err != nil {
		return fmt.Errorf("acquire connection: %w", err)
	}
	defer func() { _ = conn.Close() }()
	return below(conn, func(c *pgx.Conn) error {
		all := make([]call, 0, len(calls)+1)
		err := sendCommit(ctx, c, append(append(all, call{sql: begin}), calls...))
		if err != nil {
			_ = undo(ctx, c)
		}
		return err
	})
}

// below gives f the pgx connection below conn.
func below(conn *sql.Conn, f func(*pgx.Conn) error) error {
	return conn.Raw(func(driver any) error {
		c, ok := driver.(*stdlib.Conn)
		if !ok {
			return fmt.Errorf("the driver is %T, not that of github.com/jackc/pgx/v5/stdlib", driver)
		}
		return f(c.Conn())
	})
}

type sqlUnit struct {
	s     *SQLStore
	conn  *sql.Conn // nil: ended
	tx    *sql.Tx
	stop  context.CancelFunc // of the transaction, which would else outlive a lost server
	found store.Found
	have  entities
}

// Begin opens a transaction and takes in: two round trips.
func (s *SQLStore) Begin(ctx context.Context, in store.Intake) (store.Unit[*sql.Tx], error) {
	if s.err != nil {
		return nil, s.err
	}
	u := &sqlUnit{s: s}
	calls, err := s.intake(in, &u.found)
	if err != nil {
		return nil, fmt.Errorf("begin: %w", err)
	}
	calls = append([]call{s.session(cmp.Or(in.Wait, defaultWait), cmp.Or(in.Handle, defaultHandle))}, calls...)
	if err := u.open(ctx, calls); err != nil {
		u.end()
		if state(err) == "55P03" {
			return nil, fmt.Errorf("begin: %w: %w", store.ErrBusy, err)
		}
		return nil, fmt.Errorf("begin: %w", s.explain(err))
	}
	u.have = locked(in, u.found)
	return u, nil
}

func (u *sqlUnit) open(ctx context.Context, calls []call) (err error) {
	if u.conn, err = u.s.db.Conn(ctx); err != nil {
		return fmt.Errorf("acquire connection: %w", err)
	}
	// database/sql rolls back when the context of BeginTx is done; that of Begin may be shorter than the handler's.
	life, stop := context.WithCancel(context.WithoutCancel(ctx))
	u.stop = stop
	defer context.AfterFunc(ctx, stop)()
	if u.tx, err = u.conn.BeginTx(life, &sql.TxOptions{Isolation: sql.LevelReadCommitted}); err != nil {
		return err
	}
	return u.send(ctx, calls)
}

// send carries out calls in the transaction: one round trip.
func (u *sqlUnit) send(ctx context.Context, calls []call) error {
	return below(u.conn, func(c *pgx.Conn) error {
		b := &pgx.Batch{}
		queue(b, calls)
		br := c.SendBatch(ctx, b)
		defer br.Close()
		if err := answers(br, calls); err != nil {
			return err
		}
		return br.Close()
	})
}

func (u *sqlUnit) Tx() *sql.Tx        { return u.tx }
func (u *sqlUnit) Found() store.Found { return u.found }

// end undoes what is not committed and hands the connection back.
func (u *sqlUnit) end() {
	if u.conn == nil {
		return
	}
	if u.tx != nil {
		_ = u.tx.Rollback() // no more than an answer where it was ended before
	}
	if u.stop != nil {
		u.stop()
	}
	_ = u.conn.Close()
	u.conn = nil
}

// Commit writes es and commits: two round trips, without es one.
func (u *sqlUnit) Commit(ctx context.Context, es ...store.Effect) error {
	if u.conn == nil {
		return fmt.Errorf("commit: %w", errEnded)
	}
	defer u.end()
	err := u.commit(ctx, es)
	if lost(err) {
		err = fmt.Errorf("%w: %w", store.ErrLost, err)
	}
	if err != nil {
		return fmt.Errorf("commit: %w", limit(u.s.explain(err), messages(es)))
	}
	if len(messages(es)) > 0 {
		u.s.wake()
	}
	return nil
}

func (u *sqlUnit) commit(ctx context.Context, es []store.Effect) error {
	if err := u.ready(); err != nil {
		return err
	}
	calls, err := u.s.outflow(es, nil, u.have)
	if err != nil {
		return err
	}
	if len(calls) > 0 {
		if err := u.send(ctx, calls); err != nil {
			return err
		}
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	defer context.AfterFunc(ctx, u.stop)()
	return u.tx.Commit() // whose driver tells the tag ROLLBACK from COMMIT
}

// ready tells whether the transaction is still there, and not aborted.
func (u *sqlUnit) ready() error {
	return below(u.conn, func(c *pgx.Conn) error {
		if c.IsClosed() {
			return errors.New("the connection was lost: nothing was committed")
		}
		switch c.PgConn().TxStatus() {
		case 'I':
			return store.ErrLent
		case 'E':
			return fmt.Errorf("an error that the handler swallowed had aborted the transaction: %w", pgx.ErrTxCommitRollback)
		}
		return nil
	})
}

// Rollback undoes everything and then does Apply(instead...).
func (u *sqlUnit) Rollback(ctx context.Context, instead ...store.Effect) ([]bool, error) {
	if u.conn == nil {
		return nil, fmt.Errorf("roll back: %w", errEnded)
	}
	if errors.Is(u.ready(), store.ErrLent) {
		u.end()
		return make([]bool, len(instead)), fmt.Errorf("roll back: %w", store.ErrLent)
	}
	err := u.tx.Rollback()
	u.end()
	if len(instead) > 0 {
		return u.s.Apply(ctx, instead...)
	}
	if err != nil {
		return nil, fmt.Errorf("roll back: %w", err)
	}
	return nil, nil
}

// Write adds es to tx at once, which it never commits.
func (s *SQLStore) Write(ctx context.Context, tx *sql.Tx, es ...store.Effect) error {
	if s.err != nil {
		return s.err
	}
	rows, err := said(es)
	if err != nil {
		return fmt.Errorf("write: %w", err)
	}
	if len(rows) == 0 {
		return ctx.Err()
	}
	c := s.insert(rows)
	if _, err := tx.ExecContext(ctx, c.sql, c.args...); err != nil {
		return fmt.Errorf("write: %w", limit(s.explain(err), messages(es)))
	}
	s.wake()
	return nil
}
