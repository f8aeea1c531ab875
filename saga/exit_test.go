package saga_test

import (
	"context"
	"database/sql"
	"errors"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/call"
	"github.com/skald-go/skald/saga"
	"github.com/skald-go/skald/store"
	"github.com/skald-go/skald/store/sqlitestore"
)

const (
	exitAt   = "SKALD_TEST_SAGA_EXIT" // the database of a child process of this test
	exitCode = 7                      // of a process that a step has ended
)

// deadly returns a saga that ends its process in the function that the input names, after the function's
// effect.
func deadly(payments *sql.DB) *saga.Definition[trip] {
	fatal := func(r saga.Run[trip], at string) error {
		switch r.In.Fail[at] {
		case "exit":
			os.Exit(exitCode)
		case "reject":
			return skald.Reject(errors.New("no"))
		}
		return nil
	}
	local := func(name string, opts ...saga.Option) *saga.Step[trip, string] {
		do := func(ctx context.Context, tx *sql.Tx, r saga.Run[trip]) (string, error) {
			_, err := tx.ExecContext(ctx, "INSERT INTO ledger VALUES (?, ?)", r.Key, name)
			return name, errors.Join(err, fatal(r, name))
		}
		undo := func(ctx context.Context, tx *sql.Tx, r saga.Run[trip], out string) error {
			_, err := tx.ExecContext(ctx, "DELETE FROM ledger WHERE key = ? AND step = ?", r.Key, out)
			return errors.Join(err, fatal(r, "undo "+name))
		}
		return saga.Do(name, do, undo, opts...)
	}
	bank := call.NewProvider("bank", nil)
	pay := saga.CallWith("pay", saga.Request[*sql.Tx, trip, saga.Run[trip], string]{At: bank,
		Intent: func(_ context.Context, _ *sql.Tx, r saga.Run[trip]) (saga.Run[trip], error) {
			return r, fatal(r, "intent")
		},
		Do: func(ctx context.Context, r saga.Run[trip], key string) (string, error) {
			_, err := payments.ExecContext(ctx, "INSERT INTO payments VALUES (?, ?) ON CONFLICT DO NOTHING",
				r.Key, key)
			return key, errors.Join(err, fatal(r, "pay"))
		}},
		saga.UndoRequest[*sql.Tx, trip, string, string, bool]{At: bank,
			Intent: func(_ context.Context, _ *sql.Tx, _ saga.Run[trip], key string) (string, error) {
				return key, nil
			},
			Do: func(ctx context.Context, payment, _ string) (bool, error) {
				_, err := payments.ExecContext(ctx, "DELETE FROM payments WHERE number = ?", payment)
				return true, err
			}})
	ship := local("ship", saga.When(func(r saga.Run[trip]) bool { return fatal(r, "when") == nil }))
	return saga.New("deadly", &saga.Options[trip]{Key: tripKey}, local("hold"), pay, ship)
}

