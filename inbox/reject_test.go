package inbox_test

import (
	"context"
	"database/sql"
	"errors"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/failure"
	"github.com/skald-go/skald/inbox"
	"github.com/skald-go/skald/store"
	"github.com/skald-go/skald/store/sqlitestore"
)

// A rejection is stored as a dead letter, too. The message stays rejected and duplicates get the same
// answer, the rejection is published once, and its key continues.
func TestRejectionIsADeadLetterByOption(t *testing.T) {
	for _, holds := range []bool{false, true} {
		w := newWorld(t, 1)
		fails := 1
		in := inbox.New(w.db, w.bus, "stock", &inbox.Options{Now: w.clock,
			Dead:     inbox.Dead{Rejections: true, RejectionsHold: holds, Topic: "dead"},
			Logger:   slog.New(slog.DiscardHandler),
			Identity: inbox.Identity{Repeat: func(skald.Message) bool { return true }}})
		inbox.OnResult(in, said,
			func(_ context.Context, tx tx, m skald.Received[string]) (inbox.Result, error) {
				switch {
				case m.Value == "late" && fails > 0:
					fails--
					return inbox.Result{}, errors.New("not yet")
				case m.Value == "no" || m.Value == "late":
					return inbox.Result{Code: 409}, skald.Reject(errors.New("out of stock"),
						skald.Event[string]{Topic: "answers", Type: "short"}.New("k", m.Value))
				}
				return inbox.Result{}, note(tx, string(m.Key), m.Value)
			})
		no := w.message("k", "no")
		w.publish(no, w.message("k", "1"), w.message("l", "late"))
		w.quiet(in)
		w.pass(time.Minute)
		w.quiet(in)
		dead := w.dead()
		if len(dead) != 2 || dead[0].ID != no.ID || dead[0].Dead.Kind != "rejected" ||
			dead[0].Dead.BlocksKey != holds || len(dead[0].Dead.Fingerprint) != 12 ||
			dead[0].Last.Why != "rejected with code 409: out of stock" ||
			string(dead[0].Message.Data) != `"no"` {
			t.Fatalf("dead letters %+v", dead)
		}
		if holds {
			w.expect("k", "")
		} else {
			w.expect("k", "1")
		}
		if h := in.Health(); h.Rejected != 2 || h.Dead != 2 {
			t.Errorf("health %+v", h)
		}
		topics := func() (list []string) {
			for _, r := range w.db.Rows() {
				list = append(list, r.Topic)
			}
			return list
		}
		if got := strings.Join(topics(), " "); got != "answers dead answers dead" {
			t.Errorf("said %s", got)
		}
		w.publish(no)
		w.quiet(in)
		if got := strings.Join(topics(), " "); got != "answers dead answers dead answers" {
			// the same answer again
			t.Errorf("after a duplicate %s", got)
		}
		// After a drop the dead letter is gone, but the message stays rejected.
		w.apply(store.Effect{Finish: &store.Finish{Consumer: "stock", Identity: dead[0].Identity}})
		w.pass(10 * time.Second)
		w.quiet(in)
		w.expect("k", "1")
		v, err := w.db.Seen(t.Context(), "stock", []store.Identity{dead[0].Identity})
		if err != nil || v[0].Outcome != store.Rejected || v[0].Code != 409 || v[0].Reason != "out of stock" {
			t.Errorf("its mark is %+v, %v", v, err)
		}
	}
}

// The user can rename the headers of a copy.
func TestDeadHeadersAreMapped(t *testing.T) {
	w := newWorld(t, 1)
	in := w.inbox(&inbox.Options{Now: w.clock, Dead: inbox.Dead{Topic: "dead", Copy: true,
		Headers: map[string]string{"x-attempt": "retries", "x-original-id": ""}}},
		func(context.Context, tx, skald.Received[string]) error {
			return skald.Permanent(
				errors.New("never"))
		})
	m := w.message("k", "x")
	m.Headers = []skald.Header{{Name: "retries", Value: []byte("7")}, {Name: "own", Value: []byte("7")}}
	w.publish(m)
	w.quiet(in)
	var names []string
	for _, h := range w.db.Rows()[0].Headers {
		names = append(names, h.Name+"="+string(h.Value))
	}
	got := strings.Join(names, " ")
	if !strings.HasPrefix(got, "own=7 retries=1 x-failed-reason=") ||
		strings.Contains(got, "x-original-id") || !strings.Contains(got, "x-original-topic=orders") {
		t.Errorf("headers %s", got)
	}
}

// A unique violation of the user's own is recognized by its code, with any driver.
func TestViolationIs(t *testing.T) {
	db, err := sqlitestore.Open(filepath.Join(t.TempDir(), "v.db"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	exec := func(q string) error { _, err := db.ExecContext(t.Context(), q); return err }
	if err := exec("CREATE TABLE payments (order_id TEXT PRIMARY KEY, parcel TEXT UNIQUE, cents INTEGER CHECK (cents > 0)) STRICT; INSERT INTO payments VALUES ('7', 'a', 1)"); err != nil {
		t.Fatal(err)
	}
	is := failure.ViolationIs(failure.Permanent)
	for name, c := range map[string]struct {
		err  error
		want failure.Class
	}{
		"a primary key of SQLite":   {exec("INSERT INTO payments VALUES ('7', 'b', 1)"), failure.Permanent},
		"a unique column of SQLite": {exec("INSERT INTO payments VALUES ('8', 'a', 1)"), failure.Permanent},
		"a check of SQLite":         {exec("INSERT INTO payments VALUES ('8', 'b', 0)"), ""},
		"a unique key of PostgreSQL": {errors.Join(sql.ErrTxDone, &pgconn.PgError{Code: "23505"}),
			failure.Permanent},
		"a foreign key of PostgreSQL": {&pgconn.PgError{Code: "23503"}, ""},
		"anything else":               {errors.New("no"), ""},
	} {
		if got := is(skald.Message{}, c.err); c.err == nil || got != c.want {
			t.Errorf("%s: %v is %q, want %q", name, c.err, got, c.want)
		}
	}
}
