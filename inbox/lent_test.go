package inbox_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/inbox"
	"github.com/skald-go/skald/once"
	"github.com/skald-go/skald/outbox"
	"github.com/skald-go/skald/store"
)

// A write to the outbox in another transaction than the handler's fails, unless the caller states that it
// is intended.
func TestWriteInAnotherTransaction(t *testing.T) {
	t.Parallel()
	t.Run("memory", func(t *testing.T) { testOtherTransaction(t, inMemory) })
	t.Run("sqlite", func(t *testing.T) { testOtherTransaction(t, onSQLite(t)) })
	t.Run("postgres", func(t *testing.T) { testOtherTransaction(t, onPostgres(t)) })
}

func testOtherTransaction[TTx comparable](t *testing.T, open opening[TTx]) {
	w := newWorld(t, 1)
	g, other := open(w), newWorld(t, 1)
	out, foreign, answer := outbox.New(g.db, nil), outbox.New(other.db, nil),
		skald.Event[string]{Topic: "answers", Type: "answered"}
	var silent, meant error
	in := inbox.New(g.db, w.bus, "stock", &inbox.Options{Retry: inbox.Retry{Attempts: 1}, Now: w.clock})
	inbox.On(in, said, func(ctx context.Context, own TTx, m skald.Received[string]) error {
		theirs := other.db.BeginTx()
		silent = foreign.Write(ctx, theirs, answer.New("k", "lost"))
		meant = errors.Join(foreign.Write(outbox.OtherTransaction(ctx), theirs, answer.New("k", "meant")),
			theirs.Commit())
		_, _, err := once.Do(ctx, other.db, "job", m.ID, nil, func(ctx context.Context, tx tx) (int, error) {
			return 1, foreign.Write(ctx, tx, answer.New("k", "once"))
		})
		return errors.Join(err, out.Write(ctx, own, answer.New("k", "own")), g.note(own, "handled", m.Value))
	})
	w.publish(w.message("k", "a"))
	w.quiet(in)
	if !errors.Is(silent, outbox.ErrOtherTransaction) ||
		!strings.Contains(silent.Error(), `consumer stock for "m-1" of type "said"`) {
		t.Errorf("another transaction: %v", silent)
	}
	if meant != nil || g.lists(t)["handled"] != "a" {
		t.Errorf("meant: %v, handled %q", meant, g.lists(t)["handled"])
	}
	if rows := other.db.Rows(); len(rows) != 2 || string(rows[0].Data) != `"meant"` ||
		string(rows[1].Data) != `"once"` {
		t.Errorf("in the other database: %+v", rows)
	}
	if back, err := store.ReadBacklog(t.Context(), g.db); err != nil || back.Pending != 1 {
		t.Errorf("in its own: %+v, %v", back, err)
	}
}

// wrapped is a transaction inside a type of the user, as tracers do it.
type wrapped struct{ pgx.Tx }

// A savepoint and a wrapped transaction count as the handler's own; another session of the same database
// does not.
func TestWriteInASavepoint(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1)
	g := onPostgres(t)(w)
	out, answer := outbox.New(g.db, nil), skald.Event[string]{Topic: "answers", Type: "answered"}
	var other error
	in := inbox.New(g.db, w.bus, "stock", &inbox.Options{Retry: inbox.Retry{Attempts: 1}, Batch: 10})
	inbox.OnBatch(in, said, func(ctx context.Context, own pgx.Tx, ms []skald.Received[string]) error {
		rival, err := g.db.Begin(ctx, store.Intake{})
		if err != nil {
			return err
		}
		other = out.Write(ctx, rival.Tx(), answer.New("k", "other"))
		if _, err := rival.Rollback(ctx); err != nil {
			return err
		}
		sp, err := own.Begin(ctx)
		if err != nil {
			return err
		}
		return errors.Join(out.Write(ctx, wrapped{sp}, answer.New("k", "in")), sp.Commit(ctx),
			out.Write(ctx, wrapped{own}, answer.New("k", "wrapped")))
	})
	w.publish(w.message("k", "a"))
	w.quiet(in)
	if !errors.Is(other, outbox.ErrOtherTransaction) || strings.Count(other.Error(), "of backend ") != 2 {
		t.Errorf("another session: %v", other)
	}
	if back, err := store.ReadBacklog(t.Context(), g.db); err != nil || back.Pending != 2 {
		t.Errorf("%+v, %v", back, err)
	}
}

