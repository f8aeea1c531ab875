package inbox_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/failure"
	"github.com/skald-go/skald/inbox"
	"github.com/skald-go/skald/store"
)

// moody is a handler that fails for some values, and records all others.
type moody struct{ on map[string]error }

func (f *moody) handle(ctx context.Context, tx tx, m skald.Received[string]) error {
	if err := f.on[m.Value]; err != nil {
		if err := note(tx, "undone", m.Value); err != nil {
			return err
		}
		return err
	}
	return keep(ctx, tx, m)
}

// Later messages of a parked message's key wait in the store, also those of other topics. The position at
// the broker advances.
// Interleaving 12.
func TestKeyOfAParkedMessageWaitsOverTopics(t *testing.T) {
	w := newWorld(t, 1)
	if err := w.bus.MakeTopics(t.Context(), 1, "payments"); err != nil {
		t.Fatal(err)
	}
	f := &moody{on: map[string]error{"2": errors.New("no")}}
	in := w.stepper(f.handle)
	inbox.On(in, skald.Event[string]{Topic: "payments", Type: "said"}, f.handle)
	other := w.message("k", "3")
	other.Topic = "payments"
	w.publish(w.message("k", "1"), w.message("k", "2"))
	w.quiet(in)
	w.publish(other)
	w.quiet(in)
	w.publish(w.message("k", "4"))
	w.quiet(in)
	w.expect("k", "1")
	if err := in.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n := w.backlog(); n != 0 {
		t.Errorf("%d messages are not acknowledged", n)
	}
	// Another instance continues.
	f.on = nil
	in = w.stepper(f.handle)
	inbox.On(in, skald.Event[string]{Topic: "payments", Type: "said"}, f.handle)
	w.pass(time.Minute)
	w.quiet(in)
	w.expect("k", "1 2 3 4")
	w.expect("undone", "")
	if len(w.kept()) != 0 {
		t.Errorf("kept %+v", w.kept())
	}
}

// The inbox does not handle a duplicate of a message that is parked, a dead letter or behind another one.
// Interleaving 12.
func TestRepeatOfAKeptMessageIsDropped(t *testing.T) {
	w := newWorld(t, 1)
	f := &moody{on: map[string]error{"1": errors.New("no"), "x": skald.Permanent(errors.New("never"))}}
	in := w.stepper(f.handle)
	a, b, x, free := w.message("k", "1"), w.message("k", "2"), w.message("dead", "x"), w.message("", "1")
	for range 3 {
		w.publish(a, b, x, free)
		w.quiet(in)
	}
	if n, h := len(w.kept()), in.Health(); n != 4 || h.Failures != 3 || h.Duplicates != 8 {
		t.Errorf("%d kept, health %+v", n, h)
	}
	f.on = nil
	w.pass(time.Minute)
	w.quiet(in)
	w.publish(a, b, x, free)
	w.quiet(in)
	w.expect("k", "1 2")
	w.expect("", "1")
	w.expect("dead", "")
}

