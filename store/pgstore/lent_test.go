package pgstore

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/store"
)

// lentCase is a unit with a handler.
type lentCase struct {
	*testing.T
	b *bed
	s *Store
	u store.Unit[pgx.Tx]
	pgx.Tx
}

func lend(t *testing.T, b *bed, s *Store) *lentCase {
	t.Helper()
	u, err := s.Begin(t.Context(), store.Intake{Marks: []store.Mark{aMark()}})
	if err != nil {
		t.Fatal(err)
	}
	return &lentCase{T: t, b: b, s: s, u: u, Tx: u.Tx()}
}

func telling(n int) store.Effect {
	m := aMessage("k")
	m.Data = fmt.Append(nil, n)
	return store.Effect{Rows: []skald.Message{m}}
}

func (c *lentCase) write(tx pgx.Tx, n int) {
	c.Helper()
	if err := c.s.Write(c.Context(), tx, telling(n)); err != nil {
		c.Fatal(err)
	}
}

func (c *lentCase) exec(sql string, args ...any) {
	c.Helper()
	if _, err := c.Exec(c.Context(), c.b.q(sql), args...); err != nil {
		c.Fatal(err)
	}
}

const plainInsert = `INSERT INTO {skald_outbox} (topic, type, key, data) VALUES ('orders', 'order.placed', 'k', $1)`

// payloads returns the payloads in the outbox, in order.
func payloads(t *testing.T, b *bed) string {
	t.Helper()
	return one[string](t, b, `SELECT coalesce(string_agg(data, ' ' ORDER BY seq), '') FROM {skald_outbox}`)
}

func (c *lentCase) commits(want string) {
	c.Helper()
	if err := c.u.Commit(c.Context()); err != nil {
		c.Fatal(err)
	}
	if got := payloads(c.T, c.b); got != want {
		c.Errorf("the outbox has %q, want %q", got, want)
	}
}

// TestWriteComesBeforeTheNextStatement checks that the rows of Write are sent before the handler's next
// statement, for every kind of call.
func TestWriteComesBeforeTheNextStatement(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	s := b.store(t)
	for name, insert := range map[string]func(c *lentCase, n string) error{
		"Exec": func(c *lentCase, n string) error {
			_, err := c.Exec(c.Context(), b.q(plainInsert), n)
			return err
		},
		"Exec without arguments": func(c *lentCase, n string) error {
			_, err := c.Exec(c.Context(), strings.Replace(b.q(plainInsert), "$1", "'"+n+"'", 1))
			return err
		},
		"several statements": func(c *lentCase, n string) error {
			_, err := c.Exec(c.Context(), "SELECT 1; "+strings.Replace(b.q(plainInsert), "$1", "'"+n+"'", 1))
			return err
		},
		"another mode": func(c *lentCase, n string) error {
			_, err := c.Exec(c.Context(), b.q(plainInsert), pgx.QueryExecModeSimpleProtocol, n)
			return err
		},
		"named arguments": func(c *lentCase, n string) error {
			_, err := c.Exec(c.Context(), strings.Replace(b.q(plainInsert), "$1", "@n", 1),
				pgx.NamedArgs{"n": n})
			return err
		},
		"Query": func(c *lentCase, n string) error {
			rows, err := c.Query(c.Context(), b.q(plainInsert)+" RETURNING data", n)
			if err != nil {
				return err
			}
			_, err = pgx.CollectRows(rows, pgx.RowTo[string])
			return err
		},
		"QueryRow": func(c *lentCase, n string) error {
			got := ""
			err := c.QueryRow(c.Context(), b.q(plainInsert)+" RETURNING data", n).Scan(&got)
			if got != n {
				err = errors.Join(err, fmt.Errorf("returned %q", got))
			}
			return err
		},
		"SendBatch": func(c *lentCase, n string) error {
			batch := &pgx.Batch{}
			batch.Queue(b.q(plainInsert), n)
			batch.Queue("SELECT 1")
			return c.SendBatch(c.Context(), batch).Close()
		},
		"CopyFrom": func(c *lentCase, n string) error {
			_, err := c.CopyFrom(c.Context(), pgx.Identifier{b.schema, "skald_outbox"},
				[]string{"topic", "type", "key", "data", "source"},
				pgx.CopyFromRows([][]any{{"orders", "order.placed", "k", n, "/x"}}))
			return err
		},
		"a prepared statement": func(c *lentCase, n string) error {
			if _, err := c.Prepare(c.Context(), "mine", b.q(plainInsert)); err != nil {
				return err
			}
			_, err := c.Exec(c.Context(), "mine", n)
			return err
		},
		"the connection": func(c *lentCase, n string) error {
			_, err := c.Conn().Exec(c.Context(), b.q(plainInsert), n)
			return err
		},
		"a savepoint": func(c *lentCase, n string) error {
			return pgx.BeginFunc(c.Context(), c.Tx, func(tx pgx.Tx) error {
				_, err := tx.Exec(c.Context(), b.q(plainInsert), n)
				return err
			})
		},
	} {
		t.Run(name, func(t *testing.T) {
			for range 2 { // the second time the connection has the statement prepared
				one[int](t, b, `WITH gone AS (DELETE FROM {skald_outbox}) SELECT 1`)
				c := lend(t, b, s)
				c.write(c.Tx, 1)
				if err := insert(c, "2"); err != nil {
					t.Fatal(err)
				}
				c.write(c.Tx, 3)
				if err := insert(c, "4"); err != nil {
					t.Fatal(err)
				}
				c.write(c.Tx, 5)
				c.commits("1 2 3 4 5")
			}
		})
	}
}

