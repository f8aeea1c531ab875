package inbox_test

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"time"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/call"
	"github.com/skald-go/skald/inbox"
	"github.com/skald-go/skald/store"
)

// worker is a till with a bank that charges and refunds. A refund refers to the charge of an order.
type worker struct {
	*till
	bank *bank
}

func newDesk(t *testing.T) *worker { return deskOver(t, nil) }

func deskOver(t *testing.T, wrap func(store.Driver[tx]) store.Driver[tx]) *worker {
	d := &worker{tillOver(t, &inbox.Options{Retry: inbox.Retry{InitialInterval: time.Second,
		MaxInterval: time.Second}}, wrap),
		&bank{}}
	how := call.Call[tx, purchase, string, string]{
		At: call.NewProvider("bank", &call.ProviderOptions{Timeout: time.Second}), Do: d.bank.do,
		LookUp: d.bank.lookUp, Cancel: d.bank.cancel,
	}
	charging, refunding := how, how
	charging.Intent = func(_ context.Context, _ tx, m skald.Received[purchase]) (string, string, error) {
		return m.Value.Order, "charge-" + m.Value.Order, nil
	}
	charging.Settle = func(_ context.Context, tx tx, m skald.Received[purchase],
		o call.Outcome[string]) error {
		if o.Refused {
			return skald.Reject(errors.New(o.Reason), answer.New(m.Value.Order, "declined"))
		}
		return note(tx, m.Value.Order, "charged")
	}
	refunding.Intent = func(ctx context.Context, _ tx, m skald.Received[purchase]) (string, string, error) {
		took, ok := inbox.DoneStepOf(ctx)
		if !ok || took.Step.Saga != m.Value.Order || took.ID.ID == "" {
			return "", "", skald.Permanent(errors.New("it is not said what is to be undone"))
		}
		return m.Value.Order, "refund-" + m.Value.Order, nil
	}
	refunding.Settle = func(ctx context.Context, tx tx, m skald.Received[purchase],
		o call.Outcome[string]) error {
		if _, ok := inbox.DoneStepOf(ctx); !ok || o.Refused {
			return skald.Reject(errors.New(o.Reason), answer.New(m.Value.Order, "not refunded"))
		}
		return note(tx, m.Value.Order, "refunded")
	}
	barred := func(m skald.Received[purchase]) []skald.Draft {
		return []skald.Draft{answer.New(m.Value.Order, "barred")}
	}
	step := charge(d.in)
	inbox.DoCallOn(step, placed, charging, inbox.IfBarred(barred))
	inbox.UndoCallOn(step, cancelled, refunding,
		inbox.Reply(func(m skald.Received[purchase], was store.StepState) []skald.Draft {
			return []skald.Draft{answer.New(m.Value.Order, "cancelled: "+was.String())}
		}))
	return d
}

// A call undoes a charge once, at any time and for any message.
func TestCompensationByCall(t *testing.T) {
	d := newDesk(t)
	d.come(placed, purchase{Order: "a"})
	d.stands("a", store.StepDone)
	var second skald.Message
	d.bank.during = func(key string) {
		d.stands("a", store.StepCalling)
		second = d.message(cancelled, "other", purchase{Order: "a"})
	}
	d.come(cancelled, purchase{Order: "a"})
	d.bank.during = nil
	d.stands("a", store.StepUndone)
	d.publish(second)
	d.quiet(d.in)
	d.come(placed, purchase{Order: "a"})
	d.expect("a", "charged refunded")
	d.says("cancelled: done", "cancelled: undone", "barred")
	if d.bank.asked() != "do charge-a, do refund-a" || len(d.kept()) != 0 {
		t.Errorf("asked %s, kept %+v", d.bank.asked(), d.kept())
	}
}