func TestDeadAfterTheLastAttemptWithItsDiagnostics(t *testing.T) {
	w := newWorld(t, 1)
	f := &moody{on: map[string]error{"2": fmt.Errorf("pay order 4711: %w", errors.New("no such column"))}}
	in := w.inbox(&inbox.Options{Now: w.clock, Retry: inbox.Retry{Attempts: 3},
		Instance: inbox.Instance{Host: "host-1", Version: "v9"}}, f.handle)
	bad := w.message("k", "2")
	bad.Headers = []skald.Header{{Name: "x", Value: []byte{0, 0xff}}}
	w.publish(w.message("k", "1"), bad, w.message("k", "3"), w.message("l", "a"))
	w.quiet(in)
	first := w.clock()
	for range 5 {
		w.pass(time.Minute)
		w.quiet(in)
	}
	dead := w.dead()
	if len(dead) != 1 {
		t.Fatalf("dead letters %+v", dead)
	}
	d := dead[0]
	if d.ID != bad.ID || d.Attempts != 3 || d.Dead.Kind != "attempts" || d.Last.Host != "host-1" ||
		d.Dead.Version != "v9" || !d.First.At.Equal(first) ||
		!d.Last.At.After(first) || !strings.Contains(d.Last.Why, "no such column") ||
		len(d.Dead.Fingerprint) != 12 || !d.Dead.BlocksKey ||
		string(d.Message.Data) != string(bad.Data) || string(d.Message.Headers[0].Value) != "\x00\xff" {
		t.Errorf("dead letter %+v: %+v", d, d.Dead)
	}
	if all := d.Failures; len(all) != 3 || !all[0].At.Equal(first) || !all[1].At.After(first) ||
		!all[2].At.Equal(d.Last.At) || all[1].Why != d.Last.Why || all[1].Host != "host-1" {
		t.Errorf("its failed attempts are %+v", all)
	}
	w.expect("k", "1") // later messages wait, in order
	w.expect("l", "a")
	f.on = nil
	w.apply(store.Effect{Requeue: &store.Requeue{Consumer: "stock", Identity: d.Identity}})
	w.pass(time.Minute)
	w.quiet(in)
	w.expect("k", "1 2 3")
	if h := in.Health(); h.Dead != 0 || h.Parked != 0 {
		t.Errorf("health %+v", h)
	}
}

func TestDeadLetterFreesItsKeyByOption(t *testing.T) {
	w := newWorld(t, 1)
	f := &moody{on: map[string]error{"2": skald.Permanent(errors.New("never"))}}
	in := w.inbox(&inbox.Options{Now: w.clock, Dead: inbox.Dead{FreeKey: true}}, f.handle)
	w.publish(w.message("k", "1"), w.message("k", "2"), w.message("k", "3"))
	w.quiet(in)
	w.expect("k", "1 3")
	d := w.dead()
	if len(d) != 1 || d[0].Dead.Kind != "permanent" || d[0].Dead.BlocksKey {
		t.Fatalf("dead letters %+v", d)
	}
	// After a redrive the message runs under its own id, and other messages of its key wait meanwhile.
	f.on = map[string]error{"2": errors.New("not yet")}
	w.apply(store.Effect{Requeue: &store.Requeue{Consumer: "stock", Identity: d[0].Identity}})
	w.pass(2 * time.Second)
	w.quiet(in)
	w.publish(w.message("k", "4"))
	w.quiet(in)
	w.expect("k", "1 3")
	f.on = nil
	w.pass(time.Minute)
	w.quiet(in)
	w.expect("k", "1 3 2 4")
}

// Interleaving 14.
func TestEachClassEndsAsItShould(t *testing.T) {
	w := newWorld(t, 1)
	version := true
	mine := errors.New("duplicate key value violates payments.order_id")
	f := &moody{on: map[string]error{"permanent": fmt.Errorf("deep: %w", skald.Permanent(errors.New("x"))),
		"unique": mine}}
	in := w.inbox(&inbox.Options{Now: w.clock, Retry: inbox.Retry{Attempts: 2, Age: time.Hour,
		Classify: func(_ skald.Message, err error) failure.Class {
			if errors.Is(err, mine) {
				return failure.Permanent
			}
			return ""
		}}}, func(ctx context.Context, tx tx, m skald.Received[string]) error {
		switch {
		case m.Value == "panic":
			panic("nil map")
		case m.Value == "version" && version:
			return skald.UnknownVersion(errors.New("schema 9"))
		case m.Value == "outage":
			return skald.Outage(errors.New("a service is away"))
		}
		return f.handle(ctx, tx, m)
	})
	for _, v := range []string{"permanent", "unique", "panic", "version", "outage"} {
		w.publish(w.message(v, v))
	}
	w.quiet(in)
	for range 4 {
		w.pass(10 * time.Minute)
		w.quiet(in)
	}
	kinds := map[string]string{}
	for _, p := range w.kept() {
		if kinds[string(p.Message.Key)] = fmt.Sprint("parked ", p.Attempts); p.Dead != nil {
			kinds[string(p.Message.Key)] = p.Dead.Kind
		}
		if string(p.Message.Key) == "panic" && (!strings.Contains(p.Dead.Stack, "park_test.go") ||
			strings.Contains(p.Last.Why, "park_test.go")) {
			t.Errorf("a panic is kept as %q with the stack %q", p.Last.Why, p.Dead.Stack)
		}
	}
	want := map[string]string{"permanent": "permanent", "unique": "permanent", "panic": "attempts",
		"version": "parked 0", "outage": "attempts"} // it has lasted for longer than Retry.OutageRetryTime
	if fmt.Sprint(kinds) != fmt.Sprint(want) {
		t.Errorf("kept as %v, want %v", kinds, want)
	}
	version = false
	w.pass(10 * time.Minute)
	w.quiet(in)
	w.expect("version", "version")
	if h := in.Health(); h.Unacknowledged != 0 {
		t.Errorf("health %+v", h)
	}
}

