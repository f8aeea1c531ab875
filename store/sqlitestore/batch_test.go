package sqlitestore

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/broker/membroker"
	"github.com/skald-go/skald/inbox"
)

// station is an inbox on a file with tables of the application, and its clock.
type station struct {
	t   *testing.T
	db  *sql.DB
	bus *membroker.Broker
	in  *inbox.Inbox[*sql.Tx]
	now time.Time
}

// newStation returns a station with these tables.
func newStation(t *testing.T, tables string) *station {
	t.Helper()
	store, db, _ := fresh(t)
	w := &station{t: t, db: db, bus: membroker.New(nil), now: time.Now()}
	w.exec(tables)
	if err := w.bus.MakeTopics(t.Context(), 1, "orders"); err != nil {
		t.Fatal(err)
	}
	// A failed message is due in an hour, so no machine is too slow before the test moves the clock.
	w.in = inbox.New(store, w.bus, "stock", &inbox.Options{Now: func() time.Time { return w.now }, Workers: 1,
		Batch: 100, Retry: inbox.Retry{InitialInterval: time.Hour, MaxInterval: time.Hour},
		Logger: slog.New(slog.DiscardHandler)})
	return w
}

func (w *station) exec(q string, args ...any) {
	w.t.Helper()
	if _, err := w.db.ExecContext(w.t.Context(), q, args...); err != nil {
		w.t.Fatalf("%s: %v", q, err)
	}
}

// wants compares the text result of a query.
func (w *station) wants(q, want string) {
	w.t.Helper()
	var got string
	if err := w.db.QueryRowContext(w.t.Context(), q).Scan(&got); err != nil || got != want {
		w.t.Errorf("%s: %q, %v; want %q", q, got, err, want)
	}
}

// takes publishes ms and steps until there is no more work.
func (w *station) takes(ms ...skald.Message) {
	w.t.Helper()
	if err := w.bus.Publish(w.t.Context(), ms).Wait(w.t.Context()); err != nil {
		w.t.Fatal(err)
	}
	for busy := true; busy; {
		var err error
		if busy, err = w.in.Step(w.t.Context()); err != nil {
			w.t.Fatal(err)
		}
	}
}

// due makes parked messages due, because the file has its own clock.
func (w *station) due() {
	w.t.Helper()
	w.exec("UPDATE skald_parked SET due = due - 7200000")
	w.now = w.now.Add(2 * time.Hour)
}

func order(id, key, what string) skald.Message {
	return skald.Message{ID: id, Source: "/other", Type: "told", Topic: "orders", Key: []byte(key),
		Data: fmt.Appendf(nil, "%q", what)}
}

// teller is a batch handler that writes all messages with one statement, and returns the guilty messages.
type teller struct {
	bad   bool
	sizes []int
}

func (h *teller) told(ctx context.Context, tx *sql.Tx, ms []skald.Received[string]) error {
	h.sizes = append(h.sizes, len(ms))
	var all []map[string]string
	var guilty error
	for i, m := range ms {
		all = append(all, map[string]string{"id": m.ID, "key": string(m.Key)})
		switch {
		case m.Value == "bad" && h.bad && guilty == nil:
			guilty = inbox.FailMessage(i, errors.New("no such article"))
		case m.Value == "refused" && guilty == nil:
			guilty = inbox.FailMessage(i, skald.Reject(errors.New("out of stock")))
		}
	}
	text, err := json.Marshal(all)
	if err != nil {
		return err
	}
	// A message is written before the handler detects that it is guilty, so only a rollback removes it.
	var batch int64
	if err := tx.QueryRowContext(ctx, "INSERT INTO batch (size) VALUES (?1) RETURNING id",
		len(ms)).Scan(&batch); err != nil {
		return err
	}
	_, err = tx.ExecContext(ctx,
		"INSERT INTO told (id, key, batch) SELECT value ->> 'id', value ->> 'key', ?2 FROM json_each(?1)",
		string(text), batch)
	return errors.Join(err, guilty)
}

// TestBatchHandler checks that a batch handler has all its messages in one transaction, without repeats. A
// message that it reports as guilty is parked or rejected; the effects of the others exist once.
// Interleaving 14.
func TestBatchHandler(t *testing.T) {
	w := newStation(t,
		`CREATE TABLE batch (id INTEGER PRIMARY KEY AUTOINCREMENT, size INTEGER NOT NULL) STRICT;
		CREATE TABLE told (nth INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT NOT NULL, key TEXT NOT NULL, batch INTEGER NOT NULL REFERENCES batch (id)) STRICT`)
	h := &teller{bad: true}
	inbox.OnBatch(w.in, skald.Event[string]{Topic: "orders", Type: "told"}, h.told)
	var all []skald.Message
	for n := range 20 {
		what, key := "good", fmt.Sprint("k", n%4)
		switch n {
		case 7:
			what, key = "bad", "b"
		case 12:
			what = "refused"
		case 15:
			key = "b" // waits for the bad one
		}
		all = append(all, order(fmt.Sprintf("m-%02d", n), key, what))
	}
	w.takes(append(all, all[:10]...)...) // some of them twice in a batch
	const told = "SELECT coalesce(group_concat(substr(id, 3), ' ' ORDER BY nth), '') FROM told WHERE key = "
	w.wants(told+"'k0'", "00 04 08 16")
	w.wants(told+"'k1'", "01 05 09 13 17")
	w.wants(told+"'k2'", "02 06 10 14 18")
	w.wants(told+"'k3'", "03 11 19")
	w.wants(told+"'b'", "")
	w.wants("SELECT count(*) || ' ' || count(DISTINCT id) FROM told", "17 17")
	// all of it, or nothing
	w.wants("SELECT count(*) FROM batch AS b WHERE size <> (SELECT count(*) FROM told WHERE batch = b.id)",
		"0")
	w.wants("SELECT sum(size) || ' ' || (max(size) >= 10) FROM batch", "17 1")
	w.wants("SELECT group_concat(id || ' ' || attempts || ' ' || waiting || ' ' || (last_error LIKE '%no such article%'), ', ' ORDER BY place) FROM skald_parked", "m-07 1 0 1, m-15 0 1 0")
	w.wants("SELECT group_concat(key || ' ' || status || ' ' || coalesce(reason, ''), ', ') FROM skald_keys WHERE status <> 'done'", "m-12 rejected out of stock")
	w.wants("SELECT count(*) FROM skald_keys WHERE status = 'done' AND key IN (SELECT id FROM told)", "17")
	if got := w.in.Health(); got.Handled != 17 || got.Rejected != 1 || got.Failures != 1 ||
		got.Unacknowledged != 0 {
		t.Errorf("%+v behind batches of %v", got, h.sizes)
	}
	h.bad = false
	w.due()
	w.takes(all...)
	w.wants(told+"'b'", "07 15")
	w.wants("SELECT count(*) || ' ' || count(DISTINCT id) FROM told", "19 19")
	w.wants("SELECT count(*) FROM skald_parked", "0")
	w.wants("SELECT count(*) FROM skald_keys WHERE status = 'done'", "19")
	if h.sizes[0] != 20 {
		t.Errorf("the handler ran with %v messages", h.sizes)
	}
}