// TestWriteGoesWithItsSavepoint checks that rows written after a savepoint are rolled back with it, for
// every way to set one.
func TestWriteGoesWithItsSavepoint(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	s, ctx := b.store(t), t.Context()
	c := lend(t, b, s)
	c.write(c.Tx, 1)
	c.exec("SAVEPOINT mine")
	c.write(c.Tx, 2)
	c.exec("ROLLBACK TO SAVEPOINT mine")
	c.write(c.Tx, 3)
	sp, err := c.Begin(ctx)
	if err != nil {
		t.Fatal(err)
	}
	c.write(sp, 4)
	inner, err := sp.Begin(ctx)
	if err != nil {
		t.Fatal(err)
	}
	c.write(inner, 5)
	c.write(c.Tx, 6)
	if err := errors.Join(inner.Rollback(ctx), sp.Commit(ctx)); err != nil {
		t.Fatal(err)
	}
	if err := s.Write(ctx, sp, telling(7)); !errors.Is(err, pgx.ErrTxClosed) {
		t.Errorf("a write in a savepoint that is closed: %v", err)
	}
	if err := sp.Rollback(ctx); !errors.Is(err, pgx.ErrTxClosed) {
		t.Errorf("a savepoint that is closed is rolled back: %v", err)
	}
	c.exec("SAVEPOINT mine")
	c.write(c.Tx, 8)
	c.exec("SAVEPOINT another")
	c.write(c.Tx, 9)
	if _, err := c.Exec(ctx, "SELECT 1/0"); err == nil {
		t.Fatal("the handler divides by zero")
	}
	if err := s.Write(ctx, c.Tx, telling(10)); err == nil || !strings.Contains(err.Error(), "25P02") {
		t.Errorf("a write in an aborted transaction: %v", err)
	}
	c.exec("ROLLBACK TO mine")
	c.write(c.Tx, 11)
	c.commits("1 3 4 11")
}

