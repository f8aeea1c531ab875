package inbox_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/inbox"
	"github.com/skald-go/skald/once"
	"github.com/skald-go/skald/outbox"
	"github.com/skald-go/skald/store"
)

// What a handler writes to the outbox in a transaction that is not its own fails, unless it says that it
// means it.
func TestWriteInAnotherTransaction(t *testing.T) {
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

// wrapped is a transaction inside something of the user's, as tracers do it.
type wrapped struct{ pgx.Tx }

// A savepoint, and what somebody put around a transaction, are the handler's own; another session of the same
// database is not.
func TestWriteInASavepoint(t *testing.T) {
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
