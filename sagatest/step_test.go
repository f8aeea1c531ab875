package sagatest_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/broker/membroker"
	"github.com/skald-go/skald/inbox"
	"github.com/skald-go/skald/sagatest"
	"github.com/skald-go/skald/store"
	"github.com/skald-go/skald/store/memstore"
)

// barring is a world with one consumer in two processes. Steps and their undos arrive on two topics, with
// different keys and in any order. An operator redrives dead letters.
type barring[TTx any] struct {
	w    *sagatest.World
	on   *ground[TTx]
	wrap func(store.Driver[TTx]) store.Driver[TTx]
	runs map[string]int // by saga: number of remaining failures of its step
}

// tried is the payload of a step and of its undo: a saga.
var (
	tried  = skald.Event[string]{Topic: "orders", Type: "tried"}
	called = skald.Event[string]{Topic: "cancels", Type: "called off"}
	told   = skald.Event[string]{Topic: "answers", Type: "told"}
)

func (b *barring[TTx]) sagas() (takes, undoes []string) {
	return []string{"plain", "alone", "fails", "twice", "no", "never", "twice", "late"},
		[]string{"late", "plain", "no", "fails", "twice", "never", "twice", "none"}
}

func buildBarring[TTx any](open opening[TTx],
	wrap func(store.Driver[TTx]) store.Driver[TTx]) func(*sagatest.World) error {
	return func(w *sagatest.World) error {
		on, err := open(w)
		if err != nil {
			return err
		}
		b := &barring[TTx]{w: w, on: on, wrap: wrap, runs: map[string]int{"fails": 2}}
		bus := membroker.New(nil)
		if err := bus.MakeTopics(context.Background(), 1, "orders", "cancels"); err != nil {
			return err
		}
		takes, undoes := b.sagas()
		for i := range takes {
			for _, m := range []skald.Message{b.message(tried, i, takes[i]),
				b.message(called, i, undoes[i])} {
				if err := bus.Publish(context.Background(),
					[]skald.Message{m}).Wait(context.Background()); err != nil {
					return err
				}
			}
		}
		for _, name := range []string{"one", "two"} {
			w.Process(name, func(proc *sagatest.Process) error { return b.session(proc, name, bus) })
		}
		w.Process("operator", func(proc *sagatest.Process) error {
			proc.Step(&stepRedriver[TTx]{on: on, db: on.session(proc)})
			return nil
		})
		w.Finally("taken_and_undone_once_or_never", b.holds)
		w.Finally("each_answered_once", b.answered)
		return nil
	}
}

// message returns a message with a key that no other message of its saga has.
func (b *barring[TTx]) message(e skald.Event[string], n int, saga string) skald.Message {
	return skald.Message{ID: fmt.Sprintf("%s-%d", e.Topic, n), Source: "/other", Type: e.Type, Topic: e.Topic,
		Key: fmt.Appendf(nil, "%s-%d", e.Topic, n%5), Data: fmt.Appendf(nil, "%q", saga)}
}

func (b *barring[TTx]) session(proc *sagatest.Process, name string, bus *membroker.Broker) error {
	d := b.on.session(proc)
	if b.wrap != nil {
		d = b.wrap(d)
	}
	in := inbox.New(d, sagatest.CrashBroker(proc, bus.Client()), "consumer", &inbox.Options{
		Now: b.w.Now, NewID: b.w.NewID, Logger: slog.New(slog.DiscardHandler),
		Instance: inbox.Instance{Member: name},
		Timeouts: inbox.Timeouts{Wait: time.Millisecond, Handle: time.Second},
		Retry:    inbox.Retry{InitialInterval: time.Microsecond, MaxInterval: time.Millisecond, Attempts: 5},
	})
	pay := inbox.NewStep(in, "pay", func(r skald.Received[string]) string { return r.Value })
	inbox.DoOn(pay, tried, b.take)
	inbox.UndoOn(pay, called, b.undo,
		inbox.Reply(func(m skald.Received[string], _ store.StepState) []skald.Draft {
			return []skald.Draft{told.New(m.ID, m.Value)}
		}))
	proc.Step(in)
	return nil
}

