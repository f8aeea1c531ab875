package console_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/skald-go/skald/console"
	"github.com/skald-go/skald/operate"
	"github.com/skald-go/skald/store"
	"github.com/skald-go/skald/store/memstore"
)

// unread is a store that cannot read the audit.
type unread struct {
	store.Driver[*memstore.Tx]
	away atomic.Bool
}

func (u *unread) Audits(ctx context.Context, q store.AuditQuery) ([]store.Audit, error) {
	if u.away.Load() {
		return nil, errors.New("no answer")
	}
	return u.Driver.Audits(ctx, q)
}

const canary = "consumer=payment&source=%2Fshop&verb=redrive&in="

// Runs that hang in one source do not block runs of another. They can be stopped although their source
// cannot be read.
func TestRoomOfASource(t *testing.T) {
	hung, db := &unread{Driver: kept(t, 5)}, kept(t, 1)
	ctx, end := context.WithCancel(t.Context())
	defer end()
	b := open(t, map[string]console.Source{"hung": console.NewSource(hung), "orders": console.NewSource(db)},
		&console.Options{Actions: ctx})
	var where string
	for i := range 4 { // each waits for the result of its message
		w := b.act(canary+"hung&id=d-"+fmt.Sprint(i), "canary", "1")
		if where = strings.TrimPrefix(w.Header().Get("Location"), "/ops"); w.Code != http.StatusSeeOther {
			t.Fatalf("%d: %s", w.Code, w.Body)
		}
	}
	before := len(audits(t, hung))
	if w := b.act(canary+"hung&id=d-4", "canary", "1"); w.Code != http.StatusTooManyRequests ||
		len(audits(t, hung)) != before {
		t.Errorf("%d: %s; noted: %q", w.Code, w.Body, audits(t, hung)[before:])
	}
	if w := b.act(canary+"orders&id=d-0", "canary", "1"); w.Code != http.StatusSeeOther ||
		state(t, db, "d-0") == "dead" {
		t.Errorf("the other source: %d: %s", w.Code, w.Body)
	}
	form := b.form(b.page(where), "/run/stop")
	hung.away.Store(true)
	if w := b.do(http.MethodPost, "/run/stop", form); w.Code != http.StatusSeeOther {
		t.Errorf("stop: %d: %s", w.Code, w.Body)
	}
	hung.away.Store(false)
	var run struct{ Stopped string }
	until(t, func() bool { b.get(where, &run); return run.Stopped != "" })
	if !strings.HasPrefix(run.Stopped, "by somebody") {
		t.Errorf("%+v", run)
	}
}

// When Wait returns, the result of each run is stored and the databases can be closed.
func TestWait(t *testing.T) {
	db := kept(t, 1)
	ctx, end := context.WithCancel(t.Context())
	defer end()
	c := console.New("/ops", of(db), &console.Options{Actions: ctx, Deadline: 5 * time.Minute})
	b := browser{t, c}
	if w := b.act(canary+"orders&id=d-0", "canary", "1"); w.Code != http.StatusSeeOther {
		t.Fatalf("%d: %s", w.Code, w.Body)
	}
	late := b.form(b.page("/act?"+canary+"orders&id=other"), "/act")
	end()
	if err := c.Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := fmt.Sprint(audits(t, db)); !strings.Contains(got, "redrive stopped: the console ended") {
		t.Errorf("%s", got)
	}
	late.Set("reason", "too late")
	if w := b.do(http.MethodPost, "/act", late); w.Code != http.StatusServiceUnavailable ||
		state(t, db, "other") != "dead" {
		t.Errorf("%d: %s", w.Code, w.Body)
	}
}