// A second undo of a step waits while the first one is in progress. It does not void the key of the
// refund.
func TestCompensationBesideCompensationByCall(t *testing.T) {
	d := newDesk(t)
	d.come(placed, purchase{Order: "a"})
	d.bank.moods = []string{"before"} // the outcome of the refund is unknown
	d.come(cancelled, purchase{Order: "a"})
	d.publish(d.message(cancelled, "other", purchase{Order: "a"}))
	d.quiet(d.in)
	d.stands("a", store.StepCalling)
	if kept := d.kept(); len(kept) != 2 || kept[0].Call.Undo || kept[1].Attempts != 0 {
		t.Fatalf("kept %+v", kept)
	}
	for range 5 {
		d.pass(time.Minute)
		d.quiet(d.in)
	}
	d.expect("a", "charged refunded")
	d.says("cancelled: done", "cancelled: undone")
	if d.bank.moved["refund-a"] != 1 || d.in.Health().UnknownSettled != 1 {
		t.Errorf("moved %v, health %+v", d.bank.moved, d.in.Health())
	}
}

// meanwhile is a driver that calls a function once, between the two transactions of an intent.
type meanwhile struct {
	store.Driver[tx]
	happens func()
}

func (d *meanwhile) Begin(ctx context.Context, in store.Intake) (store.Unit[tx], error) {
	u, err := d.Driver.Begin(ctx, in)
	return meanwhileUnit{u, d}, err
}

type meanwhileUnit struct {
	store.Unit[tx]
	d *meanwhile
}

func (u meanwhileUnit) Rollback(ctx context.Context, instead ...store.Effect) ([]bool, error) {
	happens := u.d.happens
	if happens == nil || len(instead) == 0 || instead[0].Park == nil || instead[0].Park.Call == nil {
		return u.Unit.Rollback(ctx, instead...)
	}
	u.d.happens = nil
	if _, err := u.Unit.Rollback(ctx); err != nil {
		return nil, err
	}
	happens()
	return u.d.Apply(ctx, instead...)
}

// A message is parked while another message of the same key, from another topic, stores its intent. The
// one with the call must not wait behind the parked one: the parked one waits for the call.
// Interleaving 8.
func TestIntentBehindWhatWasParkedMeanwhile(t *testing.T) {
	b := &meanwhile{}
	d := deskOver(t, func(db store.Driver[tx]) store.Driver[tx] { b.Driver = db; return b })
	d.come(placed, purchase{Order: "a"})
	b.happens = func() {
		m := d.message(cancelled, "a/"+cancelled.Type, purchase{Order: "a"})
		d.apply(store.Effect{Park: &store.Park{Parked: store.Parked{Consumer: "stock",
			Identity: store.Identity{Source: m.Source, ID: m.ID}, Message: m, Due: time.Second}}})
	}
	d.come(cancelled, purchase{Order: "a"})
	if b.happens != nil {
		t.Fatal("nothing was intended")
	}
	for range 5 {
		d.pass(time.Minute)
		d.quiet(d.in)
	}
	d.stands("a", store.StepUndone)
	d.expect("a", "charged refunded")
	d.says("cancelled: done", "cancelled: undone")
	if d.bank.asked() != "do charge-a, do refund-a" || len(d.kept()) != 0 {
		t.Errorf("asked %s, kept %+v", d.bank.asked(), d.kept())
	}
}

// No refund is made without a charge: not after a declined charge, and not if no charge came.
func TestCompensationByCallOfNothing(t *testing.T) {
	d := newDesk(t)
	d.bank.moods = []string{"refuse"}
	d.come(placed, purchase{Order: "a"})
	d.come(cancelled, purchase{Order: "a"})
	d.come(cancelled, purchase{Order: "b"})
	d.come(placed, purchase{Order: "b"})
	d.expect("a", "")
	d.expect("b", "")
	d.says("declined", "cancelled: rejected", "cancelled: absent", "barred")
	if d.bank.asked() != "do charge-a" {
		t.Errorf("asked %s", d.bank.asked())
	}
}

