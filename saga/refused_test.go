package saga_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/saga"
	"github.com/skald-go/skald/store"
	"github.com/skald-go/skald/store/memstore"
	"github.com/skald-go/skald/store/pgstore"
	"github.com/skald-go/skald/store/sqlitestore"
)

// strange is an error whose nil pointer panics.
type strange struct{ text string }

func (s *strange) Error() string { return s.text }

// settled waits until a saga has ended or is stuck.
func settled(t *testing.T, db store.Lister, key string) store.Saga {
	t.Helper()
	for deadline := time.Now().Add(5 * time.Minute); time.Now().Before(deadline); <-time.After(
		2 * time.Millisecond) {
		ss, err := store.ListSagas(t.Context(), db, store.SagaQuery{Key: key})
		if err == nil && len(ss) == 1 && (ss[0].Stuck || !ss[0].Ended.IsZero()) {
			return ss[0]
		}
	}
	t.Fatal("it does not end")
	return store.Saga{}
}

// TestRefused: if the database answers but refuses a commit, only the responsible step counts an attempt.
// Other steps of the same commit run again. If the effect may be committed, all steps of the transaction
// are stuck at once.
func TestRefused(t *testing.T) {
	t.Parallel()
	type do = func(ctx context.Context, tx *sql.Tx) error
	for name, c := range map[string]struct {
		do     do
		lines  int // occurrences of the step that is decided in the commit of do
		status string
		step   string // the responsible step
		why    string
		calls  int64 // of do; 0 is not checked
	}{
		"its own commit": {do: func(_ context.Context, tx *sql.Tx) error { return tx.Commit() },
			status: "running", why: "shared the transaction: flight, hotel", calls: 1},
		"its own rollback": {do: func(_ context.Context, tx *sql.Tx) error { _ = tx.Rollback(); return nil },
			status: "running", why: "shared the transaction: flight, hotel", calls: 1},
		"a constraint that is deferred": {do: func(ctx context.Context, tx *sql.Tx) error {
			_, err := tx.ExecContext(ctx, "INSERT INTO child VALUES (7)")
			return err
		}, status: "compensated", step: "hotel", why: "FOREIGN KEY constraint failed"},
		"a zero byte": {do: func(context.Context, *sql.Tx) error { return errors.New("bro\x00ken") },
			status: "compensated", step: "hotel", why: "broken", calls: 4},
		"a nil pointer": {do: func(context.Context, *sql.Tx) error { var none *strange; return none },
			status: "compensated", step: "hotel", why: "nil pointer", calls: 4},
		"the goroutine's end": {do: func(context.Context, *sql.Tx) error { runtime.Goexit(); return nil },
			status: "compensated", step: "hotel", why: "ended its goroutine", calls: 4},
		"too many occurrences": {lines: 3_500, status: "compensated", step: "car", why: "921600"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			file := opened(t, t.TempDir(), "sagas")
			if _, err := sqlitestore.Migrate(t.Context(), file, nil); err != nil {
				t.Fatal(err)
			}
			if _, err := file.ExecContext(t.Context(),
				`CREATE TABLE ledger (key TEXT, step TEXT); CREATE TABLE parent (id INTEGER PRIMARY KEY);
				CREATE TABLE child (id INTEGER REFERENCES parent DEFERRABLE INITIALLY DEFERRED)`); err != nil {
				t.Fatal(err)
			}
			var calls atomic.Int64
			step := func(name string, f do, opts ...saga.Option) *saga.Step[trip, string] {
				return saga.Do(name, func(ctx context.Context, tx *sql.Tx, r saga.Run[trip]) (string, error) {
					_, err := tx.ExecContext(ctx, "INSERT INTO ledger VALUES (?, ?)", r.Key, name)
					if f != nil {
						calls.Add(1)
						err = errors.Join(err, f(ctx, tx))
					}
					return name, err
				}, func(ctx context.Context, tx *sql.Tx, r saga.Run[trip], out string) error {
					_, err := tx.ExecContext(ctx, "DELETE FROM ledger WHERE key = ? AND step = ?", r.Key, out)
					return err
				}, append(opts, saga.Retry(saga.Policy{Attempts: 3, InitialInterval: time.Millisecond}))...)
			}
			lines := saga.Each(func(saga.Run[trip]) (out []string) {
				for i := range max(c.lines, 1) {
					out = append(out, fmt.Sprintf("line %0240d", i))
				}
				return out
			})
			d := saga.New("trip", &saga.Options[trip]{Key: tripKey}, step("flight", nil), step("hotel", c.do),
				step("car", nil, lines))
			s := sqlitestore.New(file, nil)
			e, err := saga.NewEngine(s,
				&saga.EngineOptions{Logger: slog.New(slog.NewTextHandler(t.Output(), nil))}, d)
			if err != nil {
				t.Fatal(err)
			}
			ctx, stop := context.WithCancel(context.Background())
			done := make(chan error, 1)
			go func() { done <- e.Run(ctx) }()
			defer func() {
				stop()
				if err := <-done; err != nil {
					t.Error(err)
				}
			}()
			tx, err := file.BeginTx(t.Context(), nil)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := saga.Bind(e, d).Start(t.Context(), tx, trip{ID: "a"}); err != nil {
				t.Fatal(err)
			}
			if err := tx.Commit(); err != nil {
				t.Fatal(err)
			}
			is := settled(t, s, "a")
			why := is.Error
			if is.Status == "compensated" {
				end, err := saga.Bind(e, d).Await(t.Context(), "a")
				if why = end.Reason; err != nil || end.Step != c.step {
					t.Errorf("it turned back at %q, %v", end.Step, err)
				}
			}
			if is.Status != c.status || is.Stuck != (c.status == "running") || !strings.Contains(why, c.why) {
				t.Errorf("it is %s, stuck: %v, %q", is.Status, is.Stuck, why)
			}
			if n := calls.Load(); c.calls != 0 && n != c.calls {
				t.Errorf("the step ran %d times", n)
			}
			var rows int
			if err := file.QueryRowContext(t.Context(),
				"SELECT count(*) FROM ledger").Scan(&rows); err != nil ||
				rows != 0 { // SQLite refuses the whole commit because of a function
				t.Errorf("%d rows are left, %v", rows, err)
			}
		})
	}
}

