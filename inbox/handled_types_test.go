package inbox_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/inbox"
	"github.com/skald-go/skald/store"
)

var renamed = skald.Event[string]{Topic: "orders", Type: "renamed"}

// newer is a build that also handles renamed, which older builds do not.
func (w *world) newer() *inbox.Inbox[tx] {
	in := w.stepper(keep)
	inbox.On(in, renamed, keep)
	return in
}

// renamed is a message that only a newer build handles.
func (w *world) renamed(key, data string) skald.Message {
	m := w.message(key, data)
	m.Type = renamed.Type
	return m
}

func (w *world) leave(in *inbox.Inbox[tx]) {
	w.t.Helper()
	if err := in.Close(w.t.Context()); err != nil {
		w.t.Fatal(err)
	}
}

// During a rollout, an old build parks messages that only the new one handles. Later messages of the key
// wait.
func TestTypeThatOnlyANewerBuildHandlesIsLeftToIt(t *testing.T) {
	w := newWorld(t, 1)
	older, newer := w.stepper(keep), w.newer()
	w.quiet(older)
	w.quiet(newer) // the partition stays with the older
	w.publish(w.message("k", "1"), w.renamed("k", "2"), w.message("k", "3"), w.message("l", "4"),
		w.renamed("", "5"))
	w.quiet(older)
	w.expect("k", "1")
	w.expect("l", "4")
	h := older.Health()
	if h.Received != 5 || h.Skipped != 0 || h.ForOtherBuilds != 2 || h.Failures != 0 ||
		h.Unacknowledged != 0 || len(w.kept()) != 3 {
		t.Errorf("the old build: %+v; kept %+v", h, w.kept())
	}
	for _, p := range w.kept() {
		if p.Attempts != 0 || !p.First.At.IsZero() {
			t.Errorf("charged: %+v", p)
		}
	}
	w.pass(10 * time.Second)
	w.quiet(older)
	if len(w.kept()) != 3 {
		t.Errorf("kept %+v", w.kept())
	}
	w.quiet(newer)
	w.expect("k", "1 2 3")
	if h := newer.Health(); len(w.kept()) != 0 || len(w.db.Marks()) != 5 || h.Failures != 0 {
		t.Errorf("the new build: %+v; kept %+v", h, w.kept())
	}
	m := w.renamed("k", "6")
	w.publish(m, m)
	w.quiet(older)
	w.pass(10 * time.Second)
	w.quiet(newer)
	w.publish(m)
	w.quiet(older)
	w.expect("k", "1 2 3 6")
	if h := older.Health(); h.Skipped != 0 || h.Duplicates == 0 || len(w.kept()) != 0 {
		t.Errorf("the old build: %+v; kept %+v", h, w.kept())
	}
}

// If an old build claimed such a message before it read the new types, it gives the message back, and no
// failure counts.
func TestClaimedMessageOfAnotherBuildIsGivenBack(t *testing.T) {
	w := newWorld(t, 1)
	older := w.stepper(keep)
	w.quiet(older)
	newer := w.newer()
	w.quiet(newer)
	m := w.renamed("k", "1")
	w.apply(store.Effect{Park: &store.Park{Parked: store.Parked{Consumer: "stock",
		Identity: store.Identity{Source: m.Source, ID: m.ID}, Message: m}}})
	w.pass(10 * time.Second)
	w.quiet(older)
	if k := w.kept(); len(k) != 1 || k[0].Attempts != 0 || !k[0].First.At.IsZero() || k[0].Dead != nil {
		t.Errorf("kept %+v", k)
	}
	w.pass(10 * time.Second)
	w.quiet(older)
	w.quiet(newer)
	w.expect("k", "1")
}

// A message of a type that no build handles is skipped, without a mark.
func TestTypeWithoutAHandlerIsSkipped(t *testing.T) {
	w := newWorld(t, 1)
	older := w.stepper(keep)
	w.quiet(older)
	w.publish(w.renamed("k", "1"), w.message("k", "2"))
	w.quiet(older)
	w.expect("k", "2")
	if h := older.Health(); h.Skipped != 1 || h.ForOtherBuilds != 0 || h.Unacknowledged != 0 ||
		len(w.kept()) != 0 || len(w.db.Marks()) != 1 {
		t.Errorf("%+v; kept %+v", h, w.kept())
	}
}