func TestFailureAfterRetryAgeIsDead(t *testing.T) {
	w := newWorld(t, 1)
	in := w.inbox(&inbox.Options{Now: w.clock, Retry: inbox.Retry{Age: time.Hour}},
		func(context.Context, tx, skald.Received[string]) error {
			return skald.UnknownVersion(errors.New("schema 9"))
		})
	w.publish(w.message("k", "1"))
	w.quiet(in)
	for range 8 {
		w.pass(10 * time.Minute)
		w.quiet(in)
	}
	if d := w.dead(); len(d) != 1 || d[0].Dead.Kind != "age" || d[0].Attempts != 0 {
		t.Errorf("dead letters %+v", d)
	}
}

// A dead letter that is older than Retry.Age is retried as often as others after a redrive.
func TestRedriveRestartsTheAge(t *testing.T) {
	w := newWorld(t, 1)
	fails, tries := true, 0
	in := w.inbox(&inbox.Options{Now: w.clock, Retry: inbox.Retry{Age: time.Hour, Attempts: 3}},
		func(_ context.Context, x tx, m skald.Received[string]) error {
			if tries++; fails {
				return errors.New("no")
			}
			return note(x, string(m.Key), m.Value)
		})
	w.publish(w.message("k", "1"))
	w.quiet(in)
	for range 3 {
		w.pass(10 * time.Minute)
		w.quiet(in)
	}
	dead := w.dead()
	if len(dead) != 1 || tries != 3 {
		t.Fatalf("after %d tries dead letters %+v", tries, dead)
	}
	w.pass(48 * time.Hour)
	if _, err := w.db.Apply(t.Context(),
		store.Effect{Requeue: &store.Requeue{Consumer: dead[0].Consumer,
			Identity: dead[0].Identity}}); err != nil {
		t.Fatal(err)
	}
	w.quiet(in)
	if d := w.dead(); len(d) != 0 || tries != 4 {
		t.Fatalf("redriven, it failed once: %d tries, dead letters %+v", tries, d)
	}
	fails = false
	w.pass(10 * time.Minute)
	w.quiet(in)
	w.expect("k", "1")
}

// At the limit of parked messages the partition pauses at the broker, and resumes by itself.
func TestFullConsumerPausesItsPartition(t *testing.T) {
	for name, o := range map[string]inbox.Limits{"rows": {ParkedRows: 3}, "bytes": {ParkedBytes: 10}} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, 1)
			f := &moody{on: map[string]error{"1": errors.New("no")}}
			in := w.inbox(&inbox.Options{Now: w.clock, Limits: o}, f.handle)
			for n := range 6 {
				w.publish(w.message("k", fmt.Sprint(n+1)))
				w.quiet(in)
			}
			h := in.Health()
			if len(h.Paused) != 1 || h.Parked > 3 || h.Parked < 2 || h.Unacknowledged == 0 || h.Ready ||
				!strings.Contains(h.Why, h.Paused[0]) || !strings.Contains(h.Why, "skald parked list") {
				t.Errorf("health %+v", h)
			}
			f.on = nil
			for range 8 {
				w.pass(time.Minute)
				w.quiet(in)
			}
			w.expect("k", "1 2 3 4 5 6")
			if h := in.Health(); len(h.Paused) != 0 || h.Unacknowledged != 0 || !h.Ready {
				t.Errorf("health %+v", h)
			}
		})
	}
}

