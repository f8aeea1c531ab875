package saga_test

import (
	"context"
	"database/sql"
	"errors"
	"log/slog"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/saga"
	"github.com/skald-go/skald/store"
	"github.com/skald-go/skald/store/memstore"
	"github.com/skald-go/skald/store/sqlitestore"
)

// till is a database with two builds of one definition. Only the later build checks before it pays.
type till[TTx any] struct {
	*testing.T
	db    store.Driver[TTx]
	write func(ctx context.Context, tx TTx, key, what string) error
	read  func(key string) (rows []string)

	v1, v2 *saga.Definition[trip]
	e1, e2 *saga.Engine[TTx]
}

var moved = saga.Signal[bool]{Name: "moved"}

func (p till[TTx]) define(checked bool, ms ...saga.Mapping) *saga.Definition[trip] {
	step := func(name string, opts ...saga.Option) saga.StepOf[trip] {
		return saga.Do(name, func(ctx context.Context, tx TTx, r saga.Run[trip]) (bool, error) {
			return true, p.write(ctx, tx, r.Key, name)
		}, nil, append(opts, saga.NoEffect())...)
	}
	steps := []saga.StepOf[trip]{step("hold"), saga.Wait[trip]("go", moved)}
	if checked {
		steps = append(steps, step("check"))
	}
	return saga.New("trip", &saga.Options[trip]{Key: tripKey, Mappings: ms},
		append(steps, step("pay", saga.Pivot()))...)
}

func (p till[TTx]) engine(d saga.Defined) *saga.Engine[TTx] {
	log := slog.New(slog.NewTextHandler(p.Output(), nil))
	e, err := saga.NewEngine(p.db, &saga.EngineOptions{Logger: log}, d)
	if err != nil {
		p.Fatal(err)
	}
	return e
}

func (p till[TTx]) step(es ...*saga.Engine[TTx]) {
	p.Helper()
	for range 20 {
		for _, e := range es {
			if _, err := e.Step(p.Context()); err != nil {
				p.Fatal(err)
			}
		}
	}
}

func (p till[TTx]) in(f func(tx TTx) error) error {
	u, err := p.db.Begin(p.Context(), store.Intake{})
	if err != nil {
		p.Fatal(err)
	}
	if err := f(u.Tx()); err != nil {
		_, _ = u.Rollback(p.Context())
		return err
	}
	return u.Commit(p.Context())
}

func (p till[TTx]) start(e *saga.Engine[TTx], d *saga.Definition[trip], keys ...string) {
	p.Helper()
	for _, key := range keys {
		if err := p.in(func(tx TTx) error {
			_, err := saga.Bind(e, d).Start(p.Context(), tx, trip{ID: key})
			return err
		}); err != nil {
			p.Fatal(err)
		}
	}
}

func (p till[TTx]) send(e *saga.Engine[TTx], d *saga.Definition[trip], keys ...string) {
	p.Helper()
	for _, key := range keys {
		if got, err := moved.Send(p.Context(), saga.Bind(e, d), key, true); err != nil || got != saga.Taken {
			p.Fatalf("the signal to %s: %s, %v", key, got, err)
		}
	}
}

func (p till[TTx]) want(key, rows, status string) {
	p.Helper()
	list, err := store.ListSagas(p.Context(), p.db, store.SagaQuery{Name: "trip", Key: key})
	if err != nil || len(list) != 1 {
		p.Fatalf("%d sagas, %v", len(list), err)
	}
	if got := strings.Join(p.read(key), " "); got != rows || list[0].Status != status {
		p.Errorf("%s is %s with %q, want %s with %q; its state is %+v", key, list[0].Status, got, status,
			rows, list[0].SagaStatus)
	}
}

// TestOlderBuildDoesNotRunLaterSagas: during a rollout, and after a rollback, an engine of the older build
// does not run the sagas of the later one, because it would pay without the check. It still delivers signals
// and cancellations to them.
func TestOlderBuildDoesNotRunLaterSagas(t *testing.T) {
	onTill(t, noWayBack[tx], noWayBack[*sql.Tx], noWayBack[pgx.Tx])
}

