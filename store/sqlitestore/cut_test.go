package sqlitestore

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"modernc.org/sqlite"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/store"
	"github.com/skald-go/skald/store/sqlitestore/internal/sqlexec"
)

var errCut = errors.New("the process has died")

// cut makes a process die at its n-th statement, begin or commit, before or after this takes effect. If n is
// 0, the process lives, and cut only counts.
type cut struct {
	driver.Connector
	n     int
	after bool

	mu   sync.Mutex
	done int
	dead bool
}

func (c *cut) Connect(ctx context.Context) (driver.Conn, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.dead {
		return nil, errCut
	}
	conn, err := c.Connector.Connect(ctx)
	if err != nil {
		return nil, err
	}
	return &cutConn{conn, c}, nil
}

// step calls do, unless the process is dead or dies before the call. The open transactions of a dead process
// are rolled back when they are closed.
func (c *cut) step(do func() error) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.dead {
		return errCut
	}
	c.done++
	c.dead = c.done == c.n
	var err error
	if !c.dead || c.after {
		err = do()
	}
	if c.dead {
		return errCut
	}
	return err
}

type cutConn struct {
	driver.Conn
	c *cut
}

func (w *cutConn) ExecContext(ctx context.Context, q string,
	args []driver.NamedValue) (r driver.Result, err error) {
	err = w.c.step(func() (err error) {
		r, err = w.Conn.(driver.ExecerContext).ExecContext(ctx, q, args)
		return err
	})
	return r, err
}

func (w *cutConn) QueryContext(ctx context.Context, q string,
	args []driver.NamedValue) (r driver.Rows, err error) {
	err = w.c.step(func() (err error) {
		r, err = w.Conn.(driver.QueryerContext).QueryContext(ctx, q, args)
		return err
	})
	return forgotten(r, err)
}

func (w *cutConn) BeginTx(ctx context.Context, o driver.TxOptions) (tx driver.Tx, err error) {
	begun := false
	err = w.c.step(func() (err error) {
		tx, err = w.Conn.(driver.ConnBeginTx).BeginTx(ctx, o)
		begun = err == nil
		return err
	})
	switch {
	case err != nil && begun:
		_ = tx.Rollback() // the process is dead
		return nil, err
	case err != nil:
		return nil, err
	}
	return cutTx{tx, w.c}, nil
}

// forgotten closes the rows of a dead process.
func forgotten(r driver.Rows, err error) (driver.Rows, error) {
	if err != nil && r != nil {
		_ = r.Close()
		return nil, err
	}
	return r, err
}

func (w *cutConn) PrepareContext(ctx context.Context, q string) (driver.Stmt, error) {
	st, err := w.Conn.(driver.ConnPrepareContext).PrepareContext(ctx, q)
	return &cutStmt{st, w.c}, err
}

type cutTx struct {
	driver.Tx
	c *cut
}

func (t cutTx) Commit() error   { return t.c.step(t.Tx.Commit) }
func (t cutTx) Rollback() error { return t.c.step(t.Tx.Rollback) }

type cutStmt struct {
	driver.Stmt
	c *cut
}

func (s *cutStmt) ExecContext(ctx context.Context, args []driver.NamedValue) (r driver.Result, err error) {
	err = s.c.step(func() (err error) {
		r, err = s.Stmt.(driver.StmtExecContext).ExecContext(ctx, args)
		return err
	})
	return r, err
}

func (s *cutStmt) QueryContext(ctx context.Context, args []driver.NamedValue) (r driver.Rows, err error) {
	err = s.c.step(func() (err error) {
		r, err = s.Stmt.(driver.StmtQueryContext).QueryContext(ctx, args)
		return err
	})
	return forgotten(r, err)
}

// everyCut calls act in a process that dies, once for each statement of act. The function prepare creates the
// file, and the function check examines the result.
func everyCut(t *testing.T, prepare func() (path string), act func(db *sql.DB) error,
	check func(path, what string)) {
	t.Helper()
	run := func(n int, after bool) (int, error) {
		path := prepare()
		base, err := sqlite.NewConnector(sqlexec.DSN(path))
		if err != nil {
			t.Fatal(err)
		}
		c := &cut{Connector: base, n: n, after: after}
		db := sql.OpenDB(c)
		err = act(db)
		_ = db.Close() // of the dead process
		if n == 0 && err != nil {
			t.Fatalf("where nothing goes wrong: %v", err)
		}
		check(path, fmt.Sprintf("cut at %d, after %v", n, after))
		return c.done, err
	}
	all, _ := run(0, false)
	if all < 3 {
		t.Fatalf("only %d statements were seen", all)
	}
	for n := 1; n <= all; n++ {
		for _, after := range []bool{false, true} {
			if run(n, after); t.Failed() {
				t.Fatalf("cut at %d of %d, after %v", n, all, after)
			}
		}
	}
	t.Logf("%d statements", all)
}

// writeRows writes n rows of a key.
func writeRows(t *testing.T, s *Store, key string, n int) {
	t.Helper()
	for range n {
		if _, err := s.Apply(t.Context(),
			store.Effect{Rows: []skald.Message{message("t", key)}}); err != nil {
			t.Fatal(err)
		}
	}
}