func (b *barring[TTx]) take(_ context.Context, tx TTx, m skald.Received[string]) (inbox.Result, error) {
	if err := b.on.update(tx, m.Value, func(old string) string { return old + "took " }); err != nil {
		return inbox.Result{}, err
	}
	_, redriven, err := b.on.get(tx, "redriven")
	switch {
	case err != nil:
		return inbox.Result{}, err
	case m.Value == "no":
		return inbox.Result{}, skald.Reject(errors.New("declined"))
	case m.Value == "never" && !redriven:
		return inbox.Result{}, skald.Permanent(errors.New("never"))
	case b.runs[m.Value] > 0:
		b.runs[m.Value]--
		return inbox.Result{}, errors.New("not yet")
	}
	if m.Value == "plain" {
		return inbox.Result{Code: 1}, nil
	}
	return inbox.Result{}, nil
}

func (b *barring[TTx]) undo(_ context.Context, tx TTx, m skald.Received[string],
	_ inbox.DoneStep) (inbox.Result, error) {
	return inbox.Result{}, b.on.update(tx, m.Value, func(old string) string { return old + "undid " })
}

// stepRedriver redrives dead letters once the cause is removed.
type stepRedriver[TTx any] struct {
	on   *ground[TTx]
	db   store.Driver[TTx]
	turn int
	told bool // the cause is removed
}

func (r *stepRedriver[TTx]) Step(ctx context.Context) (bool, error) {
	if r.turn++; r.turn < 12 {
		return true, nil
	}
	if !r.told {
		if err := r.on.put("redriven", "yes"); err != nil {
			return true, err
		}
		r.told = true
	}
	yes := true
	dead, err := store.ListParked(ctx, r.db, store.ParkedQuery{Dead: &yes, Bare: true, Limit: 10})
	if err != nil || len(dead) == 0 || dead[0].Dead.Kind != "permanent" {
		return false, err
	}
	_, err = r.db.Apply(ctx, store.Effect{Requeue: &store.Requeue{Consumer: dead[0].Consumer,
		Identity: dead[0].Identity}})
	return true, err
}

// holds checks each saga: its step took effect once and was then undone once, or never took effect.
func (b *barring[TTx]) holds() error {
	user, err := b.on.user()
	want := map[string][]string{"alone": {"took"}, "no": {""}, "none": {""}}
	takes, undoes := b.sagas()
	for _, saga := range append(takes, undoes...) {
		allowed, some := want[saga]
		if !some {
			allowed = []string{"", "took undid"}
		}
		got, ok := strings.TrimSpace(user[saga]), false
		for _, a := range allowed {
			ok = ok || got == a
		}
		if !ok {
			err = errors.Join(err, fmt.Errorf("%s has %q", saga, got))
		}
	}
	return errors.Join(err, empty(b.on.raw))
}

// answered checks that each compensation was answered, with or without an undo, and that each message has a
// verdict.
func (b *barring[TTx]) answered() error {
	keys, err := b.on.said()
	said := map[string]int{}
	for _, key := range keys {
		said[key]++
	}
	takes, undoes := b.sagas()
	for i := range undoes {
		if id := b.message(called, i, undoes[i]).ID; said[id] != 1 {
			err = errors.Join(err, fmt.Errorf("%s is answered %d times", id, said[id]))
		}
	}
	marks, bad := b.on.marked()
	if n := len(marks); n != len(takes)+len(undoes) {
		err = errors.Join(err, fmt.Errorf("%d of %d messages have a verdict", n, len(takes)+len(undoes)))
	}
	return errors.Join(err, bad)
}

// TestExploreStepsEverySingleFault injects each fault at each I/O of steps and their compensations, across
// topics, keys and processes.
// Interleaving 1.
func TestExploreStepsEverySingleFault(t *testing.T) {
	sagatest.Explore(t, buildBarring(inMemory, nil),
		&sagatest.Options{Rest: 40 * time.Second, Sample: sampled(200), Failures: 3})
}