func noWayBack[TTx any](p till[TTx]) {
	p.step(p.e1)
	p.start(p.e1, p.v1, "early")
	p.start(p.e2, p.v2, "untold")
	var version *skald.VersionError
	if err := p.in(func(tx TTx) error {
		_, err := saga.Bind(p.e1, p.v1).Cancel(p.Context(), tx, "untold", "no more")
		return err
	}); !errors.As(err, &version) {
		p.Errorf("a cancellation that no build can apply yet: %v", err)
	}
	p.step(p.e2)
	p.start(p.e2, p.v2, "late", "cancelled")
	p.step(p.e1)
	p.want("late", "", "running")
	p.step(p.e2, p.e1)
	p.want("late", "hold", "running")
	p.send(p.e1, p.v1, "late", "untold", "early")
	if err := p.in(func(tx TTx) error {
		out, err := saga.Bind(p.e1, p.v1).Cancel(p.Context(), tx, "cancelled", "no more")
		if err == nil && out != saga.NothingToUndo {
			p.Errorf("the cancellation: %s", out)
		}
		return err
	}); err != nil {
		p.Error(err)
	}
	p.step(p.e1)
	p.want("late", "hold", "running")
	p.step(p.e1, p.e2)
	p.want("late", "hold check pay", "done")
	p.want("untold", "hold check pay", "done")
	p.want("cancelled", "hold", "compensated")
	p.want("early", "hold check pay", "done") // the later build continued a saga of the older one
}

// TestRollback: after a rollback the earlier build continues its own sagas. It runs those of the later one
// only with a mapping back.
func TestRollback(t *testing.T) { onTill(t, rollback[tx], rollback[*sql.Tx], rollback[pgx.Tx]) }

func rollback[TTx any](p till[TTx]) {
	p.step(p.e1)
	p.step(p.e2)
	p.start(p.e2, p.v2, "theirs")
	again := p.engine(p.v1)
	p.start(again, p.v1, "own")
	p.step(again)
	p.send(again, p.v1, "own")
	p.step(again)
	p.want("own", "hold pay", "done")
	p.want("theirs", "", "running")
	back := p.define(false, saga.Mapping{From: p.v2.Hash()})
	p.step(p.engine(back))
	p.send(again, back, "theirs")
	p.step(p.engine(back))
	p.want("theirs", "hold pay", "done")
}

// onTill runs a test on each database.
func onTill(t *testing.T, memory func(till[tx]), sqlite func(till[*sql.Tx]),
	postgres func(till[pgx.Tx])) {
	t.Run("memory", func(t *testing.T) {
		db := memstore.New(nil)
		memory(over(t, db, func(_ context.Context, tx tx, key, what string) error {
			was, _ := tx.Get("paid " + key)
			return tx.Put("paid "+key, strings.TrimSpace(was+" "+what))
		}, func(key string) []string { return strings.Fields(db.User()["paid "+key]) }))
	})
	t.Run("sqlite", func(t *testing.T) {
		db := opened(t, t.TempDir(), "sagas")
		if _, err := sqlitestore.Migrate(t.Context(), db, nil); err != nil {
			t.Fatal(err)
		}
		if _, err := db.ExecContext(t.Context(), "CREATE TABLE ledger (key TEXT, step TEXT)"); err != nil {
			t.Fatal(err)
		}
		insert := func(ctx context.Context, tx *sql.Tx, key, what string) error {
			_, err := tx.ExecContext(ctx, "INSERT INTO ledger VALUES (?, ?)", key, what)
			return err
		}
		sqlite(over(t, sqlitestore.New(db, nil), insert, func(key string) (out []string) {
			rows, err := db.QueryContext(t.Context(),
				"SELECT step FROM ledger WHERE key = ? ORDER BY rowid", key)
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = rows.Close() }()
			for rows.Next() {
				var what string
				if err := rows.Scan(&what); err != nil {
					t.Fatal(err)
				}
				out = append(out, what)
			}
			if err := rows.Err(); err != nil {
				t.Fatal(err)
			}
			return out
		}))
	})
	t.Run("postgres", func(t *testing.T) {
		pool, db, schema := onPostgres(t)
		postgres(over(t, db, func(ctx context.Context, tx pgx.Tx, key, what string) error {
			_, err := tx.Exec(ctx, "INSERT INTO "+schema+".ledger VALUES ($1, $2)", key, what)
			return err
		}, func(key string) []string {
			rows, err := pool.Query(t.Context(),
				"SELECT step FROM "+schema+".ledger WHERE key = $1 ORDER BY ctid", key)
			if err != nil {
				t.Fatal(err)
			}
			out, err := pgx.CollectRows(rows, pgx.RowTo[string])
			if err != nil {
				t.Fatal(err)
			}
			return out
		}))
	})
}

func over[TTx any](t *testing.T, db store.Driver[TTx],
	write func(ctx context.Context, tx TTx, key, what string) error,
	read func(key string) []string) till[TTx] {
	p := till[TTx]{T: t, db: db, write: write, read: read}
	p.v1, p.v2 = p.define(false), p.define(true)
	p.e1, p.e2 = p.engine(p.v1), p.engine(p.v2)
	return p
}
