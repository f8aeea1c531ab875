package inbox_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/inbox"
	"github.com/skald-go/skald/internal/uuid7"
	"github.com/skald-go/skald/store"
	"github.com/skald-go/skald/store/memstore"
)

// purchase is the payload of charges and refunds.
type purchase struct {
	Order, Change string
	Begun         time.Time
	No            bool // the charge is refused
}

var (
	placed    = skald.Event[purchase]{Topic: "orders", Type: "order.placed"}
	cancelled = skald.Event[purchase]{Topic: "cancels", Type: "order.cancelled"}
	answer    = skald.Event[string]{Topic: "payments", Type: "payment.answered"}
)

func charge(in *inbox.Inbox[tx]) *inbox.Step[tx, purchase] {
	return inbox.NewStep(in, "charge", func(r skald.Received[purchase]) string { return r.Value.Order },
		inbox.Occurrence(change), inbox.Begun(begun))
}

func change(r skald.Received[purchase]) string { return r.Value.Change }

func begun(r skald.Received[purchase]) time.Time { return r.Value.Begun }

func sagaInValue(m skald.Received[string]) string { return m.Value }

// till is a consumer that charges and refunds, with two topics.
type till struct {
	*world
	in   *inbox.Inbox[tx]
	fail error // the error of the next charges
}

func newTill(t *testing.T, o *inbox.Options) *till { return tillOver(t, o, nil) }

func tillOver(t *testing.T, o *inbox.Options, wrap func(store.Driver[tx]) store.Driver[tx]) *till {
	l := &till{world: newWorld(t, 1)}
	if err := l.bus.MakeTopics(t.Context(), 1, "cancels"); err != nil {
		t.Fatal(err)
	}
	if o == nil {
		o = &inbox.Options{}
	}
	o.Now, o.Logger = l.clock, slog.New(slog.DiscardHandler)
	var db store.Driver[tx] = l.db
	if wrap != nil {
		db = wrap(db)
	}
	l.in = inbox.New(db, l.bus, "stock", o)
	step := charge(l.in)
	inbox.DoOn(step, placed, l.charge, inbox.IfBarred(func(m skald.Received[purchase]) []skald.Draft {
		return []skald.Draft{answer.New(m.Value.Order, "barred")}
	}))
	inbox.UndoOn(step, cancelled, l.refund,
		inbox.Reply(func(m skald.Received[purchase], was store.StepState) []skald.Draft {
			return []skald.Draft{answer.New(m.Value.Order, "cancelled: "+was.String())}
		}))
	inbox.Overridable(l.in)
	return l
}

func (l *till) charge(_ context.Context, t tx, m skald.Received[purchase]) (inbox.Result, error) {
	if err := note(t, m.Value.Order, "charged"); err != nil {
		return inbox.Result{}, err
	}
	if m.Value.No {
		return inbox.Result{Code: 402}, skald.Reject(errors.New("declined"),
			answer.New(m.Value.Order, "declined"))
	}
	return inbox.Result{Code: 7, Value: "receipt of " + m.ID}, l.fail
}

func (l *till) refund(_ context.Context, t tx, m skald.Received[purchase],
	took inbox.DoneStep) (inbox.Result, error) {
	if want := fmt.Sprintf("%q", "receipt of "+took.ID.ID); took.Code != 7 || string(took.Result) != want ||
		took.Step.Saga != m.Value.Order {
		return inbox.Result{}, skald.Permanent(fmt.Errorf("to be undone is %+v", took))
	}
	return inbox.Result{}, note(t, m.Value.Order, "refunded")
}

func (l *till) message(e skald.Event[purchase], key string, p purchase) skald.Message {
	l.t.Helper()
	l.n++
	m := skald.Message{ID: fmt.Sprintf("m-%d", l.n), Source: "/other", Type: e.Type, Topic: e.Topic,
		Key: []byte(key)}
	if err := (skald.JSON{}).Encode(l.t.Context(), &m, p); err != nil {
		l.t.Fatal(err)
	}
	return m
}

// come publishes a message and runs until it is handled.
func (l *till) come(e skald.Event[purchase], p purchase) skald.Message {
	l.t.Helper()
	m := l.message(e, p.Order+"/"+e.Type, p) // with its own key: only the step connects the two
	l.publish(m)
	l.quiet(l.in)
	return m
}