// After a rollback of a build, or without a handler that was removed, the messages left to it become dead
// letters in the end. They block no key.
func TestTypeThatNoBuildHandlesAnyMore(t *testing.T) {
	w := newWorld(t, 1)
	newer := w.newer()
	w.quiet(newer)
	w.leave(newer)
	older := w.stepper(keep)
	w.publish(w.renamed("k", "1"), w.message("k", "2"), w.renamed("", "3"))
	for range 14 { // minutes
		w.quiet(older)
		w.pass(time.Minute)
	}
	w.expect("k", "")
	if h := older.Health(); len(w.kept()) != 3 || len(w.dead()) != 0 || h.Skipped != 0 || h.Failures != 0 {
		t.Fatalf("%+v; kept %+v", h, w.kept())
	}
	for range 5 {
		w.pass(time.Minute)
		w.quiet(older)
	}
	w.expect("k", "2")
	dead := w.dead()
	if len(dead) != 2 || len(w.kept()) != 2 || dead[0].Dead.Kind != "unhandled" || dead[0].Dead.BlocksKey ||
		!strings.Contains(dead[0].Last.Why, inbox.ErrUnhandled.Error()) {
		t.Fatalf("dead letters %+v", dead)
	}
	w.publish(w.renamed("k", "4"), w.message("k", "5"))
	w.quiet(older)
	w.expect("k", "2 5")
	if h := older.Health(); h.Skipped != 1 {
		t.Errorf("%+v", h)
	}
	w.leave(older)
	newer = w.newer()
	w.quiet(newer)
	w.apply(store.Effect{Requeue: &store.Requeue{Consumer: "stock", Identity: dead[0].Identity}})
	w.pass(10 * time.Second)
	w.quiet(newer)
	w.expect("k", "2 5 1")
}

// A consumer whose database was away for long still leaves messages to other builds.
func TestTypesOutliveAnOutage(t *testing.T) {
	w := newWorld(t, 1)
	newer := w.newer()
	w.quiet(newer)
	w.leave(newer)
	older := w.stepper(keep)
	w.quiet(older)
	w.pass(24 * time.Hour)
	w.publish(w.renamed("k", "1"))
	w.quiet(older)
	if h := older.Health(); h.Skipped != 0 || len(w.kept()) != 1 || w.kept()[0].Dead != nil {
		t.Errorf("%+v; kept %+v", h, w.kept())
	}
}

// forgetful is a database that does not return the types of other builds.
type forgetful struct {
	store.Driver[tx]
	out atomic.Bool
}

func (d *forgetful) SyncConsumer(ctx context.Context, a store.SyncRequest) (store.SyncResult, error) {
	if a.Heartbeat != nil && d.out.Load() {
		return store.SyncResult{}, store.ErrBusy
	}
	return d.Driver.SyncConsumer(ctx, a)
}

// No message is skipped while the types of other builds are unknown.
func TestNothingIsSkippedWhileTypesAreUnknown(t *testing.T) {
	w := newWorld(t, 1)
	db := &forgetful{Driver: w.db}
	older := w.over(db, &inbox.Options{Now: w.clock}, keep)
	w.quiet(older)
	db.out.Store(true)
	w.publish(w.message("k", "1"), w.renamed("k", "2"), w.message("k", "3"))
	for range 10 {
		w.quiet(older)
		w.pass(time.Second)
	}
	w.expect("k", "1")
	if h := older.Health(); h.Skipped != 0 {
		t.Errorf("%+v", h)
	}
	db.out.Store(false)
	w.pass(time.Minute)
	w.quiet(older)
	w.expect("k", "1 3")
	w.publish(w.renamed("k", "4"))
	db.out.Store(true)
	starting := w.over(db, &inbox.Options{Now: w.clock}, keep)
	if _, err := starting.Step(t.Context()); !errors.Is(err, store.ErrBusy) {
		t.Errorf("joined the group unannounced: %v", err)
	}
}

