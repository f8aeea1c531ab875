package main_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/inbox"
	"github.com/skald-go/skald/internal/uuid7"
	"github.com/skald-go/skald/store"
)

// What is in quarantine is listed, shown, and admitted by filter, after a look, with a reason that is noted.
func TestInbox(t *testing.T) { onEachStore(t, testInbox) }

func testInbox(t *testing.T, fresh func(*testing.T) *bed) {
	b := fresh(t)
	at := "--store=" + b.at
	start(t, nil, "inbox").expect(2, "Available Commands", "admit")
	start(t, nil, "inbox", "status", at).expect(b.none, "skald migrate")
	b.migrate()
	quarantined(t, b)
	says := func(want []string, args ...string) string {
		t.Helper()
		p := start(t, nil, append([]string{"inbox"}, append(args, at)...)...)
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
	if look(); len(status.Quarantine) != 2 || status.Quarantine[0].Waiting != 2 ||
		status.Quarantine[1].Why != "too old" {
		t.Errorf("%+v", status)
	}
	says([]string{"rejected", "out of stock", "409", `{"left":0}`, "quarantine 1", "waits"}, "show", "7",
		"--consumer", "stock", "--source", "/o")
	says([]string{`"status":"unknown"`, `"why":"conflict"`}, "show", "8", "--consumer", "stock", "--source",
		"/o", "--json")
	start(t, nil, "inbox", "show", "7", at).expect(2, "--consumer")
	start(t, nil, "inbox", "admit", at, "--reason", "x").expect(2, "which messages")
	start(t, nil, "inbox", "admit", at, "--all").expect(2, "--reason")
	start(t, nil, "inbox", "admit", at, "--why", "odd", "--reason", "x").expect(2, "conflict or too-old")
	start(t, nil, "inbox", "admit", at, "--why", "conflict", "--reason", "x").expect(2, "--yes")
	says([]string{"orders", "7", "8"}, "admit", "--why", "conflict", "--dry-run")
	if look(); status.Quarantine[0].Admitted != 0 {
		t.Errorf("behind a dry run: %+v", status)
	}
	says([]string{"2 messages"}, "admit", "--why", "conflict", "--reason", "both are meant", "--by",
		"ann", "--yes")
	says([]string{`"chosen":0`}, "admit", "--why", "conflict", "--reason", "again", "--yes", "--json")
	says([]string{"admitted already"}, "admit", "--why", "conflict", "--reason", "again", "--yes")
	says([]string{`"admitted":1`}, "admit", "--number", "3", "--reason", "replayed", "--by", "ann", "--json")
	if look(); status.Quarantine[0].Admitted != 2 || status.Quarantine[1].Admitted != 1 {
		t.Errorf("admitted: %+v", status)
	}
	says([]string{"admitted by ann: both are meant"}, "show", "7", "--consumer", "stock", "--source", "/o")
	b.run(b.bus("orders"), "stock", "orders", "placed", inbox.Options{}, nil)
	until(t, "what was admitted is taken", func() bool {
		return b.count("taken") == 3 && b.count("skald_quarantine WHERE taken_at IS NOT NULL") == 3
	})
	if took := strings.Fields(b.taken()); len(slices.Compact(slices.Sorted(slices.Values(took)))) != 3 {
		t.Errorf("taken are %s", took)
	}
	if why := text(t, b.db,
		"SELECT string_agg(admitted_by || ' ' || reason, ', ' ORDER BY number) FROM skald_quarantine"); why != "ann both are meant, ann both are meant, ann replayed" {
		t.Errorf("noted is %s", why)
	}
	if look(); len(status.Quarantine) != 0 {
		t.Errorf("behind it: %+v", status)
	}
	start(t, nil, "inbox", "admit", at, "--all", "--reason", "x").expect(0,
		"no message in quarantine is selected")
}

// quarantined are two in conflict and one that is too old; what the first of them is in conflict with was
// rejected.
func quarantined(t *testing.T, b *bed) {
	t.Helper()
	mark := store.Mark{Consumer: "stock", Identity: store.Identity{Source: "/o", ID: "7"},
		Outcome: store.Rejected,
		Reason:  "out of stock", Code: 409, Result: `{"left":0}`, Fingerprint: 1 << 60}
	es := []store.Effect{{Mark: &mark}}
	for i, why := range []store.Outcome{store.Conflict, store.Conflict, store.TooOld} {
		m := skald.Message{ID: []string{"7", "8", "9"}[i], Source: "/o", Topic: "orders", Type: "placed",
			Data: []byte(`{"n":1}`)}
		es = append(es, store.Effect{Quarantine: &store.Quarantined{Consumer: "stock",
			Identity: store.Identity{Source: "/o", ID: m.ID}, Fingerprint: 3, Why: why, Message: m}})
	}
	_, err := b.s.Apply(t.Context(), es...)
	must(t, err)
}

// Marks go when somebody has said so with a reason, by when they came; what comes again then is not taken
// twice.
func TestMaintain(t *testing.T) { onEachStore(t, testMaintain) }

func testMaintain(t *testing.T, fresh func(*testing.T) *bed) {
	b := fresh(t).migrate()
	bus := b.bus("orders")
	m := skald.Message{ID: uuid7.New(time.Now().AddDate(0, 0, -25)), Source: "/o", Topic: "orders",
		Type: "placed", Data: []byte("1")}
	b.run(bus, "stock", "orders", "placed", inbox.Options{}, nil)
	must(t, bus.Publish(t.Context(), []skald.Message{m}).Wait(t.Context()))
	until(t, "it is taken", func() bool { return b.count("skald_mark") == 1 })
	at := []string{"maintain", "--json", "--store", b.at}
	maintain := func(marks int64, before time.Duration, args ...string) {
		t.Helper()
		type result struct {
			DryRun             bool `json:"dry_run"`
			Before             struct{ Marks float64 }
			Rows, Marks, Steps int64
			Left               []string
		}
		var all []result
		until(t, "it had all that it needs", func() bool { // a table in use it leaves for the next time
			p := start(t, nil, append(at[:len(at):len(at)], args...)...)
			p.expect(0)
			var got result
			must(t, json.Unmarshal([]byte(p.out.String()), &got))
			all = append(all, got)
			return len(got.Left) == 0
		})
		var went int64
		for _, got := range all {
			if went += got.Marks; got.DryRun {
				went = got.Marks
			}
			if got.Rows+got.Steps != 0 || got.DryRun == slices.Contains(args, "--reason=test") {
				t.Errorf("maintain %v says %+v", args, got)
			}
		}
		if went != marks || all[0].Before.Marks != before.Seconds() {
			// behind the first it is what that has noted
			t.Errorf("maintain %v says %+v", args, all)
		}
	}
	const days = 24 * time.Hour
	start(t, nil, at...).expect(2, "--reason")
	maintain(0, 0, "--dry-run", "--keep-marks=648h")
	maintain(0, 0, "--reason=test", "--keep-marks=648h")
	b.exec("UPDATE skald_mark SET " + b.goesBy + " = " + b.goesBy + " - 22 * " + b.day)
	maintain(0, 27*days, "--reason=test")
	short := "--keep-marks=480h"
	// that would go
	maintain(1, 30*days, "--dry-run", short)
	// less is to be kept
	start(t, nil, append(at[:len(at):len(at)], "--reason=test", short)...).expect(2,
		"marks 30 days", "--yes")
	if b.count("skald_mark") != 1 {
		t.Error("the mark went without a yes")
	}
	maintain(1, 30*days, "--reason=test", "--by=ann", "--yes", short)
	if n := b.count("skald_mark"); n != 0 {
		t.Errorf("%d marks are left", n)
	}
	said := text(t, b.db,
		"SELECT string_agg(author || ' ' || id, '; ' ORDER BY seq) FROM (SELECT author, id, min(seq) AS seq FROM skald_audit WHERE action = 'maintain' AND reason = 'test' AND author <> '' GROUP BY author, id) AS each")
	for i, want := range []string{" rows 7 days, marks 27 days, steps 90 days, sagas 30 days",
		" rows 7 days, marks 30 days, steps 90 days, sagas 30 days",
		"ann rows 7 days, marks 20 days, steps 90 days, sagas 30 days"} {
		if each := strings.Split(said, "; "); len(each) != 3 || !strings.HasSuffix(each[i], want) {
			t.Errorf("noted is %q, want %q", said, want)
		}
	}
	p := start(t, nil, "maintain", "--store", b.at, "--dry-run", "--keep-marks", "360h")
	if p.expect(0); !strings.Contains(p.out.String(), "15 days    20 days") {
		t.Errorf("a dry run says\n%s", &p.out)
	}
	start(t, nil, "maintain", "--store", b.at, "--reason=test", "--keep-marks", "1h").expect(2, "marks")
	must(t, bus.Publish(t.Context(), []skald.Message{m}).Wait(t.Context()))
	until(t, "it came again",
		func() bool { return b.count("skald_quarantined WHERE cause = 'too old' AND id = $1", m.ID) == 1 })
	if took := b.taken(); took != m.ID {
		t.Errorf("taken are %s", took)
	}
}