// A message of a full key becomes a dead letter that blocks its key, and other keys of the partition
// continue. After a redrive the dead letters follow in the order of their key. With FreeKey the key continues
// before them.
func TestFullKeyBlocksNoOtherKey(t *testing.T) {
	for name, c := range map[string]struct {
		limits  inbox.Limits
		freeKey bool
		before  string // a redrive
	}{
		"rows": {limits: inbox.Limits{KeyRows: 3}, before: "1 2 3"},
		// the size of a message is that of its key and its payload
		"bytes":    {limits: inbox.Limits{KeyBytes: 10}, before: "1 2 3"},
		"free key": {limits: inbox.Limits{KeyRows: 3}, freeKey: true, before: "1 2 3 7"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, 1)
			f := &moody{on: map[string]error{"1": errors.New("no")}}
			in := w.inbox(&inbox.Options{Now: w.clock, Limits: c.limits,
				Dead: inbox.Dead{Topic: "dead", FreeKey: c.freeKey}}, f.handle)
			for n := range 6 {
				w.publish(w.message("k", fmt.Sprint(n+1)))
				w.quiet(in)
			}
			w.publish(w.message("l", "x"), w.message("l", "y"))
			w.quiet(in)
			w.expect("l", "x y")
			dead := w.dead()
			if h := in.Health(); len(h.Paused) != 0 || h.Unacknowledged != 0 || !h.Ready || h.Parked != 3 ||
				h.Dead != 3 || len(dead) != 3 {
				t.Fatalf("health %+v, dead letters %+v", h, dead)
			}
			for _, d := range dead {
				if d.Dead.Kind != failure.KindKeyFull || d.Dead.BlocksKey == c.freeKey || d.Attempts != 0 ||
					!strings.Contains(d.Last.Why, "KeyRows") {
					t.Errorf("dead letter %+v of kind %+v", d, d.Dead)
				}
			}
			if rows := w.db.Rows(); len(rows) != 3 || rows[0].Topic != "dead" {
				t.Errorf("announced %+v", rows)
			}
			f.on = nil
			w.pass(time.Minute)
			w.quiet(in)
			w.publish(w.message("k", "7"))
			w.quiet(in)
			w.expect("k", c.before)
			for _, d := range w.dead() { // 7, too, if it is behind them
				w.apply(store.Effect{Requeue: &store.Requeue{Consumer: d.Consumer, Identity: d.Identity}})
			}
			for range 8 {
				w.pass(time.Minute)
				w.quiet(in)
			}
			all := "1 2 3 4 5 6 7"
			if c.freeKey {
				all = "1 2 3 7 4 5 6"
			}
			w.expect("k", all)
		})
	}
}

// Dead letters of full keys count together with parked messages: a key with an endless stream does not
// fill the database. At the limit the partition pauses.
func TestDeadLettersOfAFullKeyAreBounded(t *testing.T) {
	for name, limits := range map[string]inbox.Limits{
		"rows":  {KeyRows: 2, ParkedRows: 5},
		"bytes": {KeyRows: 2, ParkedBytes: 20}, // of key and payload each message has 4 or 5
	} {
		t.Run(name, func(t *testing.T) { testFullKeyIsBounded(t, limits) })
	}
}

func testFullKeyIsBounded(t *testing.T, limits inbox.Limits) {
	w := newWorld(t, 1)
	f := &moody{on: map[string]error{"1": errors.New("no")}}
	in := w.inbox(&inbox.Options{Now: w.clock, Limits: limits}, f.handle)
	for n := range 12 {
		w.publish(w.message("k", fmt.Sprint(n+1)))
		w.quiet(in)
	}
	if h := in.Health(); len(w.dead()) != 3 || len(h.Paused) != 1 || h.Ready ||
		!strings.Contains(h.Why, h.Paused[0]) {
		t.Fatalf("%d dead letters, health %+v", len(w.dead()), h)
	}
	f.on = nil
	for range 10 {
		for _, d := range w.dead() {
			w.apply(store.Effect{Requeue: &store.Requeue{Consumer: d.Consumer, Identity: d.Identity}})
		}
		w.pass(time.Minute)
		w.quiet(in)
	}
	w.expect("k", "1 2 3 4 5 6 7 8 9 10 11 12")
	if h := in.Health(); len(h.Paused) != 0 || h.Unacknowledged != 0 || !h.Ready {
		t.Errorf("health %+v", h)
	}
}