// From the moment when a build is ready, no other build skips its types. Tested under Run, with an old
// build at work.
func TestRolloutOfABuildThatHandlesMore(t *testing.T) {
	w := newWorld(t, 4)
	quiet := slog.New(slog.DiscardHandler)
	build := func(types ...skald.Event[string]) *inbox.Inbox[tx] {
		in := inbox.New(w.db.Session(), w.bus, "stock", &inbox.Options{Logger: quiet, Batch: 4})
		for _, e := range types {
			inbox.On(in, e, keep)
		}
		return in
	}
	ready := func(in *inbox.Inbox[tx]) func() bool { return func() bool { return in.Health().Ready } }
	older := build(said)
	stop := run(t, older)
	until(t, "the old build", ready(older))
	w.publish(w.renamed("k", "early"))
	until(t, "it is skipped", func() bool { return older.Health().Skipped == 1 })
	want := map[string]string{}
	say := func(n int) {
		for i := range n {
			key := fmt.Sprint("k", i%10)
			m := w.message(key, fmt.Sprint(i))
			if i%3 == 0 {
				m.Type = renamed.Type
			}
			want[key] = strings.TrimPrefix(want[key]+" "+fmt.Sprint(i), " ")
			w.publish(m)
		}
	}
	newer := build(said, renamed)
	run(t, newer)
	until(t, "the new build", ready(newer))
	say(150)
	until(t, "150 marks", func() bool { return len(w.db.Marks()) == 150 })
	if h := older.Health(); h.Skipped != 1 || h.Failures != 0 {
		t.Errorf("the old build: %+v", h)
	}
	say(150)
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	until(t, "300 marks", func() bool { return len(w.db.Marks()) == 300 })
	for key, list := range want {
		w.expect(key, list)
	}
	until(t, "nothing is parked", func() bool { return len(w.kept()) == 0 })
	if h := newer.Health(); h.Skipped != 0 || h.Failures != 0 {
		t.Errorf("the new build: %+v", h)
	}
}

// A message without a type is never skipped, because some handler may need it. It is a dead letter under its
// own identity, once. A handler for "" handles it, also after a redrive.
func TestMessageWithoutATypeIsNeverSkipped(t *testing.T) {
	w := newWorld(t, 1)
	in := w.stepper(keep)
	untyped := w.message("k", "1")
	untyped.Type = ""
	w.publish(untyped, untyped, w.message("l", "2"))
	w.quiet(in)
	w.expect("l", "2")
	dead := w.dead()
	if len(dead) != 1 || dead[0].Dead.Kind != "malformed" || dead[0].ID != untyped.ID ||
		!strings.Contains(dead[0].Last.Why, inbox.ErrNoType.Error()) || dead[0].Fault != "" {
		t.Fatalf("dead letters %+v", dead)
	}
	if h := in.Health(); h.Skipped != 0 || h.Dead != 1 || h.Unacknowledged != 0 {
		t.Errorf("health %+v", h)
	}
	w.leave(in)
	in = w.inbox(nil, keep)
	inbox.On(in, skald.Event[string]{Topic: "orders"}, keep)
	w.apply(store.Effect{Requeue: &store.Requeue{Consumer: "stock", Identity: dead[0].Identity}})
	later := w.message("k", "3")
	later.Type = ""
	w.publish(later)
	w.quiet(in)
	w.expect("k", "1 3")
}

// A message without an id, of a type that no build handles, is skipped: a topic of other teams may have
// many.
func TestUnhandledMessageWithoutAnIDIsSkipped(t *testing.T) {
	w := newWorld(t, 1)
	in := w.stepper(keep)
	m := w.message("k", "1")
	m.ID, m.Type = "", "other"
	w.publish(m)
	w.quiet(in)
	if h := in.Health(); h.Skipped != 1 || len(w.dead()) > 0 || h.Unacknowledged != 0 {
		t.Errorf("%d dead letters, %+v", len(w.dead()), h)
	}
}
