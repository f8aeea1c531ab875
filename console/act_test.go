package console_test

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/skald-go/skald/store"
)

// The operator follows the links from the overview to the group and the message, and redrives it into the
// queue of its key. Counts are shown before, and an audit entry after.
func TestRedriveGroup(t *testing.T) {
	db := kept(t, 12)
	b := open(t, of(db), nil)
	if page := b.page("/"); !strings.Contains(page, "SkaldDead") ||
		!strings.Contains(page, `href="/ops/dead/groups?in=orders"`) {
		t.Errorf("the overview: %s", page)
	}
	group := b.page("/dead/groups?in=orders")
	query := "consumer=payment&fingerprint=" + failing + "&in=orders&verb=redrive"
	if !strings.Contains(group, unescapedHref("/ops/act?"+query)) {
		t.Fatalf("the groups have no link to redrive: %s", group)
	}
	plan := b.page("/act?" + query)
	for _, part := range []string{"it is about <b>12</b> messages", "Nothing has changed yet",
		"skald dead redrive --store @orders.url --consumer payment --fingerprint " + failing} {
		if !strings.Contains(plan, part) {
			t.Errorf("the plan has no %q: %s", part, plan)
		}
	}
	if state(t, db, "d-0") != "dead" {
		t.Error("the dry run changed something")
	}
	w := b.act(query, "max_errors", "1")
	if w.Code != http.StatusSeeOther {
		t.Fatalf("%d: %s", w.Code, w.Body)
	}
	finish(t, db, 12) // simulates the consumer
	where := strings.TrimPrefix(w.Header().Get("Location"), "/ops")
	var run struct {
		Done    int
		Ended   string
		Author  string
		Request struct{ Of int }
	}
	until(t, func() bool { b.get(where, &run); return run.Ended != "" })
	if run.Done != 12 || run.Request.Of != 12 || !strings.HasPrefix(run.Ended, "12 redriven, 12 succeeded") ||
		run.Author != "somebody on this machine" {
		t.Errorf("%+v", run)
	}
	if state(t, db, "other") != "dead" {
		t.Error("another group was redriven")
	}
	if page := b.page(where); !strings.Contains(page, "12 of 12") ||
		!strings.Contains(page, "Ended: 12 redriven") {
		t.Errorf("%s", page)
	}
	if page := b.page("/runs"); !strings.Contains(page, where[len("/run?in=orders&run="):]) {
		t.Errorf("the run is not listed: %s", page)
	}
}

func unescapedHref(s string) string { return strings.ReplaceAll(s, "&", "&amp;") }

// finish marks n redriven messages as handled, as their consumer does.
func finish(t *testing.T, db store.Store, n int) {
	t.Helper()
	for done := map[string]bool{}; len(done) < n; {
		list, err := store.ListParked(t.Context(), db, store.ParkedQuery{Consumer: "payment",
			Dead: new(bool)})
		if err != nil || t.Context().Err() != nil {
			t.Fatal(err, t.Context().Err())
		}
		for i := range list {
			p := &list[i]
			if p.Attempts == 0 && !done[p.ID] {
				attempts := 0
				apply(t, db, store.Effect{Mark: &store.Mark{Consumer: p.Consumer, Identity: p.Identity,
					Outcome: store.Done},
					Finish: &store.Finish{Consumer: p.Consumer, Identity: p.Identity, Attempts: &attempts}})
				done[p.ID] = true
			}
		}
	}
}

func until(t *testing.T, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(5 * time.Minute); !ok(); {
		if time.Now().After(end) {
			t.Fatal("it did not come to that")
		}
	}
}

// The canary fails again: the other messages do not change, and the run reports why.
func TestCanary(t *testing.T) {
	db := kept(t, 5)
	b := open(t, of(db), nil)
	w := b.act("consumer=payment&fingerprint="+failing+"&in=orders&verb=redrive", "canary", "1")
	zero := 0
	p := dead("d-0", "k-0", failing)
	p.Attempts = 1
	until(t, func() bool { return state(t, db, "d-0") == "parked 0" })
	apply(t, db, store.Effect{Park: &store.Park{Parked: p, Was: &zero}})
	var run struct {
		Done  int
		Ended string
	}
	where := strings.TrimPrefix(w.Header().Get("Location"), "/ops")
	until(t, func() bool { b.get(where, &run); return run.Ended != "" })
	if run.Done != 1 || !strings.Contains(run.Ended,
		"the canary, d-0, failed again: no route to the bank") || state(t, db, "d-1") != "dead" {
		t.Errorf("%+v, d-1 is %s", run, state(t, db, "d-1"))
	}
}