// holds parks a message as a suspect, before its step was read.
func (l *till) holds(m skald.Message) {
	l.t.Helper()
	l.apply(store.Effect{Park: &store.Park{Parked: store.Parked{Consumer: "stock",
		Identity: store.Identity{Source: m.Source, ID: m.ID}, Message: m}}})
}

// forgets moves the clock until earlier steps have expired.
func (l *till) forgets() {
	l.t.Helper()
	l.pass(91 * 24 * time.Hour)
	if _, err := l.db.Maintain(l.t.Context(), store.Maintain{}); err != nil {
		l.t.Fatal(err)
	}
}

// says checks the published messages, in order and without quotes.
func (l *till) says(want ...string) {
	l.t.Helper()
	var got []string
	for _, r := range l.db.Rows() {
		got = append(got, strings.Trim(string(r.Data), `"`))
	}
	if !slices.Equal(got, want) {
		l.t.Errorf("said %q, want %q", got, want)
	}
}

func (l *till) stands(order string, want store.StepState) {
	l.t.Helper()
	for _, s := range l.db.Steps() {
		if s.Saga == order && s.State == want {
			return
		}
	}
	l.t.Errorf("the step of %s is not %v: %+v", order, want, l.db.Steps())
}

func (l *till) marked(m skald.Message, want store.Outcome) {
	l.t.Helper()
	got, err := l.db.Seen(l.t.Context(), "stock", []store.Identity{{Source: m.Source, ID: m.ID}})
	if err != nil || got[0].Outcome != want {
		l.t.Errorf("%s is %+v, want %v (%v)", m.ID, got, want, err)
	}
}

// Interleaving 1.
func TestCompensationUndoesWhatTookEffectOnce(t *testing.T) {
	l := newTill(t, nil)
	l.come(placed, purchase{Order: "a"})
	for range 3 { // under different ids
		l.come(cancelled, purchase{Order: "a"})
	}
	again := l.come(placed, purchase{Order: "a"})
	l.marked(again, store.Barred)
	l.expect("a", "charged refunded")
	l.says("cancelled: done", "cancelled: undone", "cancelled: undone", "barred")
	l.stands("a", store.StepUndone)
}

// Interleaving 1.
func TestCompensationBarsItsLateAction(t *testing.T) {
	l := newTill(t, nil)
	l.come(cancelled, purchase{Order: "a"})
	late := l.come(placed, purchase{Order: "a"})
	l.marked(late, store.Barred)
	l.publish(late)
	l.quiet(l.in)
	l.come(cancelled, purchase{Order: "a"})
	l.expect("a", "")
	l.says("cancelled: absent", "barred", "cancelled: barred")
	if h := l.in.Health(); h.Barred != 1 || h.Duplicates != 1 || h.Failures != 0 || len(l.kept()) != 0 {
		t.Errorf("%+v, kept %v", h, l.kept())
	}
	// Another order, and another charge of this one, are independent.
	l.come(placed, purchase{Order: "b"})
	l.come(placed, purchase{Order: "a", Change: "2"})
	l.expect("b", "charged")
	l.expect("a", "charged")
	l.come(cancelled, purchase{Order: "a", Change: "2"})
	l.expect("a", "charged refunded")
}

// The message has a mark but had no effect: money that was never charged is not refunded.
// Interleaving 1.
func TestCompensationOfARejection(t *testing.T) {
	l := newTill(t, nil)
	no := l.come(placed, purchase{Order: "a", No: true})
	l.stands("a", store.StepRejected)
	l.come(cancelled, purchase{Order: "a"})
	l.marked(no, store.Rejected)
	l.expect("a", "")
	l.says("declined", "cancelled: rejected")
	l.stands("a", store.StepBarred)
}