// TestRetryAfterThePast: an attempt that does not count is not retried at once, for any time in RetryAfter.
func TestRetryAfterThePast(t *testing.T) {
	now := time.Now()
	db := memstore.New(&memstore.Options{Now: func() time.Time { return now }})
	calls := 0
	d := saga.New("d", &saga.Options[trip]{Key: tripKey},
		saga.Do("busy", func(context.Context, tx, saga.Run[trip]) (int, error) {
			calls++
			return 0, skald.RetryAfter(-time.Hour, nil)
		}, nil, saga.NoEffect()))
	e, err := saga.NewEngine(db, &saga.EngineOptions{Logger: slog.New(slog.DiscardHandler),
		Now: func() time.Time { return now }}, d)
	if err != nil {
		t.Fatal(err)
	}
	begin(t, db, e, d, trip{ID: "a"})
	for range 90 {
		if _, err := e.Step(t.Context()); err != nil {
			t.Fatal(err)
		}
		now = now.Add(time.Millisecond)
	}
	if calls != 1 {
		t.Errorf("%d attempts within 90 ms", calls)
	}
}

// TestPostgresRefuses: if PostgreSQL refuses a step's own COMMIT, nothing is written, and the step does not
// run again. An ignored error has rolled the writes back: that counts as a failure.
func TestPostgresRefuses(t *testing.T) {
	t.Parallel()
	pool, db, schema := onPostgres(t)
	var calls atomic.Int64
	hotel := pgLedger(schema, "hotel", func(ctx context.Context, tx pgx.Tx, r saga.Run[trip]) error {
		calls.Add(1)
		_, err := tx.Exec(ctx, r.In.Fail["hotel"])
		switch r.In.Fail["then"] {
		case "fail":
			return errors.New("it sent COMMIT before")
		case "deadlock":
			_, err = tx.Exec(ctx, "DO $$ BEGIN RAISE USING ERRCODE = '40P01'; END $$")
			return err
		}
		if strings.HasPrefix(r.In.Fail["hotel"], "SELECT") {
			return nil
		}
		return err
	})
	d := saga.New("trip", &saga.Options[trip]{Key: tripKey}, pgLedger(schema, "flight", nil), hotel,
		pgLedger(schema, "car", nil))
	e := pgEngine(t, db, saga.EngineOptions{}, d)
	pgRun(t, e)
	for name, c := range map[string]struct {
		fail  map[string]string
		stuck bool
	}{
		"commit":              {map[string]string{"hotel": "COMMIT"}, true},
		"commit, and fail":    {map[string]string{"hotel": "COMMIT", "then": "fail"}, true},
		"chain":               {map[string]string{"hotel": "COMMIT AND CHAIN"}, true},
		"chain, and deadlock": {map[string]string{"hotel": "COMMIT AND CHAIN", "then": "deadlock"}, true},
		"chain back":          {map[string]string{"hotel": "ROLLBACK AND CHAIN", "then": "fail"}, true},
		"swallow":             {map[string]string{"hotel": "SELECT 1/0"}, false},
	} {
		calls.Store(0)
		if _, err := pgStart(t, pool, e, d, trip{ID: name, Fail: c.fail}); err != nil {
			t.Fatal(err)
		}
		is := settled(t, db, name)
		if is.Stuck != c.stuck || is.Ended.IsZero() != c.stuck || c.stuck && calls.Load() != 1 {
			t.Errorf("%s: after %d calls it is %s, stuck: %v, %q", name, calls.Load(), is.Status,
				is.Stuck, is.Error)
		}
		var n int
		err := pool.QueryRow(t.Context(),
			"SELECT count(*) FROM "+schema+".ledger WHERE key = $1 AND step = 'hotel'", name).Scan(&n)
		if err != nil || n != 0 {
			t.Errorf("%s: %d rows, %v", name, n, err)
		}
	}
}