// A charge in progress is voided first; if it took effect, it is refunded.
func TestCompensationByCallOfACallUnderWay(t *testing.T) {
	for mood, want := range map[string]string{"before": "", "after": "charged refunded"} {
		d := newDesk(t)
		d.bank.moods = []string{mood}
		d.come(placed, purchase{Order: "a"})
		d.stands("a", store.StepCalling)
		d.come(cancelled, purchase{Order: "a"})
		for range 5 {
			d.pass(time.Minute)
			d.quiet(d.in)
		}
		d.expect("a", want)
		if len(d.kept()) != 0 || d.bank.moved["charge-a"] != d.bank.moved["refund-a"] {
			t.Errorf("%s: moved %v, kept %+v", mood, d.bank.moved, d.kept())
		}
	}
}

// A refund that is refused for good leaves the step done.
func TestRefusedCompensationByCall(t *testing.T) {
	d := newDesk(t)
	d.come(placed, purchase{Order: "a"})
	d.bank.moods = []string{"refuse"}
	d.come(cancelled, purchase{Order: "a"})
	d.stands("a", store.StepDone)
	d.come(cancelled, purchase{Order: "a"}) // another undo may succeed
	d.expect("a", "charged refunded")
	d.says("not refunded", "cancelled: done")
}

// A step that was done before Skald recorded it is undone, too, once, and is not done again.
func TestLegacySteps(t *testing.T) {
	for _, outside := range []bool{false, true} {
		d := newDesk(t)
		if !outside {
			d.till = newTill(t, &inbox.Options{Logger: slog.New(slog.DiscardHandler)})
			inbox.Overridable(d.in)
			inbox.UndoOn(charge(d.in), cancelled,
				func(_ context.Context, tx tx, m skald.Received[purchase], _ inbox.DoneStep) (inbox.Result,
					error) {
					return inbox.Result{}, note(tx, m.Value.Order, "refunded")
				})
		} else {
			refund := d.refundOfAnything()
			inbox.Overridable(d.in)
			inbox.UndoCallOn(charge(d.in), cancelled, refund)
		}
		d.in.LegacySteps(func(_ context.Context, tx tx, s inbox.StepID, undo bool) (bool, error) {
			was, there := tx.Get("hand " + s.Saga)
			if there {
				return was == "taken", nil
			}
			state := "taken"
			if undo {
				state = "barred"
			}
			return false, tx.Put("hand "+s.Saga, state)
		})
		mine := d.db.BeginTx()
		if err := errors.Join(mine.Put("hand old", "taken"), mine.Put("hand elder", "taken"),
			mine.Put("hand gone", "barred"), mine.Commit()); err != nil {
			t.Fatal(err)
		}
		d.come(placed, purchase{Order: "old"})
		d.expect("old", "")
		d.come(cancelled, purchase{Order: "old"})
		d.come(cancelled, purchase{Order: "old"})
		d.come(cancelled, purchase{Order: "elder"})
		d.come(cancelled, purchase{Order: "elder"})
		d.come(cancelled, purchase{Order: "gone"})
		d.come(cancelled, purchase{Order: "none"})
		d.expect("old", "refunded")
		d.expect("elder", "refunded")
		d.expect("gone", "")
		d.expect("none", "")
		d.expect("hand none", "barred")
		if len(d.kept()) != 0 {
			t.Errorf("kept %+v", d.kept())
		}
	}
}

// Without a lookup, a step that no message has done is done.
func TestNoLegacyLookup(t *testing.T) {
	l := newTill(t, nil)
	l.in.LegacySteps(nil)
	l.come(placed, purchase{Order: "a"})
	l.expect("a", "charged")
}

func (d *worker) refundOfAnything() call.Call[tx, purchase, string, string] {
	return call.Call[tx, purchase, string, string]{
		At: call.NewProvider("bank", nil), Do: d.bank.do,
		Intent: func(_ context.Context, _ tx, m skald.Received[purchase]) (string, string, error) {
			return m.Value.Order, "refund-" + m.Value.Order, nil
		},
		Settle: func(_ context.Context, tx tx, m skald.Received[purchase], _ call.Outcome[string]) error {
			return note(tx, m.Value.Order, "refunded")
		},
	}
}