// A second message for a step is a duplicate of the first, with its answer.
func TestSecondMessageForAStep(t *testing.T) {
	l := newTill(t, nil)
	l.come(placed, purchase{Order: "a"})
	l.come(placed, purchase{Order: "a"})
	l.come(placed, purchase{Order: "b", No: true})
	l.come(placed, purchase{Order: "b"})
	l.expect("a", "charged")
	l.expect("b", "")
	l.says("declined")
	marks := l.db.Marks()
	if len(marks) != 4 || marks[1].Outcome != store.Done || marks[1].Code != 7 ||
		marks[1].Result != marks[0].Result ||
		marks[3].Outcome != store.Rejected || marks[3].Code != 402 || marks[3].Reason == "" {
		t.Errorf("marks %+v", marks)
	}
	if h := l.in.Health(); h.Duplicates != 2 {
		t.Errorf("%+v", h)
	}
}

// A step is barred if its message is parked when the step is undone: the message is finished as barred at
// its retry, and frees its key.
// Interleaving 1.
func TestParkedStepIsBarred(t *testing.T) {
	l := newTill(t, &inbox.Options{Retry: inbox.Retry{InitialInterval: time.Minute,
		MaxInterval: time.Minute}})
	l.fail = errors.New("not now")
	waits := l.come(placed, purchase{Order: "a"})
	next := l.message(placed, "a/order.placed", purchase{Order: "b"}) // of its key
	l.publish(next)
	l.quiet(l.in)
	l.stands("a", store.StepParked)
	l.stands("b", store.StepParked)
	l.come(cancelled, purchase{Order: "a"})
	l.fail = nil
	l.pass(10 * time.Minute)
	l.quiet(l.in)
	l.marked(waits, store.Barred)
	l.expect("a", "")
	l.expect("b", "charged")
	l.says("cancelled: parked", "barred")
	if kept := l.kept(); len(kept) != 0 {
		t.Errorf("kept %+v", kept)
	}
}

// The same for a dead letter: no redrive is necessary, and its handler does not run.
// Interleaving 1.
func TestDeadStepIsBarred(t *testing.T) {
	l := newTill(t, nil)
	l.fail = skald.Permanent(errors.New("never"))
	m := l.come(placed, purchase{Order: "a"})
	l.stands("a", store.StepDead)
	next := l.message(placed, "a/order.placed", purchase{Order: "b"}) // of its key
	l.publish(next)
	l.quiet(l.in)
	l.come(cancelled, purchase{Order: "a"})
	l.fail = nil
	l.pass(time.Minute)
	l.quiet(l.in)
	l.marked(m, store.Barred)
	l.marked(next, store.Done)
	l.expect("a", "")
	l.expect("b", "charged")
	l.says("cancelled: dead", "barred")
	if len(l.kept()) != 0 {
		t.Errorf("kept %+v", l.kept())
	}
}

// A dead letter that is redriven before it is undone takes effect, and is undone.
func TestRedrivenStepIsUndone(t *testing.T) {
	l := newTill(t, nil)
	l.fail = skald.Permanent(errors.New("never"))
	m := l.come(placed, purchase{Order: "a"})
	l.fail = nil
	l.apply(store.Effect{Requeue: &store.Requeue{Consumer: "stock",
		Identity: store.Identity{Source: m.Source, ID: m.ID}}})
	l.pass(time.Minute)
	l.quiet(l.in)
	l.stands("a", store.StepDone)
	l.come(cancelled, purchase{Order: "a"})
	l.expect("a", "charged refunded")
	l.says("cancelled: done")
}

// betweenBoth calls a function between the rollback of a rejected message and the transaction that stores
// the rejection.
type betweenBoth struct {
	store.Driver[tx]
	do func()
}

func (d *betweenBoth) Begin(ctx context.Context, in store.Intake) (store.Unit[tx], error) {
	u, err := d.Driver.Begin(ctx, in)
	return &betweenUnit{u, d}, err
}

type betweenUnit struct {
	store.Unit[tx]
	d *betweenBoth
}

func (u *betweenUnit) Rollback(ctx context.Context, instead ...store.Effect) ([]bool, error) {
	if do := u.d.do; do != nil && len(instead) > 0 {
		u.d.do = nil
		if _, err := u.Unit.Rollback(ctx); err != nil {
			return nil, err
		}
		do()
		return u.d.Apply(ctx, instead...)
	}
	return u.Unit.Rollback(ctx, instead...)
}