// TestRefusedWriteFailsTheNextStatement checks that rows which the database refuses fail the handler's next
// statement with that error. A savepoint undoes them.
func TestRefusedWriteFailsTheNextStatement(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	s, ctx := b.store(t), t.Context()
	if _, err := b.pool.Exec(ctx, b.q(`CREATE FUNCTION {refuse}() RETURNS trigger LANGUAGE plpgsql AS
		$$BEGIN IF NEW.data = '13' THEN RAISE 'unlucky'; END IF; RETURN NEW; END$$;
		CREATE TRIGGER refuse BEFORE INSERT ON {skald_outbox} FOR EACH ROW EXECUTE FUNCTION {refuse}()`)); err != nil {
		t.Fatal(err)
	}
	names := func(err error) bool {
		return err != nil && strings.Contains(err.Error(), "outbox.Write") && strings.Contains(err.Error(), "unlucky")
	}
	for _, known := range []bool{false, true} {
		c := lend(t, b, s)
		c.write(c.Tx, 1)
		c.exec("SAVEPOINT mine")
		c.write(c.Tx, 13)
		if _, err := c.Exec(ctx, b.q(plainInsert), "2"); !names(err) {
			t.Errorf("known %v: the next statement: %v", known, err)
		}
		c.exec("ROLLBACK TO mine")
		c.write(c.Tx, 13)
		c.exec("ROLLBACK TO mine") // undoes the rows that could not be sent
		c.exec(plainInsert, "3")
		if err := c.u.Commit(ctx); err != nil {
			t.Fatal(err)
		}
	}
	if got := payloads(t, b); got != "1 3 1 3" {
		t.Errorf("the outbox has %q", got)
	}
	c := lend(t, b, s)
	c.write(c.Tx, 13)
	c.Conn()
	if err := s.Write(ctx, c.Tx, telling(1)); !names(err) {
		t.Errorf("after the connection was asked for: %v", err)
	}
	if err := c.u.Commit(ctx); !names(err) {
		t.Errorf("the commit: %v", err)
	}
}

// TestStatementThatIsNotSentLeavesRows checks that a statement that pgx refuses changes neither the
// transaction nor the buffered rows.
func TestStatementThatIsNotSentLeavesRows(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	s, ctx := b.store(t), t.Context()
	c := lend(t, b, s)
	for _, sql := range []string{`INSERT INTO {kv} VALUES ($1, $2)`, `SELECT $1::int, $2::int`} {
		for range 2 {
			c.write(c.Tx, 1)
			if _, err := c.Exec(ctx, b.q(sql), struct{}{}, "v"); err == nil || strings.Contains(err.Error(),
				"outbox.Write") {
				t.Errorf("an argument of no type of PostgreSQL: %v", err)
			}
			if err := c.QueryRow(ctx, b.q(sql), 1).Scan(); err == nil {
				t.Error("an argument is missing, and Scan returned no error")
			}
		}
	}
	rows, err := c.Query(ctx, "SELECT generate_series(1, 3)")
	if err != nil {
		t.Fatal(err)
	}
	for rows.Next() {
		c.write(c.Tx, 2)
	}
	c.write(c.Tx, 3)
	stopped, stop := context.WithCancel(ctx)
	stop()
	if err := s.Write(stopped, c.Tx, telling(4)); !errors.Is(err, context.Canceled) {
		t.Errorf("a write under a context that is over: %v", err)
	}
	c.exec(plainInsert, "5")
	c.commits("1 1 1 1 2 2 2 3 5")
}

// TestWrongStatementAfterAWrite checks that an invalid statement after rows returns its own error.
func TestWrongStatementAfterAWrite(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	s, ctx := b.store(t), t.Context()
	for _, sql := range []string{"SELECT no_such_column", "SELECT no_such_column, $1::int", "SELEC 1"} {
		c := lend(t, b, s)
		c.exec("SAVEPOINT mine")
		c.write(c.Tx, 1)
		var args []any
		if strings.Contains(sql, "$1") {
			args = []any{1}
		}
		_, err := c.Exec(ctx, sql, args...)
		if err == nil || strings.Contains(err.Error(), "outbox.Write") {
			t.Errorf("%s: %v", sql, err)
		}
		c.exec("ROLLBACK TO mine")
		if err := c.u.Commit(ctx); err != nil {
			t.Fatal(err)
		}
	}
	if got := payloads(t, b); got != "" {
		t.Errorf("the outbox has %q", got)
	}
}