// TestFunctionThatShutsItsTransaction: if a function changes its transaction so that the engine cannot
// write, its attempt counts. A step turns back after its last attempt; an undo gets stuck.
func TestFunctionThatShutsItsTransaction(t *testing.T) {
	t.Parallel()
	both := func(schema string) []string {
		return []string{"SET ROLE pg_monitor", "SET SESSION AUTHORIZATION pg_monitor",
			"SET TRANSACTION READ ONLY", "DO $$BEGIN SET TRANSACTION READ ONLY; CREATE TABLE nowhere (); END$$",
			"ALTER TABLE " + schema + ".skald_saga RENAME TO skald_hidden",
			"ALTER TABLE " + schema + ".skald_saga RENAME COLUMN state TO away",
			"ALTER SCHEMA " + schema + " RENAME TO " + schema + "_away", "PREPARE TRANSACTION 'skald'"}
	}
	t.Run("pgx", func(t *testing.T) {
		t.Parallel()
		pool, db, schema := onPostgres(t)
		shut(t, db, schema+".ledger", both(schema), func(do func(pgx.Tx) error) error {
			return pgx.BeginFunc(t.Context(), pool, do)
		}, func(ctx context.Context, tx pgx.Tx, text string) error {
			_, err := tx.Exec(ctx, text)
			return err
		}, func(key string) int { return pgRows(t, pool, schema, key) })
	})
	exec := func(ctx context.Context, tx *sql.Tx, text string) error {
		_, err := tx.ExecContext(ctx, text)
		return err
	}
	begun := func(db *sql.DB) func(func(*sql.Tx) error) error {
		return func(do func(*sql.Tx) error) error {
			tx, err := db.BeginTx(t.Context(), nil)
			if err == nil {
				err = errors.Join(do(tx), tx.Commit())
			}
			return err
		}
	}
	t.Run("database/sql", func(t *testing.T) {
		t.Parallel()
		pool, _, schema := onPostgres(t)
		db := stdlib.OpenDBFromPool(pool)
		shut(t, pgstore.NewSQL(db, &pgstore.Options{Schema: schema}), schema+".ledger", both(schema),
			begun(db), exec, func(key string) int { return pgRows(t, pool, schema, key) })
	})
	t.Run("sqlite", func(t *testing.T) {
		t.Parallel()
		file := opened(t, t.TempDir(), "sagas")
		_, err := sqlitestore.Migrate(t.Context(), file, nil)
		if _, made := file.ExecContext(t.Context(),
			"CREATE TABLE ledger (key TEXT, step TEXT)"); err != nil || made != nil {
			t.Fatal(err, made)
		}
		shut(t, sqlitestore.New(file, nil), "ledger", []string{"PRAGMA query_only = ON",
			"ALTER TABLE skald_saga RENAME TO skald_hidden"}, begun(file), exec,
			func(key string) (n int) {
				if err := file.QueryRowContext(t.Context(), "SELECT count(*) FROM ledger WHERE key = ?",
					key).Scan(&n); err != nil {
					t.Error(err)
				}
				return n
			})
	})
}