// A stopped run can be continued; finished work is not repeated.
func TestStopAndResume(t *testing.T) {
	db := kept(t, 3)
	b := open(t, of(db), nil)
	w := b.act("consumer=payment&fingerprint="+failing+"&in=orders&verb=redrive", "canary", "1")
	where := strings.TrimPrefix(w.Header().Get("Location"), "/ops")
	// it waits for the result of the canary
	until(t, func() bool { return strings.HasPrefix(state(t, db, "d-0"), "parked") })
	if w := b.do(http.MethodPost, "/run/stop",
		b.form(b.page(where), "/run/stop")); w.Code != http.StatusSeeOther {
		t.Fatalf("%d: %s", w.Code, w.Body)
	}
	var run struct {
		Done           int
		Stopped, Ended string
		Here           bool `json:"in_hand"`
	}
	until(t, func() bool { b.get(where, &run); return !run.Here })
	if run.Done != 1 || !strings.Contains(run.Stopped, "by somebody") || run.Ended != "" {
		t.Fatalf("%+v", run)
	}
	again := open(t, of(db), nil) // another process, without the state of the first
	w = again.do(http.MethodPost, "/run/resume", again.form(again.page(where), "/run/resume"))
	if w.Code != http.StatusSeeOther {
		t.Fatalf("%d: %s", w.Code, w.Body)
	}
	finish(t, db, 3)
	until(t, func() bool { again.get(where, &run); return run.Ended != "" })
	if run.Done != 3 || !strings.HasPrefix(run.Ended, "3 redriven, 3 succeeded") {
		t.Errorf("%+v", run)
	}
	n := 0
	for _, a := range audits(t, db) {
		if strings.HasPrefix(a, "somebody on this machine redrive d-0 ") {
			n++
		}
	}
	if n != 1 {
		t.Errorf("d-0 was redriven %d times: %v", n, audits(t, db))
	}
}

// Two operators act on one message: the second sees the current state, and changes nothing.
func TestTwoOperators(t *testing.T) {
	db := kept(t, 1)
	ann, ben := open(t, of(db), nil), open(t, of(db), nil)
	query := "consumer=payment&id=d-0&in=orders&source=%2Fshop&verb="
	late := ben.form(ben.page("/act?"+query+"drop"), "/act")
	if w := ann.act(query + "redrive"); w.Code != http.StatusSeeOther {
		t.Fatalf("%d: %s", w.Code, w.Body)
	}
	late.Set("reason", "nobody needs it")
	w := ben.do(http.MethodPost, "/act", late)
	if w.Code != http.StatusConflict ||
		!strings.Contains(w.Body.String(), "has changed since the page was read") {
		t.Errorf("%d: %s", w.Code, w.Body)
	}
	if got := state(t, db, "d-0"); got != "parked 0" {
		t.Errorf("it is %s", got)
	}
	// It is dead again with the same failure, but it is not the death that the operator saw.
	zero := 0
	p := dead("d-0", "k-0", failing)
	apply(t, db, store.Effect{Park: &store.Park{Parked: p, Was: &zero}})
	if w := ben.do(http.MethodPost, "/act", late); w.Code != http.StatusConflict ||
		state(t, db, "d-0") != "dead" {
		t.Errorf("%d: %s", w.Code, w.Body)
	}
	if page := ben.page("/act?seen=old&" + query + "drop"); !strings.Contains(page,
		"It has changed since you saw it") {
		t.Errorf("%s", page)
	}
}

