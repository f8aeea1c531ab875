package engine

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/internal/saga/plan"
	"github.com/skald-go/skald/internal/sagarow"
	"github.com/skald-go/skald/store"
)

// ordered returns a saga of two commands that begins now. The second one has the condition ask.
func ordered(t *testing.T, ask func() (bool, error)) *saga {
	t.Helper()
	send := func(topic string) *Command {
		return &Command{Draft: func(f *Facts) (skald.Draft, error) {
			return skald.Draft{Topic: topic, Key: []byte(f.Key), Type: "asked", Value: f.Key}, nil
		}}
	}
	d := NewDefinition(Definition{Name: "order", Hash: "h", MaxBytes: 1 << 10,
		Plan: plan.New(plan.Graph{Name: "order", Steps: []plan.Step{
			{Name: "pay", Kind: plan.Command}, {Name: "ship", Kind: plan.Command, When: true}}}),
		Steps: []StepBody{{Command: send("pay")},
			{Command: send("ship"), When: func(*Facts) (bool, error) { return ask() }}}}, nil)
	now := time.Unix(1_000, 0).UTC()
	state, _ := d.Plan.Begin("0199a000-0000-7000-8000-000000000000", now)
	text, err := sagarow.EncodeState(state)
	if err != nil {
		t.Fatal(err)
	}
	row := store.Saga{Name: "order", Key: "4711", ID: state.ID, Hash: "h", State: text, Session: "mine",
		Version: 3}
	s, err := newProgress(row, d, plan.Graph{}, newClock(func() time.Time { return now }), true)
	if err != nil {
		t.Fatal(err)
	}
	return &s
}

func TestPrepareDraftsAllCommandsThatCanBeSent(t *testing.T) {
	s := ordered(t, func() (bool, error) { return true, nil })
	s.Prepare(t.Context())
	if n := len(s.Pending()); n != 0 || !s.Dirty() || s.Prepared() == nil {
		t.Fatalf("%d actions are left, dirty: %t", n, s.Dirty())
	}
	m, mine, err := s.Move("mine")
	if err != nil || !mine || m.Version != 3 || m.Release {
		t.Fatalf("it moves by %+v, mine: %t, %v", m, mine, err)
	}
	if e := s.Effect(&m); len(e.Rows) != 2 || e.Rows[0].CorrelationID != s.address() {
		t.Errorf("emitted with it: %+v", e.Rows)
	}
	if m, mine, err := s.Move("another's"); err != nil || mine || !m.Release || m.Wake != 0 {
		t.Errorf("a saga of another session moves by %+v, mine: %t, %v", m, mine, err)
	}
	was, _ := s.Wrote(&m)
	if was.Runs[0].Phase != plan.Ready || s.Dirty() || s.Prepared() != nil || s.Row.Version != 4 ||
		len(s.Effect(&m).Rows) != 0 {
		t.Errorf("after it was stored: %+v, before that %+v", s, was)
	}
}

func TestAddressFitsIntoAMessage(t *testing.T) {
	name, most := strings.Repeat("n", 255), strings.Repeat(":", 242)
	if err, longer := checkAddress(name, most), checkAddress(name, most+":"); err != nil || longer == nil {
		t.Error(err, longer)
	}
}

func TestDoubtStoresEachPreparedActionAlone(t *testing.T) {
	s := ordered(t, func() (bool, error) { return true, nil })
	if s.StoreOneByOne() {
		t.Error("Doubt returns true without a prepared action")
	}
	s.PrepareAll(t.Context())
	if !s.StoreOneByOne() || s.StoreOneByOne() {
		t.Error("Doubt does not return true exactly once")
	}
	if err := s.Read(s.Row, plan.Graph{}); err != nil || s.Dirty() || s.Prepared() != nil {
		t.Fatalf("read again: %+v, %v", s, err)
	}
	if s.Prepare(t.Context()); s.Dirty() {
		t.Error("Prepare prepares an action")
	}
	if s.PrepareAll(t.Context()); !s.First() || len(s.rows) > 1 {
		t.Errorf("%d commands were prepared together", len(s.rows))
	}
}

func TestAFailingConditionCountsForItsStepOnly(t *testing.T) {
	s := ordered(t, func() (bool, error) { return false, errors.New("no") })
	s.PrepareAll(t.Context())
	pay, _ := s.State.Run("pay", "")
	ship, _ := s.State.Run("ship", "")
	if pay.Phase == plan.Ready || ship.Attempts != 1 || ship.Error != "no" {
		t.Errorf("pay %+v, ship %+v", pay, ship)
	}
}