// The list of runs shows the same as the page of each run, for all sources, newest first.
func TestActions(t *testing.T) {
	first, second := kept(t, 0), kept(t, 0)
	run := func(db store.Store, id string, acts int) operate.Run {
		t.Helper()
		r := operate.Run{ID: id, Verb: "drop", Author: "ann", Reason: "r",
			Request: operate.RunRequest{Of: acts + 1}}
		if err := operate.BeginRun(t.Context(), db, r); err != nil {
			t.Fatal(err)
		}
		for i := range acts {
			apply(t, db, store.Effect{Audit: &store.Audit{Author: "ann", Reason: "r", Action: "drop",
				Consumer: "c", Identity: store.Identity{Source: "s", ID: fmt.Sprint(i)}, Run: id}})
		}
		return r
	}
	ended := run(first, "ended", 3)
	if err := operate.EndRun(t.Context(), first, ended, "3 of 4 messages"); err != nil {
		t.Fatal(err)
	}
	stopped := run(second, "stopped", 2)
	if err := operate.StopRun(t.Context(), second, stopped, "ben", "the console ended"); err != nil {
		t.Fatal(err)
	}
	run(first, "long", 10_010) // more entries of one run than the first read returns
	b := open(t, map[string]console.Source{"a": console.NewSource(first), "b": console.NewSource(second)},
		nil)
	var list struct{ Runs []map[string]any }
	b.get("/runs", &list)
	var got []string
	for _, r := range list.Runs {
		got = append(got, fmt.Sprint(r["run"], " ", r["done"], " ", r["stopped"], " ", r["ended"]))
		var alone map[string]any
		if b.get(fmt.Sprintf("/run?in=%s&run=%s", r["source"], r["run"]),
			&alone); fmt.Sprint(alone) != fmt.Sprint(r) {
			t.Errorf("the list says %v, the page %v", r, alone)
		}
	}
	const want = "[long 10010 <nil> <nil> stopped 2 the console ended <nil> ended 3 <nil> 3 of 4 messages]"
	if fmt.Sprint(got) != want {
		t.Errorf("%v, want %s", got, want)
	}
	page := b.page("/runs")
	for _, part := range []string{"10010 of 10011", "this console is not running it",
		"interrupted</b>: the console ended", "ended: 3 of 4 messages"} {
		if !strings.Contains(page, part) {
			t.Errorf("no %q: %s", part, page)
		}
	}
}

// Older runs are on further pages, each with its current state.
func TestEarlierRuns(t *testing.T) {
	db := kept(t, 1)
	of := 0
	note := func(run, action string, n int) {
		for range n {
			of++
			apply(t, db, store.Effect{Audit: &store.Audit{Author: "ann", Reason: "r", Action: action,
				Consumer: "c", Identity: store.Identity{Source: "s", ID: fmt.Sprint(of)}, Run: run}})
		}
	}
	r := operate.Run{ID: "old", Verb: "drop", Author: "ann", Reason: "r", Request: operate.RunRequest{Of: 3}}
	if err := operate.BeginRun(t.Context(), db, r); err != nil {
		t.Fatal(err)
	}
	note("old", "drop", 1)
	note("", "release", 10_001)
	b := open(t, map[string]console.Source{"orders": console.NewSource(db)}, nil)
	type listed struct {
		Runs []struct {
			Run  string
			Done int
		}
		Next []struct {
			Source string
			Before int64
		}
	}
	var list listed
	if b.get("/runs", &list); len(list.Runs) != 0 || len(list.Next) != 1 {
		t.Fatalf("%+v", list)
	}
	if page := b.page("/runs"); !strings.Contains(page, "Earlier ones of orders") {
		t.Errorf("%s", page)
	}
	note("old", "drop", 1)
	next := fmt.Sprintf("/runs?in=%s&before=%d", list.Next[0].Source, list.Next[0].Before)
	list = listed{}
	b.get(next, &list)
	if len(list.Runs) != 1 || list.Runs[0].Run != "old" || list.Runs[0].Done != 2 || len(list.Next) != 0 {
		t.Errorf("%+v", list)
	}
	if w := b.do(http.MethodGet, "/runs?before=x", nil); w.Code != http.StatusBadRequest {
		t.Errorf("%d: %s", w.Code, w.Body)
	}
}

// The verbs of a group apply to its filtered list.
func TestVerbsOfAGroup(t *testing.T) {
	b := open(t, of(kept(t, 3)), nil)
	page := b.page("/dead/groups?key=k-1")
	for _, part := range []string{"verb=drop", "verb=redrive", "/ops/dead?"} {
		_, rest, ok := strings.Cut(page, part)
		link, _, _ := strings.Cut(rest, `"`)
		before := page[max(0, strings.Index(page, part)-300):strings.Index(page, part)]
		if !ok || !strings.Contains(link+before[strings.LastIndex(before, `"`)+1:], "key=k-1") {
			t.Errorf("the link with %s forgets the key: %s", part, page)
		}
	}
}