// A message that dies after the page was read is not selected, although the filter matches it.
func TestLaterDeathsAreNotMeant(t *testing.T) {
	db := kept(t, 2)
	b := open(t, of(db), nil)
	form := b.form(b.page("/act?consumer=payment&in=orders&verb=drop&fingerprint="+failing), "/act")
	later := dead("later", "k-later", failing)
	later.Dead.At = later.Dead.At.Add(time.Second)
	keep(t, db, later)
	form.Set("reason", "nobody needs them")
	w := b.do(http.MethodPost, "/act", form)
	if w.Code != http.StatusSeeOther {
		t.Fatalf("%d: %s", w.Code, w.Body)
	}
	var run struct{ Ended string }
	until(t, func() bool {
		b.get(strings.TrimPrefix(w.Header().Get("Location"), "/ops"), &run)
		return run.Ended != ""
	})
	if run.Ended != "2 of 2 messages" || state(t, db, "later") != "dead" || state(t, db, "d-1") != "gone" {
		t.Errorf("%s, later is %s", run.Ended, state(t, db, "later"))
	}
}

func TestRelease(t *testing.T) {
	db := kept(t, 0)
	b := open(t, of(db), nil)
	if w := b.act(
		"consumer=payment&id=p-1&in=orders&source=%2Fshop&verb=release"); w.Code != http.StatusSeeOther ||
		state(t, db, "p-1") != "parked 0" {
		t.Errorf("%d, %s", w.Code, state(t, db, "p-1"))
	}
	list := audits(t, db)
	if len(list) != 3 || list[1] != "somebody on this machine release p-1 the bank is back" {
		t.Errorf("%q", list)
	}
}

// Without a reason nothing happens, and the page asks for one.
func TestReasonIsRequired(t *testing.T) {
	db := kept(t, 1)
	b := open(t, of(db), nil)
	w := b.act("consumer=payment&id=d-0&in=orders&source=%2Fshop&verb=drop", "reason", " ")
	if w.Code != http.StatusUnprocessableEntity || !strings.Contains(w.Body.String(), "give a reason") ||
		state(t, db, "d-0") != "dead" || len(audits(t, db)) > 0 {
		t.Errorf("%d: %s", w.Code, w.Body)
	}
}

// A dead letter with an external call is dropped only with the outcome of the call.
func TestDropAsksForCalls(t *testing.T) {
	db := kept(t, 0)
	p := dead("called", "k-called", failing)
	p.Call = &store.Call{Key: "call-1", Request: "{}"}
	keep(t, db, p)
	apply(t, db, store.Effect{Step: &store.Step{Consumer: "payment", Saga: "o-1", Name: "charge",
		Identity: p.Identity, State: store.StepCalling, OutsideKey: "call-1",
		From: []store.StepState{store.StepAbsent}}})
	b := open(t, of(db), nil)
	query := "consumer=payment&id=called&in=orders&source=%2Fshop&verb=drop"
	if page := b.page("/act?" + query); !strings.Contains(page,
		"step charge of o-1: call <code>call-1</code>") {
		t.Fatalf("%s", page)
	}
	if w := b.act(query); w.Code != http.StatusUnprocessableEntity || state(t, db, "called") != "dead" {
		t.Errorf("%d: %s", w.Code, w.Body)
	}
	if w := b.act(query, "call", "done"); w.Code != http.StatusSeeOther || state(t, db, "called") != "gone" {
		t.Errorf("%d: %s", w.Code, w.Body)
	}
	steps, err := store.ListSteps(t.Context(), db, store.StepQuery{Saga: "o-1"})
	if err != nil || len(steps) != 1 || steps[0].State != store.StepDone {
		t.Errorf("%+v, %v", steps, err)
	}
}

