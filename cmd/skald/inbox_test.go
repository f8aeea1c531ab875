package main_test

import (
	"encoding/json"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/internal/uuid7"
	"github.com/skald-go/skald/store"
	"github.com/skald-go/skald/store/sqlitestore"
)

// What is in quarantine is listed, shown, and admitted by filter, after a look, with a reason that is noted.
func TestInbox(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "i.db")
	at := "--store=sqlite:" + path
	start(t, nil, "inbox").expect(2, "Available Commands", "admit")
	start(t, nil, "inbox", "status", at).expect(4, "skald migrate")
	db, err := sqlitestore.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	if _, err := sqlitestore.Migrate(t.Context(), db, nil); err != nil {
		t.Fatal(err)
	}
	s := sqlitestore.New(db, nil)
	mark := store.Mark{Consumer: "stock", Identity: store.Identity{Source: "/o", ID: "7"}, As: store.Rejected, Reason: "out of stock", Code: 409, Result: `{"left":0}`, Fingerprint: 1 << 60}
	es := []store.Effect{{Mark: &mark}}
	for i, why := range []store.Outcome{store.Conflict, store.Conflict, store.TooOld} {
		m := skald.Message{ID: []string{"7", "8", "9"}[i], Source: "/o", Topic: "orders", Type: "placed", Data: []byte(`{"n":1}`)}
		es = append(es, store.Effect{Quarantine: &store.Quarantined{Consumer: "stock", Identity: store.Identity{Source: "/o", ID: m.ID}, Fingerprint: 3, Why: why, Message: m}})
	}
	if _, err := s.Apply(t.Context(), es...); err != nil {
		t.Fatal(err)
	}
	says := func(want []string, args ...string) string {
		t.Helper()
		p := start(t, []string{"USER=ann"}, append([]string{"inbox"}, append(args, at)...)...)
		p.expect(0)
		text := p.out.String()
		for _, w := range want {
			if !strings.Contains(text, w) {
				t.Errorf("%v: no %q in\n%s", args, w, text)
			}
		}
		return text
	}
	says([]string{"stock", "conflict", "too old"}, "status")
	var status struct {
		Quarantine []struct {
			Consumer, Why     string
			Waiting, Admitted int
		}
	}
	look := func() {
		t.Helper()
		status.Quarantine = nil
		if err := json.Unmarshal([]byte(says(nil, "status", "--json")), &status); err != nil {
			t.Fatal(err)
		}
	}
	if look(); len(status.Quarantine) != 2 || status.Quarantine[0].Waiting != 2 || status.Quarantine[1].Why != "too old" {
		t.Errorf("%+v", status)
	}
	says([]string{"rejected", "out of stock", "409", `{"left":0}`, "quarantine 1", "waits"}, "show", "7", "--consumer", "stock", "--source", "/o")
	says([]string{`"status":"unknown"`, `"why":"conflict"`}, "show", "8", "--consumer", "stock", "--source", "/o", "--json")
	start(t, nil, "inbox", "show", "7", at).expect(2, "--consumer")
	start(t, nil, "inbox", "admit", at, "--reason", "x").expect(2, "which messages")
	start(t, nil, "inbox", "admit", at, "--all").expect(2, "--reason")
	start(t, nil, "inbox", "admit", at, "--why", "odd", "--reason", "x").expect(2, "conflict or too-old")
	start(t, nil, "inbox", "admit", at, "--why", "conflict", "--reason", "x").expect(2, "--yes")
	says([]string{"orders", "7", "8"}, "admit", "--why", "conflict", "--dry-run")
	if look(); status.Quarantine[0].Admitted != 0 {
		t.Errorf("behind a dry run: %+v", status)
	}
	says([]string{"2 messages"}, "admit", "--why", "conflict", "--reason", "both are meant", "--yes")
	says([]string{`"chosen":0`}, "admit", "--why", "conflict", "--reason", "again", "--yes", "--json")
	says([]string{`"admitted":1`}, "admit", "--number", "3", "--reason", "replayed", "--json")
	if look(); status.Quarantine[0].Admitted != 2 || status.Quarantine[1].Admitted != 1 {
		t.Errorf("admitted: %+v", status)
	}
	says([]string{"admitted by ann: both are meant"}, "show", "7", "--consumer", "stock", "--source", "/o")
}

func TestMaintain(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "m.db")
	db, err := sqlitestore.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	if _, err := sqlitestore.Migrate(t.Context(), db, nil); err != nil {
		t.Fatal(err)
	}
	mark := store.Mark{Consumer: "stock", Identity: store.Identity{Source: "/o", ID: uuid7.New(time.Now().AddDate(0, 0, -33))}, As: store.Done}
	if _, err := sqlitestore.New(db, nil).Apply(t.Context(), store.Effect{Mark: &mark}); err != nil {
		t.Fatal(err)
	}
	at := []string{"maintain", "--json", "--store", "sqlite:" + path}
	maintain := func(marks int64, before time.Duration, args ...string) {
		t.Helper()
		p := start(t, nil, append(at[:len(at):len(at)], args...)...)
		p.expect(0)
		var got struct {
			DryRun             bool `json:"dry_run"`
			Before             struct{ Marks float64 }
			Rows, Marks, Steps int64
			Left               []string
		}
		err := json.Unmarshal([]byte(p.out.String()), &got)
		if err != nil || got.Marks != marks || got.Rows+got.Steps != 0 || len(got.Left) > 0 || got.Before.Marks != before.Seconds() || got.DryRun == slices.Contains(args, "--reason=test") {
			t.Errorf("maintain %v says %s: %v", args, &p.out, err)
		}
	}
	const days = 24 * time.Hour
	start(t, nil, at...).expect(2, "--reason")
	maintain(0, 0, "--dry-run")
	maintain(0, 0, "--reason=test") // a consumer that it meets now may still be reading what is older
	if _, err := db.Exec("UPDATE skald_floor SET since = since - 40 * 86400000"); err != nil {
		t.Fatal(err)
	}
	maintain(0, 30*days, "--reason=test", "--keep-marks", "960h")
	maintain(1, 40*days, "--dry-run")                                                                    // that would go
	start(t, nil, append(at[:len(at):len(at)], "--reason=test")...).expect(2, "marks 960h0m0s", "--yes") // less is to be kept
	maintain(1, 40*days, "--reason=test", "--by=ann", "--yes")
	var noted, who string
	if err := db.QueryRow("SELECT count(*) || ' ' || max(id), max(who) FROM skald_audit WHERE what = 'maintain' AND why = 'test' GROUP BY what").Scan(&noted, &who); err != nil ||
		noted != "3 rows 168h0m0s, marks 960h0m0s, steps 2160h0m0s" || who == "" {
		t.Errorf("noted is %q by %q: %v", noted, who, err)
	}
	p := start(t, nil, "maintain", "--store", "sqlite:"+path, "--dry-run", "--keep-marks", "480h")
	if p.expect(0); !strings.Contains(p.out.String(), "480h0m0s       720h0m0s") {
		t.Errorf("a dry run says\n%s", &p.out)
	}
	start(t, nil, "maintain", "--store", "sqlite:"+path, "--reason=test", "--keep-marks", "1h").expect(2, "marks")
}