// exitsRun runs an engine in a process. It exits with 0 once each saga has ended or is stuck.
func exitsRun(t *testing.T, dir string) {
	db, payments := opened(t, dir, "sagas"), opened(t, dir, "payments")
	s := sqlitestore.New(db, nil)
	e, err := saga.NewEngine(s, &saga.EngineOptions{Logger: slog.New(slog.DiscardHandler)}, deadly(payments))
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithTimeout(t.Context(), 2*time.Minute)
	done := make(chan error, 1)
	go func() { done <- e.Run(ctx) }()
	open := func(s store.Saga) bool { return s.Ended.IsZero() && !s.Stuck }
	for ctx.Err() == nil {
		if ss, err := store.ListSagas(ctx, s, store.SagaQuery{}); err == nil &&
			!slices.ContainsFunc(ss, open) {
			break
		}
		<-time.After(5 * time.Millisecond)
	}
	stop()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// TestExits: a step that ends its process finally runs alone, and gets stuck. It does not keep other sagas
// from their end. Each kind of function calls os.Exit in its own process. The crash counts for the sagas in
// progress, but if one ran alone, only for that one.
func TestExits(t *testing.T) {
	if dir := os.Getenv(exitAt); dir != "" {
		exitsRun(t, dir)
		return
	}
	if testing.Short() {
		t.Skip("it starts many processes")
	}
	for _, c := range []struct {
		at, step, left string
		fail           map[string]string
	}{
		{"hold", "hold", "", nil},
		{"intent", "pay", "hold", nil},
		{"pay", "pay", "hold paid", nil},
		{"when", "ship", "hold paid", nil}, // it is called in the commit of the steps before, at first
		{"undo hold", "hold", "hold", map[string]string{"ship": "reject"}},
	} {
		t.Run(c.at, func(t *testing.T) {
			t.Parallel()
			x := newExits(t)
			fail := map[string]string{c.at: "exit"}
			for at, how := range c.fail {
				fail[at] = how
			}
			x.start(trip{"a", nil}, trip{"deadly", fail}, trip{"b", map[string]string{"ship": "reject"}},
				trip{"c", nil}, trip{"deadly, too", fail})
			deaths := 0
			for x.dies() {
				if deaths++; deaths > 8 {
					t.Fatal("they crash their processes repeatedly")
				}
			}
			if deaths < 4 {
				t.Errorf("they crashed their processes %d times", deaths)
			}
			stuck := strings.TrimSpace("stuck at " + c.step + ": " + c.left)
			for key, want := range map[string]string{"a": "done: hold ship paid", "b": "compensated:",
				"c":      "done: hold ship paid",
				"deadly": stuck, "deadly, too": stuck} {
				if got := x.standing(key); got != want {
					t.Errorf("%s is %s, want %s", key, got, want)
				}
			}
		})
	}
}

// exits is a set of sagas in a file, with their effects.
type exits struct {
	t            *testing.T
	dir          string
	db, payments *sql.DB // a bank has its own files
}

func opened(t *testing.T, dir, name string) *sql.DB {
	t.Helper()
	db, err := sqlitestore.Open(filepath.Join(dir, name+".db"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	return db
}

func newExits(t *testing.T) *exits {
	t.Helper()
	dir := t.TempDir()
	x := &exits{t: t, dir: dir, db: opened(t, dir, "sagas"), payments: opened(t, dir, "payments")}
	if _, err := sqlitestore.Migrate(t.Context(), x.db, nil); err != nil {
		t.Fatal(err)
	}
	x.exec(x.db, "CREATE TABLE ledger (key TEXT, step TEXT)")
	x.exec(x.payments, "CREATE TABLE payments (key TEXT, number TEXT PRIMARY KEY)")
	return x
}

func (x *exits) exec(db *sql.DB, text string) {
	x.t.Helper()
	if _, err := db.ExecContext(x.t.Context(), text); err != nil {
		x.t.Fatal(err)
	}
}

func (x *exits) start(ins ...trip) {
	x.t.Helper()
	d := deadly(x.payments)
	e, err := saga.NewEngine(sqlitestore.New(x.db, nil), nil, d)
	if err != nil {
		x.t.Fatal(err)
	}
	tx, err := x.db.BeginTx(x.t.Context(), nil)
	if err != nil {
		x.t.Fatal(err)
	}
	for _, in := range ins {
		if _, err := saga.Bind(e, d).Start(x.t.Context(), tx, in); err != nil {
			x.t.Fatal(err)
		}
	}
	if err := tx.Commit(); err != nil {
		x.t.Fatal(err)
	}
}

// dies makes all sagas due, and runs a process until it ends. It returns true if a step ended the process.
func (x *exits) dies() bool {
	x.t.Helper()
	x.exec(x.db, "UPDATE skald_saga SET due = 0 WHERE due IS NOT NULL")
	cmd := exec.CommandContext(x.t.Context(), os.Args[0], "-test.run", "^TestExits$", "-test.count=1")
	cmd.Env = append(os.Environ(), exitAt+"="+x.dir)
	out, err := cmd.CombinedOutput()
	var ended *exec.ExitError
	switch {
	case err == nil:
		return false
	case errors.As(err, &ended) && ended.ExitCode() == exitCode:
		return true
	}
	x.t.Fatalf("%v\n%s", err, out)
	return false
}

// standing returns the state and the effects of a saga that has ended.
func (x *exits) standing(key string) string {
	x.t.Helper()
	ss, err := store.ListSagas(x.t.Context(), sqlitestore.New(x.db, nil), store.SagaQuery{Key: key})
	if err != nil || len(ss) != 1 {
		x.t.Fatalf("%d sagas, %v", len(ss), err)
	}
	left := append(x.texts(x.db, "SELECT step FROM ledger WHERE key = ? ORDER BY step", key),
		x.texts(x.payments, "SELECT 'paid' FROM payments WHERE key = ?", key)...)
	how := ss[0].Status
	if ss[0].Stuck {
		how = "stuck at " + ss[0].Step
		if !strings.Contains(ss[0].Error, "ended its process 3 times") {
			x.t.Errorf("%s: %s", key, ss[0].Error)
		}
	}
	return strings.TrimSpace(how + ": " + strings.Join(left, " "))
}

func (x *exits) texts(db *sql.DB, query, key string) (out []string) {
	x.t.Helper()
	rows, err := db.QueryContext(x.t.Context(), query, key)
	if err != nil {
		x.t.Fatal(err)
	}
	defer func() { _ = rows.Close() }()
	for rows.Next() {
		var text string
		if err := rows.Scan(&text); err != nil {
			x.t.Fatal(err)
		}
		out = append(out, text)
	}
	if err := rows.Err(); err != nil {
		x.t.Fatal(err)
	}
	return out
}