// The same holds for a call without a saga: its effect may have happened. The operator's outcome is stored.
func TestDropAsksForCallsOutsideSagas(t *testing.T) {
	db := kept(t, 1)
	for i, outcome := range []string{"", `{"Refused":false}`} {
		p := dead(fmt.Sprint("called-", i), "k-called", failing)
		p.Call = &store.Call{Key: fmt.Sprint("call-", i), Request: "{}", Outcome: outcome}
		keep(t, db, p)
	}
	b := open(t, of(db), nil)
	const query = "consumer=payment&fingerprint=" + failing + "&in=orders&verb=drop"
	page := b.page("/act?" + query)
	for _, part := range []string{"1 of them have an external call without outcome",
		"message called-0: call <code>call-0</code>",
		"--call &#39;done or refused&#39; --reason"} {
		if !strings.Contains(page, part) {
			t.Errorf("no %q: %s", part, page)
		}
	}
	if page := b.page("/message?consumer=payment&id=called-0&in=orders&source=%2Fshop"); !strings.Contains(
		page, "--call &#39;done or refused&#39; --reason") {
		t.Errorf("%s", page)
	}
	if w := b.act(query); w.Code != http.StatusUnprocessableEntity || state(t, db, "called-0") != "dead" ||
		state(t, db, "d-0") != "dead" {
		t.Errorf("%d: %s", w.Code, w.Body)
	}
	if w := b.act(query, "call", "refused"); w.Code != http.StatusSeeOther {
		t.Errorf("%d: %s", w.Code, w.Body)
	}
	until(t, func() bool {
		return state(t, db, "d-0")+state(t, db, "called-0")+state(t, db, "called-1") == "gonegonegone"
	})
	var said []string
	for _, a := range audits(t, db) {
		if strings.Contains(a, " drop ") && strings.Contains(a, "called-") {
			said = append(said, a)
		}
	}
	slices.Sort(said)
	who := "somebody on this machine drop called-"
	if want := []string{who + "0 the bank is back (the call call-0: refused)",
		who + "1 the bank is back"}; !slices.Equal(said, want) {
		t.Errorf("%q", said)
	}
}

// An inapplicable filter is refused: ignoring it would select everything.
func TestFilterOfOthers(t *testing.T) {
	b := open(t, of(kept(t, 1)), nil)
	for _, path := range []string{"/act?in=orders&verb=release&kind=attempts",
		"/act?in=orders&verb=release&fingerprint=" + failing, "/parked?kind=attempts",
		"/dead?kind=bogus", "/sagas?status=Done", "/flows?state=gone", "/sagas?older=soon",
		"/sagas?older=NaNd", "/sagas?older=1e300d"} {
		if w := b.do(http.MethodGet, path, nil); w.Code != http.StatusBadRequest {
			t.Errorf("%s: %d: %s", path, w.Code, w.Body)
		}
	}
}

func TestConsumer(t *testing.T) {
	db := kept(t, 1)
	if _, err := db.SyncConsumer(t.Context(), store.SyncRequest{Consumer: "payment",
		Heartbeat:   &store.Heartbeat{Own: []store.Kind{{Topic: "orders", Type: "order.placed"}}},
		Checkpoints: []store.Checkpoint{{Partition: "orders/0", Origin: "o"}}, Stamp: "s", Take: true,
		Session: "a"}); err != nil {
		t.Fatal(err)
	}
	b := open(t, of(db), nil)
	for _, c := range []struct{ verb, fingerprint, shows, not string }{
		{"pause", "", "Paused by somebody on this machine: the bank is back", ""},
		{"resume", "", "orders/0", "Paused by"},
		{"skip", failing, "<code>" + failing + "</code> by somebody", ""},
		{"unskip", failing, "None. Dead letters are listed", ""},
	} {
		w := b.act("consumer=payment&in=orders&verb=" + c.verb + "&fingerprint=" + c.fingerprint)
		if w.Code != http.StatusSeeOther {
			t.Fatalf("%s: %d: %s", c.verb, w.Code, w.Body)
		}
		page := b.page(strings.TrimPrefix(w.Header().Get("Location"), "/ops"))
		if !strings.Contains(page, c.shows) || c.not != "" && strings.Contains(page, c.not) {
			t.Errorf("%s: %s", c.verb, page)
		}
	}
	// Another operator was first: the pause that was seen no longer exists.
	form := b.form(b.page("/act?consumer=payment&in=orders&verb=pause"), "/act")
	b.act("consumer=payment&in=orders&verb=pause")
	form.Set("reason", "a move")
	if w := b.do(http.MethodPost, "/act", form); w.Code != http.StatusConflict {
		t.Errorf("%d: %s", w.Code, w.Body)
	}
	if w := b.do(http.MethodGet, "/consumer?in=orders&consumer=nobody", nil); w.Code != http.StatusNotFound {
		t.Errorf("%d", w.Code)
	}
}