// A rejection that is about to be stored is not published if the step is barred meanwhile. No failure is
// parked for a barred step.
func TestStepIsBarredWhileItsMessageIsParked(t *testing.T) {
	for name, p := range map[string]purchase{"rejected": {Order: "a", No: true}, "failed": {Order: "a"}} {
		t.Run(name, func(t *testing.T) {
			between := &betweenBoth{}
			l := tillOver(t, nil,
				func(d store.Driver[tx]) store.Driver[tx] { between.Driver = d; return between })
			if !p.No {
				l.fail = errors.New("not now")
			}
			between.do = func() {
				l.fail = nil
				u, err := l.db.Begin(t.Context(),
					store.Intake{Steps: []store.Step{{Consumer: "stock", Saga: "a", Name: "charge",
						State: store.StepUndone}}})
				if err == nil {
					err = u.Commit(t.Context())
				}
				if err != nil {
					t.Error(err)
				}
			}
			m := l.come(placed, p)
			l.pass(time.Minute)
			l.quiet(l.in)
			l.marked(m, store.Barred)
			l.expect("a", "")
			l.says("barred")
			l.stands("a", store.StepBarred)
			if len(l.kept()) != 0 {
				t.Errorf("kept %+v", l.kept())
			}
		})
	}
}

// A compensation of a step that may have expired goes into quarantine. It neither undoes the step nor ends
// without an effect before an operator decides.
// Interleaving 1.
func TestCompensationThatIsTooOld(t *testing.T) {
	l := newTill(t, nil)
	began := l.clock()
	l.come(placed, purchase{Order: "a", Begun: began})
	l.come(placed, purchase{Order: "young", Begun: began.Add(60 * 24 * time.Hour)})
	l.pass(91 * 24 * time.Hour)
	if did, err := l.db.Maintain(t.Context(), store.Maintain{}); err != nil || did.Steps != 1 {
		t.Fatalf("%+v %v", did, err)
	}
	undo := l.come(cancelled, purchase{Order: "a", Begun: began})
	late := l.come(placed, purchase{Order: "b", Begun: began})
	l.come(cancelled, purchase{Order: "young", Begun: began.Add(60 * 24 * time.Hour)})
	l.come(cancelled, purchase{Order: "new", Begun: l.clock()})
	l.says("cancelled: done", "cancelled: absent")
	apart, err := store.ListQuarantined(t.Context(), l.db, store.QuarantineQuery{})
	if err != nil || len(apart) != 2 || apart[0].ID != undo.ID || apart[1].ID != late.ID ||
		apart[0].Why != store.TooOld {
		t.Fatalf("in quarantine are %+v (%v)", apart, err)
	}
	if h := l.in.Health(); h.TooOld != 2 {
		t.Errorf("%+v", h)
	}
}

// A step with a correlation id of an engine expires as one with the id of its saga. A step without a time
// is kept.
func TestStepNamedByCorrelationIsForgotten(t *testing.T) {
	l := newTill(t, nil)
	id := uuid7.New(l.clock())
	for _, saga := range []string{id, "saga:order:o-1:" + id, "o-1", "customer:" + id} {
		l.come(placed, purchase{Order: saga})
	}
	l.pass(91 * 24 * time.Hour)
	if did, err := l.db.Maintain(t.Context(), store.Maintain{}); err != nil || did.Steps != 2 {
		t.Errorf("of four steps two have the begin of their saga: %+v, %v", did, err)
	}
}

// A message was parked before its step was read, as a suspect. When it is handled, its step may have been
// done and have expired: it goes into quarantine. A message with a stored step does not, at any age.
func TestHeldStepThatIsTooOld(t *testing.T) {
	l := newTill(t, nil)
	began := l.clock()
	l.come(placed, purchase{Order: "a", Begun: began})
	l.fail = errors.New("the till is shut")
	l.come(placed, purchase{Order: "b", Begun: began})
	l.forgets()
	m := l.message(placed, "k", purchase{Order: "a", Begun: began})
	l.holds(m)
	l.fail = nil
	l.pass(time.Minute)
	l.quiet(l.in)
	apart, err := store.ListQuarantined(t.Context(), l.db, store.QuarantineQuery{})
	if err != nil || len(apart) != 1 || apart[0].ID != m.ID || apart[0].Why != store.TooOld ||
		len(l.kept()) != 0 {
		t.Fatalf("in quarantine are %+v (%v), kept %+v", apart, err, l.kept())
	}
	l.expect("a", "charged")
	l.expect("b", "charged")
}

