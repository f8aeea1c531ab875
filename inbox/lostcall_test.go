package inbox_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/inbox"
	"github.com/skald-go/skald/store"
)

// losing is a driver over which an intent stands, once, and answer says what is heard of it.
type losing struct {
	store.Driver[tx]
	answer func() ([]bool, error)
}

func (d *losing) Begin(ctx context.Context, in store.Intake) (store.Unit[tx], error) {
	u, err := d.Driver.Begin(ctx, in)
	if err != nil {
		return nil, err
	}
	return losingUnit{u, d}, nil
}

type losingUnit struct {
	store.Unit[tx]
	d *losing
}

func (u losingUnit) Rollback(ctx context.Context, instead ...store.Effect) ([]bool, error) {
	stands, err := u.Unit.Rollback(ctx, instead...)
	if answer := u.d.answer; answer != nil && len(instead) == 1 && instead[0].Keep != nil && instead[0].Keep.Call != nil && err == nil && stands[0] {
		u.d.answer = nil
		return answer()
	}
	return stands, err
}

// collided is how PostgreSQL says that a transaction has to be tried again.
type collided struct{}

func (collided) Error() string    { return "could not serialize access" }
func (collided) SQLState() string { return "40001" }

// away takes that for an outage, as PostgreSQL's driver does.
type falls struct{ *losing }

func (falls) Outage(err error) bool { return store.Collided(err) }

// chargedLate is a world whose charge was parked before it can be intended, with the step that it takes.
func chargedLate(t *testing.T, b *bank, over func(store.Driver[tx]) store.Driver[tx]) (*world, *inbox.Inbox[tx]) {
	w, first := newWorld(t, 1), true
	how := b.call()
	ask := how.Intent
	how.Intent = func(ctx context.Context, t tx, m skald.Received[string]) (string, string, error) {
		if first {
			first = false
			return "", "", skald.RetryAfter(time.Minute, errors.New("not yet"))
		}
		return ask(ctx, t, m)
	}
	in := w.over(over(w.db), &inbox.Options{Now: w.clock}, keep)
	inbox.ForwardCall(in, said, func(m skald.Received[string]) inbox.Step { return inbox.Step{Saga: m.Value, Name: "charge"} }, how, nil)
	w.publish(w.message("k", "1"))
	w.quiet(in)
	if kept := w.kept(); len(kept) != 1 || kept[0].Call != nil {
		t.Fatalf("kept %+v", kept)
	}
	return w, in
}

// A claimed message whose intent stands, by a rival or by itself, and which does not know it, does not take the call away.
func TestIntentThatStandsIsNotTakenBack(t *testing.T) {
	for name, answer := range map[string]func() ([]bool, error){
		"a rival's":          func() ([]bool, error) { return []bool{false}, nil },
		"answered by a fall": func() ([]bool, error) { return nil, collided{} },
		"not answered":       func() ([]bool, error) { return nil, errCut },
	} {
		t.Run(name, func(t *testing.T) {
			b := &bank{}
			w, in := chargedLate(t, b, func(d store.Driver[tx]) store.Driver[tx] { return falls{&losing{d, answer}} })
			w.pass(time.Minute)
			w.quiet(in)
			if kept := w.kept(); len(kept) != 1 || kept[0].Call == nil || kept[0].Call.Key != "1" {
				t.Errorf("kept %+v", kept)
			}
			w.ends(in, b)
		})
	}
}

// A step that is at a call of a message which is kept without it goes on, under the key that it knows: what may have been done is looked up.
func TestLostCallIsIntendedAgain(t *testing.T) {
	for _, mood := range []string{"after", "before"} {
		t.Run(mood, func(t *testing.T) {
			b := &bank{moods: []string{mood}}
			w, in := chargedLate(t, b, func(d store.Driver[tx]) store.Driver[tx] { return d })
			w.pass(time.Minute)
			w.quiet(in)
			p := w.kept()[0]
			key := p.Call.Key
			p.Call = nil
			w.apply(store.Effect{Keep: &store.Keep{Parked: p, Was: &p.Attempts, WasCall: key}})
			w.ends(in, b)
			if !strings.HasPrefix(b.asked(), "do 1, look up 1") {
				t.Errorf("asked %s", b.asked())
			}
		})
	}
}

// ends wants the charge to take effect, once.
func (w *world) ends(in *inbox.Inbox[tx], b *bank) {
	w.t.Helper()
	for range 6 {
		w.pass(time.Minute)
		w.quiet(in)
	}
	w.expect("k", "1=receipt of req 1")
	if steps := w.db.Steps(); len(w.kept()) != 0 || b.moved["1"] != 1 || len(steps) != 1 || steps[0].State != store.StepDone {
		w.t.Errorf("asked %s, kept %+v, steps %+v", b.asked(), w.kept(), steps)
	}
}