// A dead letter freed its key, and is redriven in one of three states: another message of the key calls to
// undo its step, or died during that call, or is about to make it. Neither waits for the other forever.
// Interleaving 8.
func TestRedriveNextToACallOfItsKey(t *testing.T) {
	for _, when := range []string{"at the call", "dead at the call", "before the call"} {
		t.Run(when, func(t *testing.T) {
			b := &meanwhile{}
			d := deskOver(t, func(db store.Driver[tx]) store.Driver[tx] { b.Driver = db; return b })
			letter := func(e skald.Event[purchase]) store.Parked {
				m := d.message(e, "k", purchase{Order: "a"})
				return store.Parked{Consumer: "stock", Identity: store.Identity{Source: m.Source, ID: m.ID},
					Message: m, Attempts: 1}
			}
			refund, charging := letter(cancelled), letter(placed)
			refund.Dead = &store.Death{Kind: "attempts"}
			d.apply(store.Effect{Park: &store.Park{Parked: refund}},
				store.Effect{Park: &store.Park{Parked: charging}})
			redrive := func() {
				d.apply(store.Effect{Requeue: &store.Requeue{Consumer: "stock", Identity: refund.Identity}})
			}
			d.bank.moods = []string{"before"} // the outcome of the charge is unknown
			if when == "before the call" {
				b.happens = redrive
			}
			d.quiet(d.in)
			if when == "dead at the call" {
				p := d.kept()[1]
				was := p.Attempts
				p.Dead = &store.Death{Kind: "attempts"}
				d.apply(store.Effect{Park: &store.Park{Parked: p, Was: &was, WasCall: p.Call.Key}})
			}
			if b.happens != nil {
				t.Fatal("nothing was intended")
			}
			if when != "before the call" {
				d.stands("a", store.StepCalling)
				redrive()
			}
			for range 8 {
				d.pass(time.Minute)
				d.quiet(d.in)
			}
			if kept := d.kept(); len(kept) != 0 {
				t.Errorf("asked %s, kept %+v", d.bank.asked(), kept)
			}
			if charged, refunded := d.bank.moved["charge-a"], d.bank.moved["refund-a"]; charged != refunded {
				t.Errorf("charged %d times, refunded %d times", charged, refunded)
			}
		})
	}
}

// falling is a driver that never stores an intent.
type falling struct {
	store.Driver[tx]
	intents int
}

func (d *falling) Begin(ctx context.Context, in store.Intake) (store.Unit[tx], error) {
	u, err := d.Driver.Begin(ctx, in)
	return fallingUnit{u, d}, err
}

type fallingUnit struct {
	store.Unit[tx]
	d *falling
}

func (u fallingUnit) Rollback(ctx context.Context, instead ...store.Effect) ([]bool, error) {
	if len(instead) == 0 || instead[0].Park == nil || instead[0].Park.Call == nil {
		return u.Unit.Rollback(ctx, instead...)
	}
	u.d.intents++
	_, err := u.Unit.Rollback(ctx)
	return []bool{false}, err
}

// An intent that is not stored is retried immediately, and then with growing pauses.
func TestIntentThatIsNeverStoredHasPauses(t *testing.T) {
	b := &falling{}
	d := deskOver(t, func(db store.Driver[tx]) store.Driver[tx] { b.Driver = db; return b })
	d.come(placed, purchase{Order: "a"})
	if b.intents != 2 {
		t.Errorf("%d intents immediately", b.intents)
	}
	for n := range 3 {
		d.pass(2 * time.Second) // the longest pause here is a second
		d.quiet(d.in)
		if b.intents != 3+n {
			t.Errorf("%d intents after %d pauses", b.intents, n+1)
		}
	}
}