// A compensation that was parked for so long goes into quarantine, too, and frees its key.
func TestHeldCompensationThatIsTooOld(t *testing.T) {
	l := newTill(t, nil)
	began := l.clock()
	l.come(placed, purchase{Order: "a", Begun: began})
	l.forgets()
	m := l.message(cancelled, "k", purchase{Order: "a", Begun: began})
	l.holds(m)
	l.pass(time.Minute)
	l.quiet(l.in)
	apart, err := store.ListQuarantined(t.Context(), l.db, store.QuarantineQuery{})
	if err != nil || len(apart) != 1 || apart[0].ID != m.ID || len(l.kept()) != 0 {
		t.Fatalf("in quarantine are %+v (%v), kept %+v", apart, err, l.kept())
	}
	l.says()
	if n, err := store.AdmitAll(t.Context(), l.db, []int64{apart[0].Number},
		"ann", "the money was taken"); err != nil || n != 1 {
		t.Fatal(n, err)
	}
	l.pass(time.Minute)
	l.quiet(l.in)
	if dead := l.dead(); len(dead) != 1 || !strings.Contains(dead[0].Last.Why, "to be undone is") {
		// the step that it has to undo has expired
		t.Errorf("dead letters %+v", dead)
	}
}

// An operator admits a charge that is too old, and it is handled. If it was barred meanwhile, it is not.
func TestAdmittedStep(t *testing.T) {
	l := newTill(t, nil)
	began := l.clock()
	l.come(placed, purchase{Order: "x", Begun: began})
	l.forgets()
	l.come(placed, purchase{Order: "a", Begun: began})
	l.come(placed, purchase{Order: "b", Begun: began})
	l.apply(store.Effect{Step: &store.Step{Consumer: "stock", Saga: "b", Name: "charge", Begun: began,
		State: store.StepBarred, From: []store.StepState{store.StepAbsent}}})
	if n, err := store.AdmitAll(t.Context(), l.db, []int64{1, 2}, "ann", "looked it up"); err != nil ||
		n != 2 {
		t.Fatal(n, err)
	}
	l.pass(time.Minute)
	l.quiet(l.in)
	l.expect("a", "charged")
	l.expect("b", "")
	l.says("barred")
	l.stands("a", store.StepDone)
	l.come(cancelled, purchase{Order: "a", Begun: began})
	l.expect("a", "charged refunded")
}

// While an outside call is in progress, a message that would undo the step or do it again waits. No failure
// counts.
func TestStepWithACallUnderWay(t *testing.T) {
	l := newTill(t, nil)
	call := store.Step{Consumer: "stock", Saga: "a", Name: "charge", State: store.StepCalling,
		Identity: store.Identity{ID: "call"}, From: []store.StepState{store.StepAbsent}}
	l.apply(store.Effect{Step: &call})
	l.come(cancelled, purchase{Order: "a"})
	l.pass(time.Hour)
	l.quiet(l.in)
	if kept := l.kept(); len(kept) != 1 || kept[0].Attempts != 0 {
		t.Fatalf("kept %+v", kept)
	}
	l.stands("a", store.StepCalling)
	call.State, call.From, call.Code, call.Result = store.StepDone, []store.StepState{store.StepCalling}, 7,
		`"receipt of call"`
	l.apply(store.Effect{Step: &call})
	l.pass(time.Hour)
	l.quiet(l.in)
	l.expect("a", "refunded")
	l.says("cancelled: done")
}