// A batch handler uses the connection under its transaction, its own savepoints and nested transactions. The
// rows in the outbox have the same order, and are committed or rolled back, as in the user's own transaction.
// This is also true after one message of the batch failed.
func TestBatchHandlerBelowItsTransaction(t *testing.T) {
	t.Parallel()
	for name, many := range map[string]bool{"one by one": false, "at once": true} {
		t.Run(name, func(t *testing.T) { testBelowTransaction(t, many) })
	}
}

// below returns a handler that writes rows, some in savepoints that it rolls back. It fails twice for "c".
func below(g *ground[pgx.Tx], failed *int) func(context.Context, pgx.Tx, skald.Received[string]) error {
	out, answer := outbox.New(g.db, nil), skald.Event[string]{Topic: "answers", Type: "answered"}
	return func(ctx context.Context, own pgx.Tx, m skald.Received[string]) error {
		write := func(tx pgx.Tx, n string) error { return out.Write(ctx, tx, answer.New("k", m.Value+n)) }
		raw := func(sql string) error {
			_, err := own.Conn().Exec(ctx, sql)
			return err
		}
		err := errors.Join(write(own, "1"), raw("SAVEPOINT mine"), write(own, "2"),
			g.note(own, m.Value, "undone"), raw("ROLLBACK TO SAVEPOINT mine"), g.note(own, m.Value, "noted"),
			write(own, "3"))
		if err != nil {
			return err
		}
		kept, err := own.Begin(ctx)
		if err == nil {
			err = errors.Join(write(kept, "4"), kept.Commit(ctx))
		}
		if err != nil {
			return err
		}
		undone, err := own.Begin(ctx)
		if err == nil {
			err = errors.Join(write(undone, "5"), undone.Rollback(ctx), write(own, "6"))
		}
		if m.Value == "c" && *failed < 2 {
			*failed++
			return errors.Join(err, errors.New("not yet"))
		}
		return err
	}
}

func testBelowTransaction(t *testing.T, many bool) {
	w, failed := newWorld(t, 1), 0
	g := onPostgres(t)(w)
	one := below(g, &failed)
	in := inbox.New(g.db, w.bus, "stock", &inbox.Options{Now: w.clock, Workers: 1, Batch: 10,
		Retry: inbox.Retry{InitialInterval: pause}, Logger: slog.New(slog.DiscardHandler)})
	inbox.On(in, said, one)
	if many {
		inbox.Overridable(in)
		inbox.OnBatch(in, said, func(ctx context.Context, own pgx.Tx, ms []skald.Received[string]) error {
			for i, m := range ms {
				if err := one(ctx, own, m); err != nil {
					return inbox.FailMessage(i, err)
				}
			}
			return nil
		})
	}
	var want []string
	for _, value := range []string{"a", "b", "c", "d", "e"} {
		w.publish(w.message(value, value))
	}
	w.quiet(in)
	g.passes(w, pause)
	w.quiet(in)
	for _, value := range []string{"a", "b", "d", "e", "c"} { // c is retried later
		for _, n := range []string{"1", "3", "4", "6"} {
			want = append(want, fmt.Sprintf("%q", value+n))
		}
	}
	if got := written(t, g); !slices.Equal(got, want) {
		t.Errorf("the outbox has %v, want %v", got, want)
	}
	for list, told := range g.lists(t) {
		if told != "noted" {
			t.Errorf("%s has %q", list, told)
		}
	}
	if failed == 0 || len(g.lists(t)) != 5 || in.Health().Handled != 5 {
		t.Errorf("%d failures, health %+v", failed, in.Health())
	}
}

// written returns the payloads in the outbox, in order.
func written(t *testing.T, g *ground[pgx.Tx]) []string {
	t.Helper()
	u, err := g.db.Begin(t.Context(), store.Intake{})
	if err != nil {
		t.Fatal(err)
	}
	_, schema, _ := strings.Cut(fmt.Sprint(g.db), "schema ")
	// its error is CollectRows's, too
	rows, _ := u.Tx().Query(t.Context(), "SELECT data FROM "+schema+".skald_outbox ORDER BY seq")
	data, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if _, back := u.Rollback(t.Context()); err != nil || back != nil {
		t.Fatal(errors.Join(err, back))
	}
	return data
}
