package sqlitestore

import (
	"context"
	"database/sql"
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"github.com/skald-go/skald/store"
)

// hostileFile creates a new file with Skald's tables.
func hostileFile(t *testing.T) (*sql.DB, *Store) {
	t.Helper()
	db, err := Open(filepath.Join(t.TempDir(), "skald.db"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	if _, err := Migrate(t.Context(), db, nil); err != nil {
		t.Fatal(err)
	}
	return db, New(db, nil)
}

// TestRowsThatSQLReadsInPart checks that text with a NUL and a sequence number of the writer are refused,
// and that accepted rows can be read.
func TestRowsThatSQLReadsInPart(t *testing.T) {
	db, s := hostileFile(t)
	for values, limit := range map[string]string{
		`(topic, type, headers) VALUES ('t', 'x', '[["h","YWJj\u0000!!!!"]]')`:                          "skald_outbox_headers",
		`(topic, type, headers) VALUES ('t', 'x', '[["h\u0000 h","YWJj"]]')`:                            "skald_outbox_headers",
		`(topic, type, headers) VALUES ('t', 'x', '[["h","YWJj' || char(0) || '"]]')`:                   "skald_outbox_headers",
		`(topic, type, headers) VALUES ('t', 'x', '[["h","\u0000' || hex(randomblob(400000)) || '"]]')`: "skald_outbox_sizes",
		`(topic, type) VALUES ('t' || char(0) || ' no topic', 'x')`:                                     "skald_outbox_text",
		`(topic, type, subject) VALUES ('t', 'x', 'a' || char(0) || char(10))`:                          "skald_outbox_text",
		`(topic, type, key) VALUES ('t', 'x', 'a' || char(0))`:                                          "skald_outbox_text",
		`(seq, topic, type) VALUES (0, 't', 'x')`:                                                       "skald_outbox_seq",
		`(seq, topic, type) VALUES (-1, 't', 'x')`:                                                      "skald_outbox_seq",
		`(seq, topic, type) VALUES (-7, 't', 'x')`:                                                      "skald_outbox_seq",
		`(seq, topic, type) VALUES (9223372036854775807, 't', 'x')`:                                     "skald_outbox_seq",
		`(topic, type, time) VALUES ('t', 'x', 'garbage')`:                                              "skald_outbox_time",
		`(topic, type, time) VALUES ('t', 'x', '')`:                                                     "skald_outbox_time",
		`(topic, type, time) VALUES ('t', 'x', '1764000000')`:                                           "skald_outbox_time",
		`(topic, type, time) VALUES ('t', 'x', '2026-11-27')`:                                           "skald_outbox_time",
		`(topic, type, time) VALUES ('t', 'x', '2026-13-27T10:00:00Z')`:                                 "skald_outbox_time",
		`(topic, type, time) VALUES ('t', 'x', '0000-01-01T00:00:00Z')`:                                 "skald_outbox_time",
		`(topic, type, time) VALUES ('t', 'x', '10000-01-01T00:00:00Z')`:                                "skald_outbox_time",
		`(topic, type, time) VALUES ('t', 'x', '2026-11-27 10:00:00 +01:00')`:                           "skald_outbox_time",
		`(topic, type, time) VALUES ('t', 'x', '2026-11-27 10:00:00.123456789+01:00')`:                  "",
		`(topic, type, headers) WITH RECURSIVE n(i) AS (VALUES (1) UNION ALL SELECT i + 1 FROM n WHERE i < 1025) SELECT 't', 'x', json_group_array(json_array('h', '')) FROM n`: "skald_outbox_headers",
		`(seq, topic, type) VALUES (NULL, 't', 'x')`:                                                       "",
		`(topic, type, data, headers) VALUES ('t', 'x', 'a' || char(0) || 'b', '[["h","YWJj"],["i",""]]')`: "",
	} {
		_, err := db.Exec("INSERT INTO skald_outbox " + values)
		if (limit == "") != (err == nil) || limit != "" &&
			(!strings.Contains(err.Error(), limit) || s.Outage(err)) {
			t.Errorf("%s: %v, want %q", values, err, limit)
		}
	}
	// SQLite accepts a date that does not exist; a relay defers the row.
	if _, err := db.Exec("INSERT INTO skald_outbox (topic, type, time) " +
		"VALUES ('t', 'x', '2026-02-30T10:00:00Z')"); err != nil {
		t.Fatal(err)
	}
	tip, err := store.Snapshot(t.Context(), s, "")
	if err != nil {
		t.Fatal(err)
	}
	page, err := s.Pull(t.Context(), store.Window{Tip: tip}, 10)
	if err != nil || len(page.Rows) != 4 || page.Rows[0].Fault+page.Rows[1].Fault+page.Rows[2].Fault != "" ||
		!strings.Contains(page.Rows[3].Fault, "2026-02-30T10:00:00Z") {
		t.Errorf("%d rows, %v", len(page.Rows), err)
	}
}

// TestRowsThatCannotBeRead checks that an unreadable row has a Fault, and that other rows are not affected.
// It checks the same for parked messages.
func TestRowsThatCannotBeRead(t *testing.T) {
	db, s := hostileFile(t)
	ctx := t.Context()
	m := message("t", "k")
	keep := store.Park{Parked: store.Parked{Consumer: "c", Identity: store.Identity{Source: "/x", ID: m.ID},
		Message: m, Attempts: 1}}
	if _, err := s.Apply(ctx, store.Effect{Park: &keep}); err != nil {
		t.Fatal(err)
	}
	for _, sql := range []string{`DROP TRIGGER skald_outbox_headers`,
		`INSERT INTO skald_outbox (topic, type) VALUES ('t', 'good')`,
		`INSERT INTO skald_outbox (topic, type, headers) VALUES ('t', 'bad', '[["h","YWJj\u0000!!!!"]]')`,
		`UPDATE skald_parked SET envelope = x'7b'`} {
		if _, err := db.Exec(sql); err != nil {
			t.Fatal(err)
		}
	}
	tip, err := store.Snapshot(ctx, s, "")
	if err != nil {
		t.Fatal(err)
	}
	page, err := s.Pull(ctx, store.Window{Tip: tip}, 10)
	if err != nil || len(page.Rows) != 2 || (page.Rows[0].Fault == "") != (page.Rows[0].Type == "good") ||
		(page.Rows[1].Fault == "") != (page.Rows[1].Type == "good") {
		t.Errorf("%+v, %v", page.Rows, err)
	}
	got, err := s.Claim(ctx, store.ClaimRequest{Consumer: "c", Session: "life",
		ClaimSize: store.ClaimSize{Keys: 9},
		Lease:     0})
	if err != nil || len(got.Parked) != 1 || got.Parked[0].Fault == "" || got.Parked[0].Message.ID != m.ID {
		t.Errorf("claimed are %+v, %v", got.Parked, err)
	}
}

// TestWhatAHandlerLeavesBehind checks that settings which a handler changed on its connection do not affect
// later users.
func TestWhatAHandlerLeavesBehind(t *testing.T) {
	for _, left := range []string{"ROLLBACK; BEGIN", "ROLLBACK; BEGIN; CREATE TABLE mine (x)",
		"PRAGMA query_only = on", "pragma\nforeign_keys = off; PRAGMA ignore_check_constraints = on"} {
		t.Run(left, func(t *testing.T) {
			db, s := hostileFile(t)
			db.SetMaxOpenConns(1)
			ctx := context.Background()
			u, err := s.Begin(ctx, store.Intake{Marks: []store.Mark{markOf("1")}})
			if err != nil {
				t.Fatal(err)
			}
			if _, err := u.Tx().ExecContext(ctx, left); err != nil {
				t.Fatal(err)
			}
			if err := u.Commit(ctx); err == nil && strings.Contains(left, "ROLLBACK") {
				t.Error("it is committed")
			}
			u, err = s.Begin(ctx, store.Intake{Marks: []store.Mark{markOf("2")}})
			if err != nil {
				t.Fatalf("the next cannot begin: %v", err)
			}
			if err := u.Commit(ctx); err != nil {
				t.Errorf("the next cannot commit: %v", err)
			}
			var set, mine int
			err = db.QueryRow("SELECT (SELECT query_only FROM pragma_query_only) + 1 - (SELECT foreign_keys FROM pragma_foreign_keys), (SELECT count(*) FROM sqlite_schema WHERE name = 'mine')").Scan(&set, &mine)
			if err != nil || set != 0 || mine != 0 {
				t.Errorf("%d settings and %d tables of it are left, %v", set, mine, err)
			}
		})
	}
}

// TestTemporaryObjectOfAHandler checks that a temporary object of a handler hides no table from later users.
func TestTemporaryObjectOfAHandler(t *testing.T) {
	for _, left := range []string{"CREATE TEMP TABLE orders (id)", "CREATE TABLE temp.orders (id)",
		"CREATE TEMP TRIGGER copies AFTER INSERT ON skald_commit_guard BEGIN SELECT 1; END",
		"CREATE TEMPORARY VIEW orders AS SELECT 1 AS id"} {
		t.Run(left, func(t *testing.T) {
			db, s := hostileFile(t)
			db.SetMaxOpenConns(1)
			ctx := context.Background()
			u, err := s.Begin(ctx, store.Intake{Marks: []store.Mark{markOf("1")}})
			if err != nil {
				t.Fatal(err)
			}
			if _, err := u.Tx().ExecContext(ctx, left); err != nil {
				t.Fatal(err)
			}
			if err := u.Usable(ctx); !errors.Is(err, store.ErrUnshared) {
				t.Errorf("the next function may use the transaction: %v", err)
			}
			if err := u.Commit(ctx); err != nil {
				t.Fatal(err)
			}
			var n int
			if err := db.QueryRow("SELECT count(*) FROM sqlite_temp_master").Scan(&n); err != nil || n != 0 {
				t.Errorf("%d temporary objects are left, %v", n, err)
			}
		})
	}
}