func TestDeadLetterIsAnnounced(t *testing.T) {
	w := newWorld(t, 1)
	f := &moody{on: map[string]error{"x": skald.Permanent(errors.New("never"))}}
	in := w.inbox(&inbox.Options{Now: w.clock, Dead: inbox.Dead{Topic: "dead"}}, f.handle)
	m := w.message("k", "x")
	m.CorrelationID = "whole"
	w.publish(m)
	w.quiet(in)
	rows := w.db.Rows()
	if len(rows) != 1 || rows[0].Topic != "dead" || rows[0].Type != failure.AnnouncementType ||
		rows[0].CausationID != m.ID || rows[0].CorrelationID != "whole" {
		t.Fatalf("said %+v", rows)
	}
	var a failure.Announcement
	if err := json.Unmarshal(rows[0].Data, &a); err != nil || a.ID != m.ID || a.Consumer != "stock" ||
		a.Kind != "permanent" || a.Attempts != 1 || !a.BlocksKey {
		t.Errorf("announced %+v, %v", a, err)
	}
}

func TestDeadLetterIsCopiedUnlessItIsTooLarge(t *testing.T) {
	w := newWorld(t, 1)
	in := w.inbox(&inbox.Options{Now: w.clock, Dead: inbox.Dead{Topic: "dead", Copy: true}},
		func(context.Context, tx, skald.Received[string]) error {
			return skald.Permanent(errors.New("never"))
		})
	small, large := w.message("k", "x"), w.message("l", "x")
	small.Headers = []skald.Header{{Name: "own", Value: []byte("1")}}
	large.Headers = []skald.Header{{Name: "own", Value: []byte(strings.Repeat("x", 16<<10))}}
	w.publish(small, large)
	w.quiet(in)
	rows := w.db.Rows()
	if len(rows) != 2 || rows[0].Type != "said" || string(rows[0].Data) != string(small.Data) ||
		rows[1].Type != failure.AnnouncementType {
		t.Fatalf("said %+v", rows)
	}
	got := map[string]string{}
	for _, h := range rows[0].Headers {
		got[h.Name] = string(h.Value)
	}
	if got["own"] != "1" || got["x-attempt"] != "1" || got["x-original-id"] != small.ID ||
		!strings.Contains(got["x-failed-reason"], "never") || got["x-failed-at"] == "" {
		t.Errorf("headers %v", got)
	}
}

// A newer build parked a message of a type that this build has no handler for. This build leaves the message
// to the newer one, and no failure counts.
func TestParkedMessageWithoutAHandlerIsLeftForABuildThatHasOne(t *testing.T) {
	w := newWorld(t, 1)
	bad := true
	other := skald.Event[string]{Topic: "orders", Type: "renamed"}
	newer := w.stepper(keep)
	inbox.On(newer, other, func(ctx context.Context, tx tx, m skald.Received[string]) error {
		if bad {
			return errors.New("not now")
		}
		return keep(ctx, tx, m)
	})
	m := w.message("k", "1")
	m.Type = other.Type
	w.publish(m)
	w.quiet(newer)
	if err := newer.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.pass(time.Hour)
	older := w.stepper(keep)
	w.quiet(older)
	if p := w.kept(); len(p) != 1 || p[0].Dead != nil || p[0].Attempts != 1 {
		t.Fatalf("kept: %+v", p)
	}
	if err := older.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.pass(time.Hour)
	bad = false
	again := w.stepper(keep)
	inbox.On(again, other, keep)
	w.quiet(again)
	w.expect("k", "1")
}
