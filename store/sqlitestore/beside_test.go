package sqlitestore

import (
	"context"
	"database/sql"
	"errors"
	"testing"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/inbox"
	"github.com/skald-go/skald/store"
)

// processed looks a message up in the application's own deduplication table, in the transaction of the
// effect.
func processed(ctx context.Context, tx *sql.Tx, id store.Identity, _ skald.Message) (known bool, err error) {
	done, err := tx.ExecContext(ctx, "INSERT INTO processed (id) VALUES (?1) ON CONFLICT DO NOTHING", id.ID)
	if err != nil {
		return false, err
	}
	n, err := done.RowsAffected()
	return n == 0, err
}

// TestBesideATableInTheFile checks an application's own table in the same file. A message that is in this
// table is marked and not handled. A handled or refused message is in this table and has a mark. A failed
// message has neither until it is done.
func TestBesideATableInTheFile(t *testing.T) {
	w := newStation(t,
		`CREATE TABLE processed (id TEXT PRIMARY KEY, at TEXT NOT NULL DEFAULT CURRENT_TIMESTAMP) STRICT;
		CREATE TABLE effect (id TEXT NOT NULL, kind TEXT NOT NULL) STRICT`)
	fails := true
	inbox.On(w.in, skald.Event[string]{Topic: "orders", Type: "told"},
		func(ctx context.Context, tx *sql.Tx, m skald.Received[string]) error {
			_, err := tx.ExecContext(ctx, "INSERT INTO effect VALUES (?1, 'new')", m.ID)
			switch {
			case m.Value == "fails" && fails:
				err = errors.Join(err, errors.New("not yet"))
			case m.Value == "refused":
				err = errors.Join(err, skald.Reject(errors.New("out of stock")))
			}
			return err
		})
	w.in.LegacyDedup(processed)
	byHand := func(id string) {
		w.exec("INSERT INTO processed (id) VALUES (?1)", id)
		w.exec("INSERT INTO effect VALUES (?1, 'old')", id)
	}
	const (
		beside  = "SELECT coalesce(group_concat(id, ' ' ORDER BY id), '') FROM processed"
		marked  = "SELECT coalesce(group_concat(key || ' ' || status, ', ' ORDER BY key), '') FROM skald_keys"
		effects = "SELECT coalesce(group_concat(id || ' ' || kind, ', ' ORDER BY id, kind), '') FROM effect"
		kept    = "SELECT coalesce(group_concat(id, ' ' ORDER BY id), '') FROM skald_parked"
	)
	byHand("a-seen")
	all := []skald.Message{order("a-seen", "k", "x"), order("b-fresh", "k", "x"),
		order("c-fails", "f", "fails"), order("d-fails", "g", "fails"),
		order("e-refused", "k", "refused")}
	w.takes(append(all, all...)...)
	w.wants(effects, "a-seen old, b-fresh new")
	w.wants(beside, "a-seen b-fresh e-refused")
	w.wants(marked, "a-seen done, b-fresh done, e-refused rejected")
	w.wants(kept, "c-fails d-fails")
	if h := w.in.Health(); h.Handled != 1 || h.Rejected != 1 || h.Failures != 2 || h.Unacknowledged != 0 {
		t.Errorf("%+v", h)
	}
	byHand("c-fails") // by a consumer that owns its partition for a while
	fails = false
	w.due()
	w.takes(all...)
	w.wants(effects, "a-seen old, b-fresh new, c-fails old, d-fails new")
	w.wants(beside, "a-seen b-fresh c-fails d-fails e-refused")
	w.wants(marked, "a-seen done, b-fresh done, c-fails done, d-fails done, e-refused rejected")
	w.wants(kept, "")
}
