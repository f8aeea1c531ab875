package inbox_test

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/inbox"
	"github.com/skald-go/skald/sagatest"
	"github.com/skald-go/skald/store"
)

// mortuary is a till with a process that crashes in the charge of an order or, before that, when it reads the
// step.
type mortuary struct {
	*till
	sessions int
	// the charge, or reading the step, crashes the process
	crashes, unreadable func(p purchase) bool
}

// live runs one session until it dies or nothing is left to do. It reports whether the session died.
func (m *mortuary) live() (died bool) {
	m.t.Helper()
	m.sessions++
	session := sagatest.NewFaults(uint64(m.sessions), sagatest.None()).Session()
	in := inbox.New(sagatest.WrapDriver(store.Driver[tx](m.db), session),
		sagatest.WrapBroker(m.bus.Client(), session), "stock",
		&inbox.Options{Now: m.clock, Logger: slog.New(slog.DiscardHandler),
			Instance: inbox.Instance{Member: "one"}, Retry: inbox.Retry{InitialInterval: time.Millisecond}})
	unreadable := inbox.NewStep(in, "charge", func(r skald.Received[purchase]) string {
		if m.unreadable(r.Value) {
			_ = session.Die()
		}
		return r.Value.Order
	}, inbox.Occurrence(change), inbox.Begun(begun))
	inbox.DoOn(unreadable, placed, func(ctx context.Context, tx tx,
		r skald.Received[purchase]) (inbox.Result, error) {
		if m.crashes(r.Value) {
			return inbox.Result{}, session.Die()
		}
		return m.till.charge(ctx, tx, r)
	}, inbox.IfBarred(func(r skald.Received[purchase]) []skald.Draft {
		return []skald.Draft{answer.New(r.Value.Order, "barred")}
	}))
	inbox.UndoOn(charge(in), cancelled, m.refund,
		inbox.Reply(func(r skald.Received[purchase], was store.StepState) []skald.Draft {
			return []skald.Draft{answer.New(r.Value.Order, "cancelled: "+was.String())}
		}))
	for range 1000 {
		busy, err := in.Step(m.t.Context())
		select {
		case <-session.Died():
			return true
		default:
		}
		if err != nil {
			m.t.Fatal(err)
		}
		if !busy {
			if err := in.Close(m.t.Context()); err != nil {
				m.t.Fatal(err)
			}
			return false
		}
	}
	m.t.Fatal("never quiet")
	return false
}

// rest runs sessions until one does not die.
func (m *mortuary) rest() (deaths int) {
	m.t.Helper()
	for ; m.live(); deaths++ {
		if deaths > 20 {
			m.t.Fatalf("it still dies: %+v", m.kept())
		}
		m.pass(2 * time.Minute)
	}
	return deaths
}

// A charge crashes its process each time, before the store has an attempt. It becomes a dead letter of its
// step. Its compensation deletes it, and the messages of its key continue without a redrive.
// Interleaving 12.
func TestCrashingStepFreesItsKey(t *testing.T) {
	crashes := func(p purchase) bool { return p.Order == "a" }
	never := func(purchase) bool { return false }
	m := &mortuary{till: newTill(t, nil), crashes: crashes, unreadable: never}
	m.publish(m.message(placed, "k", purchase{Order: "a"}), m.message(placed, "k", purchase{Order: "b"}))
	if deaths := m.rest(); deaths != 6 {
		t.Errorf("%d deaths", deaths)
	}
	m.stands("a", store.StepDead)
	if dead := m.dead(); len(dead) != 1 || dead[0].Dead.Kind != "crash" || dead[0].CrashCount != 3 {
		t.Fatalf("dead: %+v", dead)
	}
	m.publish(m.message(cancelled, "l", purchase{Order: "a"}))
	for range 2 { // the letter is handled after its compensation
		if deaths := m.rest(); deaths != 0 {
			t.Errorf("%d deaths after the compensation", deaths)
		}
		m.pass(2 * time.Minute)
	}
	m.rest()
	m.says("cancelled: dead", "barred")
	m.expect("a", "")
	m.expect("b", "charged")
	if kept := m.kept(); len(kept) != 0 {
		t.Errorf("kept: %+v", kept)
	}
}

// Reading the step of a message crashes the process, so the step is unknown. The message also becomes a dead
// letter, and its compensation is answered.
// Interleaving 12.
func TestCrashBeforeTheStepIsKnown(t *testing.T) {
	crashes := func(p purchase) bool { return p.Order == "a" }
	m := &mortuary{till: newTill(t, nil), crashes: crashes, unreadable: crashes}
	m.publish(m.message(placed, "k", purchase{Order: "a"}))
	m.rest()
	if dead := m.dead(); len(dead) != 1 || dead[0].Dead.Kind != "crash" || dead[0].CrashCount != 6 ||
		!dead[0].Dead.BlocksKey || !strings.Contains(dead[0].Last.Why, "while reading its step") {
		t.Fatalf("dead: %+v", dead)
	}
	m.publish(m.message(cancelled, "l", purchase{Order: "a"}))
	if deaths := m.rest(); deaths != 0 {
		t.Errorf("%d deaths after the compensation", deaths)
	}
	m.says("cancelled: absent")
	m.stands("a", store.StepBarred)
}

// A step is barred between the failure of its message and its dead letter, which then blocks no key.
func TestStepIsBarredWhileItsMessageDies(t *testing.T) {
	b := &dying{}
	l := tillOver(t, &inbox.Options{Retry: inbox.Retry{Attempts: 1}},
		func(db store.Driver[tx]) store.Driver[tx] { b.Driver = db; return b })
	l.fail = errors.New("no")
	b.happens = func() {
		undo := store.Step{Consumer: "stock", Saga: "a", Name: "charge", State: store.StepUndone,
			Identity: store.Identity{Source: "/other", ID: "undo"}}
		u, err := l.db.Begin(t.Context(), store.Intake{Steps: []store.Step{undo}})
		if err == nil {
			err = u.Commit(t.Context())
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	l.publish(l.message(placed, "k", purchase{Order: "a"}))
	l.quiet(l.in)
	if b.happens != nil || len(l.dead()) != 1 {
		t.Fatalf("kept %+v", l.kept())
	}
	l.stands("a", store.StepBarred)
	l.fail = nil
	l.publish(l.message(placed, "k", purchase{Order: "b"}))
	l.quiet(l.in)
	l.expect("b", "charged")
	if dead := l.dead(); len(dead) != 1 || dead[0].Dead.BlocksKey {
		t.Errorf("dead: %+v", dead)
	}
}

// dying is a driver that calls a function once, before a dead letter is stored.
type dying struct {
	store.Driver[tx]
	happens func()
}

func (d *dying) Begin(ctx context.Context, in store.Intake) (store.Unit[tx], error) {
	u, err := d.Driver.Begin(ctx, in)
	return dyingUnit{u, d}, err
}

type dyingUnit struct {
	store.Unit[tx]
	d *dying
}

func (u dyingUnit) Rollback(ctx context.Context, instead ...store.Effect) ([]bool, error) {
	happens := u.d.happens
	if happens == nil || len(instead) == 0 || instead[0].Park == nil || instead[0].Park.Dead == nil {
		return u.Unit.Rollback(ctx, instead...)
	}
	u.d.happens = nil
	if _, err := u.Unit.Rollback(ctx); err != nil {
		return nil, err
	}
	happens()
	return u.d.Apply(ctx, instead...)
}