// Next to messages that share a transaction, each step ends as it would alone.
func TestStepsNextToBatches(t *testing.T) {
	l := newTill(t, &inbox.Options{Batch: 10, Workers: 1})
	inbox.On(l.in, said,
		func(_ context.Context, t tx, m skald.Received[string]) error { return note(t, "said", m.Value) })
	l.publish(l.world.message("k", "one"), l.message(placed, "a", purchase{Order: "a"}),
		l.message(cancelled, "b", purchase{Order: "a"}),
		l.world.message("k", "two"), l.message(placed, "c", purchase{Order: "b"}),
		l.message(cancelled, "d", purchase{Order: "c"}),
		l.message(placed, "e", purchase{Order: "c"}), l.message(placed, "f", purchase{Order: "d", No: true}),
		l.world.message("", "three"))
	l.quiet(l.in)
	l.expect("b", "charged")
	l.expect("d", "")
	for _, order := range []string{"a", "c"} { // the order of the two is not defined
		if got := l.db.User()[order]; got != "" && got != "charged refunded" {
			t.Errorf("%s: %q", order, got)
		}
	}
	if got := l.db.User()["said"]; len(strings.Fields(got)) != 3 {
		t.Errorf("said %q", got)
	}
	if n := len(l.db.Marks()); n != 9 || len(l.kept()) != 0 {
		t.Errorf("%d marks, kept %v", n, l.kept())
	}
}

// Steps of different sagas share transactions. A second message for a step, and a step that was undone
// before, end as they would alone.
func TestStepsShareTransactions(t *testing.T) {
	var db *begins
	l := tillOver(t, &inbox.Options{Workers: 1}, func(d store.Driver[tx]) store.Driver[tx] {
		db = &begins{Driver: batchBugs(d)}
		return db
	})
	l.come(cancelled, purchase{Order: "o150"})
	before := db.n
	for n := range 200 {
		order := fmt.Sprint("o", n)
		l.publish(l.message(placed, order, purchase{Order: order}))
	}
	l.publish(l.message(placed, "again", purchase{Order: "o199"}))
	l.quiet(l.in)
	if n := db.n - before; n > 40 {
		t.Errorf("201 steps needed %d transactions", n)
	}
	for n := range 200 {
		want := "charged"
		if n == 150 {
			want = ""
		}
		l.expect(fmt.Sprint("o", n), want)
	}
	if n := len(l.db.Marks()); n != 202 || len(l.kept()) != 0 {
		t.Errorf("%d marks, kept %v", n, l.kept())
	}
}

// A message without a saga is a dead letter immediately; a message with a function that panics is one in
// the end. A replaced handler does no step.
func TestMessageWithoutAStep(t *testing.T) {
	l := newTill(t, &inbox.Options{Retry: inbox.Retry{Attempts: 1}})
	l.come(placed, purchase{})
	if dead := l.dead(); len(dead) != 1 || !strings.Contains(dead[0].Last.Why, inbox.ErrNoStep.Error()) {
		t.Errorf("dead letters %+v", dead)
	}
	inbox.DoOn(inbox.NewStep(l.in, "charge", func(skald.Received[purchase]) string { panic("oh") }), placed,
		l.charge)
	l.come(placed, purchase{Order: "a"})
	if dead := l.dead(); len(dead) != 2 || dead[1].Dead.Stack == "" {
		t.Errorf("dead letters %+v", dead)
	}
	inbox.Overridable(l.in)
	inbox.On(l.in, placed, func(_ context.Context, t *memstore.Tx, m skald.Received[purchase]) error {
		return note(t, m.Value.Order, "plain")
	})
	l.come(placed, purchase{Order: "b"})
	l.expect("b", "plain")
	if steps := l.db.Steps(); len(steps) != 0 {
		t.Errorf("steps %+v", steps)
	}
}

// A message with an unknown step that comes again while it is a dead letter stops nothing.
func TestUnreadableStepThatComesAgain(t *testing.T) {
	l := newTill(t, nil)
	bad := l.message(placed, "a", purchase{})
	bad.Data = []byte("{")
	for range 3 {
		l.publish(bad)
		l.quiet(l.in)
		l.pass(time.Minute)
	}
	if dead := l.dead(); len(dead) != 1 || dead[0].Dead.Kind != "malformed" {
		t.Errorf("dead: %+v", dead)
	}
	if h := l.in.Health(); h.Unacknowledged > 0 || h.Duplicates != 2 {
		t.Errorf("health %+v", h)
	}
	// another message with the same identity is a conflict, whether the first is done or dead
	other := l.come(placed, purchase{Order: "b"})
	for _, m := range []skald.Message{other, bad} {
		m.Data = []byte("{}}")
		l.publish(m)
		l.quiet(l.in)
	}
	if h := l.in.Health(); h.Unacknowledged > 0 || h.Conflicts != 2 {
		t.Errorf("health %+v", h)
	}
}