func TestQuarantine(t *testing.T) {
	db := kept(t, 0)
	for i := range 3 {
		m := parkedMessage(fmt.Sprint("q-", i), "k")
		apply(t, db, store.Effect{Quarantine: &store.Quarantined{Consumer: "payment", Identity: m.Identity,
			Why: store.Conflict, Message: m.Message}})
	}
	b := open(t, of(db), nil)
	page := b.page("/quarantine?in=orders")
	if strings.Contains(page, "4711") || !strings.Contains(page, "q-2") {
		t.Errorf("%s", page)
	}
	if w := b.act("in=orders&number=2&verb=admit"); w.Code != http.StatusSeeOther {
		t.Fatalf("%d: %s", w.Code, w.Body)
	}
	form := b.form(b.page("/act?in=orders&verb=admit&consumer=payment&why=conflict"), "/act")
	form.Set("reason", "they are meant")
	if w := b.do(http.MethodPost, "/act", form); w.Code != http.StatusSeeOther {
		t.Fatalf("%d: %s", w.Code, w.Body)
	}
	list, err := store.ListQuarantined(t.Context(), db, store.QuarantineQuery{Admitted: true})
	if err != nil || len(list) != 3 || list[1].Reason != "the bank is back" ||
		list[0].By != "somebody on this machine" {
		t.Errorf("%+v, %v", list, err)
	}
	if w := b.do(http.MethodPost, "/act", form); w.Code != http.StatusConflict {
		t.Errorf("admitted twice: %d", w.Code)
	}
	if audit := b.page("/audit"); strings.Count(audit, "admit") < 3 {
		t.Errorf("three were admitted: %s", audit)
	}
}

// One of many messages in quarantine is found by its id. The page reports that the scan was limited, and
// admits no more messages than one transaction takes.
func TestManyInQuarantine(t *testing.T) {
	db := kept(t, 0)
	for i := range 1001 {
		m := parkedMessage(fmt.Sprint("q-", i), "k")
		apply(t, db, store.Effect{Quarantine: &store.Quarantined{Consumer: "payment", Identity: m.Identity,
			Why: store.Conflict, Message: m.Message}})
	}
	b := open(t, of(db), nil)
	var got struct {
		Sources []struct {
			Quarantine []struct{ ID string }
			Cut        bool
		}
	}
	if b.get("/story?q=q-1000", &got); len(got.Sources[0].Quarantine) != 1 || !got.Sources[0].Cut {
		t.Errorf("%+v", got)
	}
	if page := b.page("/story?q=k"); !strings.Contains(page, "has more than is shown") {
		t.Errorf("%s", page)
	}
	plan := b.page("/act?in=orders&verb=admit&consumer=payment")
	if !strings.Contains(plan, "More than <b>1,000</b>") || strings.Contains(plan, "Admit 1,001") {
		t.Errorf("%s", plan)
	}
}

func TestPayload(t *testing.T) {
	db := kept(t, 1)
	b := open(t, of(db), nil)
	const at = "/message?consumer=payment&id=d-0&in=orders&source=%2Fshop"
	page := b.page(at)
	if strings.Contains(page, "4711") || strings.Contains(page, "blue") ||
		!strings.Contains(page, "15 bytes of application/json; headers: tenant") {
		t.Fatalf("%s", page)
	}
	w := b.do(http.MethodPost, "/message/payload", b.form(page, "/message/payload"))
	if w.Code != http.StatusOK || !strings.Contains(w.Body.String(), "{&#34;card&#34;:&#34;4711&#34;}") ||
		!strings.Contains(w.Body.String(), "tenant: <code>blue</code>") {
		t.Errorf("%d: %s", w.Code, w.Body)
	}
	if got := audits(t, db); len(got) != 1 ||
		got[0] != "somebody on this machine show payload d-0 viewed in the console" {
		t.Errorf("%q", got)
	}
	if page := b.page(at); strings.Contains(page, "4711") || !strings.Contains(page, "show payload") {
		t.Errorf("%s", page)
	}
	// It is finished: the page shows its outcome.
	apply(t, db, store.Effect{Mark: &store.Mark{Consumer: "payment",
		Identity: store.Identity{Source: "/shop", ID: "d-0"}, Outcome: store.Done, Held: true},
		Finish: &store.Finish{Consumer: "payment", Identity: store.Identity{Source: "/shop", ID: "d-0"}}})
	if page := b.page(at); !strings.Contains(page, "Its outcome at the consumer: <b>done</b>") {
		t.Errorf("%s", page)
	}
	if w := b.do(http.MethodPost, "/message/payload",
		url.Values{"token": {"x"}}); w.Code != http.StatusForbidden {
		t.Errorf("%d", w.Code)
	}
}