// TestGoroutinesWrite checks that concurrent writes of a handler's goroutines are all stored.
func TestGoroutinesWrite(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	s, ctx := b.store(t), t.Context()
	for _, first := range []func(c *lentCase){func(*lentCase) {}, func(c *lentCase) { c.Conn() }} {
		one[int](t, b, `WITH gone AS (DELETE FROM {skald_outbox}) SELECT 1`)
		c := lend(t, b, s)
		first(c)
		var wg sync.WaitGroup
		for range 8 {
			wg.Go(func() {
				for n := range 50 {
					if err := s.Write(ctx, c.Tx, telling(n)); err != nil {
						t.Error(err)
					}
					if n%20 == 0 {
						if _, err := c.Exec(ctx, "SELECT 1"); err != nil {
							t.Error(err)
						}
					}
				}
			})
		}
		wg.Wait()
		if err := c.u.Commit(ctx); err != nil {
			t.Fatal(err)
		}
		if n := one[int](t, b, `SELECT count(*) FROM {skald_outbox}`); n != 400 {
			t.Errorf("%d rows of 400", n)
		}
	}
}

// TestWriteAfterTheHandlerReturned checks that a write during the commit is stored or returns an error.
func TestWriteAfterTheHandlerReturned(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	s, ctx := b.store(t), t.Context()
	c := lend(t, b, s)
	written, stop := make(chan int), make(chan struct{})
	go func() {
		n := 0
		for {
			err := s.Write(ctx, c.Tx, telling(n))
			if err != nil {
				if !errors.Is(err, pgx.ErrTxClosed) || !strings.Contains(err.Error(), "has returned") {
					t.Errorf("a late write: %v", err)
				}
				written <- n
				return
			}
			if n++; n == 10 {
				close(stop)
			}
		}
	}()
	<-stop
	if err := c.u.Commit(ctx); err != nil {
		t.Fatal(err)
	}
	if want, got := <-written, one[int](t, b, `SELECT count(*) FROM {skald_outbox}`); got != want {
		t.Errorf("%d writes answered success, %d rows are there", want, got)
	}
}

// TestWriteAndWhatEndsOrChangesTheTransaction checks that PostgreSQL refuses a handler's COMMIT, and that
// nothing is stored. If a handler changes the role or the encoding, its earlier rows are sent before the
// change.
func TestWriteAndWhatEndsOrChangesTheTransaction(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	s, ctx := b.store(t), t.Context()
	c := lend(t, b, s)
	c.write(c.Tx, 1)
	if _, err := c.Tx.Exec(ctx, "COMMIT"); err == nil || !strings.Contains(err.Error(), "COMMIT refused") {
		t.Errorf("COMMIT: %v", err)
	}
	if err := s.Write(ctx, c.Tx, telling(2)); !errors.Is(err, store.ErrLent) {
		t.Errorf("a write after COMMIT: %v", err)
	}
	if err := c.u.Commit(ctx); !errors.Is(err, store.ErrLent) {
		t.Errorf("the commit after COMMIT: %v", err)
	}
	if got := payloads(t, b); got != "" {
		t.Errorf("the outbox has %q", got)
	}
	c = lend(t, b, s)
	c.write(c.Tx, 2)
	c.exec("SET LOCAL ROLE pg_monitor")
	c.exec("RESET ROLE")
	c.write(c.Tx, 3)
	c.exec("SET LOCAL client_encoding = 'LATIN1'")
	if err := s.Write(ctx, c.Tx, telling(4)); err == nil {
		t.Error("a write in another encoding is not refused")
	}
	c.commits("2 3")
}