// shut runs each of some statements last in a step and last in an undo. Neither writes anything.
func shut[TTx any](t *testing.T, db interface {
	store.Driver[TTx]
	store.Sagas[TTx]
}, ledger string, texts []string, begin func(func(TTx) error) error,
	exec func(context.Context, TTx, string) error, rows func(key string) int) {
	told := func(why string) bool {
		return strings.Contains(why, "READ ONLY") || strings.Contains(why, "read-only") ||
			strings.Contains(why, "PREPARE") || strings.Contains(why, "no such table")
	}
	few := saga.Policy{Attempts: 2, InitialInterval: time.Millisecond}
	fly := func(ctx context.Context, tx TTx, r saga.Run[trip]) (int, error) {
		return 0, exec(ctx, tx, "INSERT INTO "+ledger+" VALUES ('"+r.Key+"', 'flight')")
	}
	walk := func(ctx context.Context, tx TTx, r saga.Run[trip], _ int) error {
		err := exec(ctx, tx, "DELETE FROM "+ledger+" WHERE key = '"+r.Key+"'")
		if err == nil && r.In.Fail["undo"] != "" {
			err = exec(ctx, tx, r.In.Fail["undo"])
		}
		return err
	}
	stay := func(ctx context.Context, tx TTx, r saga.Run[trip]) (int, error) {
		if r.In.Fail["undo"] != "" {
			return 0, skald.Reject(errors.New("no"))
		}
		return 0, errors.Join(exec(ctx, tx, "INSERT INTO "+ledger+" VALUES ('"+r.Key+"', 'hotel')"),
			exec(ctx, tx, r.In.Fail["do"]))
	}
	d := saga.New("trip", &saga.Options[trip]{Key: tripKey},
		saga.Do("flight", fly, walk, saga.RetryUndo(few)),
		saga.Do("hotel", stay, nil, saga.NoEffect(), saga.Retry(few)))
	e, err := saga.NewEngine(db,
		&saga.EngineOptions{Logger: slog.New(slog.NewTextHandler(t.Output(), nil))}, d)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- e.Run(ctx) }()
	defer func() {
		stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
	}()
	for i, text := range texts {
		for _, way := range []string{"do", "undo"} {
			key := fmt.Sprint(way, i)
			err := begin(func(tx TTx) error {
				in := trip{ID: key, Fail: map[string]string{way: text}}
				_, err := saga.Bind(e, d).Start(t.Context(), tx, in)
				return err
			})
			if err != nil {
				t.Fatal(err)
			}
			is := settled(t, db, key)
			if n := rows(key); n != strings.Count(way, "undo") {
				t.Errorf("after %s in %s there are %d rows", text, way, n)
			}
			if way == "undo" {
				if !is.Stuck || is.Step != "flight" || is.Failed != 2 || !told(is.Error) {
					t.Errorf("after %s in an undo it is %+v", text, is.SagaStatus)
				}
				continue
			}
			end, err := saga.Bind(e, d).Await(t.Context(), key)
			if err != nil || end.Done || end.Step != "hotel" || !told(end.Reason) {
				t.Errorf("after %s it ended as %+v, %v", text, end, err)
			}
		}
	}
}
