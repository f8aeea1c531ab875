package pgstore

import (
	"testing"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/store"
)

// A function leaves its transaction with a role, a table or a schema in which Skald cannot write. Rollback
// undoes that and applies its effect, also on a connection that has prepared no statement of the effect.
func TestRollbackOfAChangedTransaction(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	for _, text := range []string{"SET LOCAL ROLE pg_monitor", "SET ROLE pg_monitor",
		"ALTER TABLE {skald_mark} RENAME TO hidden", "ALTER TABLE {skald_mark} RENAME COLUMN id TO away",
		`ALTER SCHEMA "` + b.schema + `" RENAME TO hidden_away`, "SET TRANSACTION READ ONLY"} {
		s, ctx := b.store(t), t.Context()
		u, err := s.Begin(ctx, store.Intake{Marks: []store.Mark{aMark()}})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := u.Tx().Exec(ctx, b.q(text)); err != nil {
			t.Fatal(err)
		}
		m := aMark()
		m.Outcome = store.Rejected
		stands, err := u.Rollback(ctx, store.Effect{Mark: &m, Rows: []skald.Message{aMessage("a")}})
		if err != nil || !stands[0] {
			t.Errorf("after %s: %v, %v", text, stands, err)
		}
		if n := one[int](t, b, "SELECT count(*) FROM {skald_mark} WHERE id = $1", m.ID); n != 1 {
			t.Errorf("after %s there are %d marks", text, n)
		}
	}
}