// cover moves every shard to the end of the file.
func cover(t *testing.T, s *Store) {
	t.Helper()
	tip, err := store.Snapshot(t.Context(), s, "")
	if err != nil {
		t.Fatal(err)
	}
	got, err := s.Lease(t.Context(), store.LeaseRequest{Owner: "o", Session: "1", TTL: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range got.Shards {
		p := &store.Progress{Shard: l.ID, Epoch: l.Epoch, Token: l.Token,
			Cursor: &store.Cursor{Base: tip, Tip: tip}}
		if stands, err := s.Apply(t.Context(), store.Effect{Shard: p}); err != nil || !stands[0] {
			t.Fatalf("shard %d: %v, %v", l.ID, stands, err)
		}
	}
}

// TestRecoverIsCutEverywhere checks a recover that dies at each of its statements and runs again. Relays read
// every retained row, from before the recover and after it.
// Interleaving 5.
func TestRecoverIsCutEverywhere(t *testing.T) {
	everyCut(t,
		func() string {
			s, _, path := fresh(t)
			writeRows(t, s, "before", 3)
			cover(t, s)
			writeRows(t, s, "pending", 2)
			_, err := s.Lease(t.Context(), store.LeaseRequest{Owner: "ghost", Session: "1", TTL: time.Hour,
				LastKnown: []store.Shard{{ID: 0, Epoch: 1 << 40, Token: "t"}}})
			if !errors.Is(err, store.ErrMoved) {
				t.Fatalf("the lease returned %v, want ErrMoved", err)
			}
			return path
		},
		func(db *sql.DB) error {
			_, err := New(db, nil).Recover(context.Background(),
				&store.Audit{Author: "ann", Action: "recover"})
			return err
		},
		func(path, what string) {
			s, _ := again(t, path)
			writeRows(t, s, "after", 1)
			if _, err := s.Recover(t.Context(), &store.Audit{Author: "ann", Action: "recover"}); err != nil {
				t.Fatalf("%s: the second recover: %v", what, err)
			}
			if done, err := s.Recover(t.Context(),
				&store.Audit{Author: "ann", Action: "recover"}); err != nil || done != (store.Recovered{}) {
				t.Errorf("%s: Recover of a file that did not move returned %+v, %v", what, done, err)
			}
			got, err := s.Lease(t.Context(), store.LeaseRequest{Owner: "o", Session: "2", TTL: time.Hour})
			if err != nil {
				t.Fatalf("%s: %v", what, err)
			}
			for _, l := range got.Shards {
				if l.Cursor.Base != "" {
					t.Errorf("%s: shard %d is at %+v", what, l.ID, l.Cursor)
				}
			}
			if rows := pullAll(t, s); len(rows) != 6 {
				t.Errorf("%s: %d rows are read, want 6", what, len(rows))
			}
		})
}

// maintained runs the retention until it is complete, and counts the deleted rows. A busy machine may need
// several runs.
func maintained(t *testing.T, s *Store, keep store.Retention) (rows int64) {
	t.Helper()
	for until := time.Now().Add(5 * time.Minute); ; {
		done, err := s.Maintain(t.Context(), store.Maintain{Keep: keep})
		if err != nil || time.Now().After(until) {
			t.Fatalf("maintain: %+v, %v", done, err)
		}
		if rows += done.Rows; len(done.Left) == 0 {
			return rows
		}
	}
}

// TestRetentionIsCutEverywhere checks a retention that dies at each of its statements. Rows that some shard
// has not passed stay, and the next run of the retention continues.
// Interleaving 5.
func TestRetentionIsCutEverywhere(t *testing.T) {
	keep := store.Retention{Outbox: time.Nanosecond, Marks: time.Nanosecond}
	everyCut(t,
		func() string {
			s, _, path := fresh(t)
			writeRows(t, s, "passed", 3)
			cover(t, s)
			writeRows(t, s, "pending", 2)
			return path
		},
		func(db *sql.DB) error {
			_, err := New(db, nil).Maintain(context.Background(), store.Maintain{Keep: keep})
			return err
		},
		func(path, what string) {
			s, db := again(t, path)
			for until := time.Now().Add(5 * time.Minute); ; {
				// after a pause of the machine, its clock may go back by some milliseconds
				maintained(t, s, keep)
				if n := count(t, db, "SELECT count(*) FROM skald_outbox WHERE key = 'passed'"); n == 0 {
					break
				} else if time.Now().After(until) {
					t.Fatalf("%s: %d rows are left that all shards have passed", what, n)
				}
			}
			if n := count(t, db, "SELECT count(*) FROM skald_outbox WHERE key = 'pending'"); n != 2 {
				t.Errorf("%s: %d rows are left of 2 that no shard has passed", what, n)
			}
		})
}

// TestMigrationIsCutEverywhere checks a migration that dies at each of its statements: the next run
// completes it.
// Interleaving 5.
func TestMigrationIsCutEverywhere(t *testing.T) {
	n := 0
	everyCut(t,
		func() string {
			n++
			path := filepath.Join(t.TempDir(), fmt.Sprint("new", n, ".db"))
			db, err := Open(path) // this sets the file's own settings
			if err == nil {
				err = db.Close()
			}
			if err != nil {
				t.Fatal(err)
			}
			return path
		},
		func(db *sql.DB) error {
			_, err := Migrate(context.Background(), db, nil)
			return err
		},
		func(path, what string) {
			s, db := again(t, path)
			if _, err := Migrate(t.Context(), db, nil); err != nil {
				t.Fatalf("%s: the next migration: %v", what, err)
			}
			left, err := Pending(t.Context(), db)
			if err = errors.Join(err, s.Check(t.Context(), store.Relay)); err != nil || len(left) > 0 {
				t.Fatalf("%s: %d migrations are left, %v", what, len(left), err)
			}
			if got := count(t, db, "SELECT count(*) FROM skald_migration"); got != steps(t) {
				t.Errorf("%s: %d migrations were applied, want %d", what, got, steps(t))
			}
			writeRows(t, s, "k", 1)
			if rows := pullAll(t, s); len(rows) != 1 {
				t.Errorf("%s: %d rows", what, len(rows))
			}
		})
}