// TestSeededBugsOfSteps: each bug removes a safeguard of steps.
// Interleaving 1.
func TestSeededBugsOfSteps(t *testing.T) {
	for name, wrap := range map[string]func(db) db{
		"a mark taken for an effect":          func(d db) db { return markIsEffect{d} },
		"nothing to undo, and nothing barred": func(d db) db { return barsNothing{d} },
		"a step taken without a look":         func(d db) db { return takesBlindly{d} },
		"a barred step parked over its bar":   func(d db) db { return parksOver{d} },
	} {
		t.Run(name, func(t *testing.T) {
			r, err := sagatest.Search(t.Context(), buildBarring(inMemory, wrap),
				&sagatest.Options{Rest: 40 * time.Second})
			if err != nil {
				t.Fatal(err)
			}
			// Or the world is never idle: a message in progress during a move of its shard is parked first,
			// and the bug then retries it forever.
			if len(r.Failures) == 0 || foundBy(r.Failures[0], "taken_and_undone_once_or_never") == "" &&
				foundBy(r.Failures[0], "rest") == "" {
				t.Fatalf("no invariant finds it: %v %+v", r, r.Failures)
			}
			t.Logf("%v in %d schedules: %s", r.Failures[0].Schedule, r.Schedules, r.Failures[0].Broken[0])
		})
	}
}

type stoodUnit struct {
	store.Unit[*memstore.Tx]
	steps []store.Step
}

func (u stoodUnit) Found() store.Found {
	f := u.Unit.Found()
	f.Steps = u.steps
	return f
}

// markIsEffect adds a bug: it refunds for any mark or arrived message, even if no money was taken.
type markIsEffect struct{ db }

func (d markIsEffect) Begin(ctx context.Context, in store.Intake) (store.Unit[*memstore.Tx], error) {
	u, err := d.db.Begin(ctx, in)
	if err != nil {
		return nil, err
	}
	steps := append([]store.Step(nil), u.Found().Steps...)
	for i := range steps {
		if in.Steps[i].State == store.StepUndone && (steps[i].State == store.StepRejected ||
			steps[i].State == store.StepParked || steps[i].State == store.StepDead) {
			steps[i].State = store.StepDone
		}
	}
	return stoodUnit{u, steps}, nil
}

// barsNothing adds a bug: it reads the state of a step, but does not bar the step.
type barsNothing struct{ db }

func (d barsNothing) Begin(ctx context.Context, in store.Intake) (store.Unit[*memstore.Tx], error) {
	if len(in.Steps) == 0 || in.Steps[0].State != store.StepUndone {
		return d.db.Begin(ctx, in)
	}
	look, err := d.db.Begin(ctx, store.Intake{Steps: in.Steps, Wait: in.Wait})
	if err != nil {
		return nil, err
	}
	steps := look.Found().Steps
	if _, err := look.Rollback(ctx); err != nil {
		return nil, err
	}
	in.Steps = nil
	u, err := d.db.Begin(ctx, in)
	if err != nil {
		return nil, err
	}
	return stoodUnit{u, steps}, nil
}

// takesBlindly adds a bug: it handles a step in any state. Rejected steps are excluded, because they have
// another safeguard.
type takesBlindly struct{ db }

func (d takesBlindly) Begin(ctx context.Context, in store.Intake) (store.Unit[*memstore.Tx], error) {
	u, err := d.db.Begin(ctx, in)
	if err != nil || len(in.Steps) == 0 || in.Steps[0].State != store.StepDone || in.Steps[0].Saga == "no" {
		return u, err
	}
	return stoodUnit{u, []store.Step{{}}}, nil
}

// parksOver adds a bug: it loses the state of a step when the step's message is parked.
type parksOver struct{ db }

func (d parksOver) Begin(ctx context.Context, in store.Intake) (store.Unit[*memstore.Tx], error) {
	u, err := d.db.Begin(ctx, in)
	if err != nil || len(in.Marks) == 0 || in.Marks[0].KeyOrder != store.Retrying || len(in.Steps) == 0 ||
		in.Steps[0].State != store.StepDone {
		return u, err
	}
	return stoodUnit{u, []store.Step{{State: store.StepParked}}}, nil
}
