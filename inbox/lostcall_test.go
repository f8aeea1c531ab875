package inbox_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/inbox"
	"github.com/skald-go/skald/sagatest"
	"github.com/skald-go/skald/store"
)

// losing is a driver that stores an intent once, but returns the error in the field answer.
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
	if answer := u.d.answer; answer != nil && len(instead) == 1 && instead[0].Park != nil &&
		instead[0].Park.Call != nil && err == nil && stands[0] {
		u.d.answer = nil
		return answer()
	}
	return stands, err
}

// collided is PostgreSQL's error for a transaction that has to be retried.
type collided struct{}

func (collided) Error() string    { return "could not serialize access" }
func (collided) SQLState() string { return "40001" }

// falls is a driver that treats collided as an outage, as PostgreSQL's driver does.
type falls struct{ *losing }

func (falls) Outage(err error) bool { return store.Collided(err) }

// chargedLate returns a world with a charge that is parked before its intent, together with its step.
func chargedLate(t *testing.T, b *bank,
	over func(store.Driver[tx]) store.Driver[tx]) (*world, *inbox.Inbox[tx]) {
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
	inbox.DoCallOn(inbox.NewStep(in, "charge", sagaInValue), said, how)
	w.publish(w.message("k", "1"))
	w.quiet(in)
	if kept := w.kept(); len(kept) != 1 || kept[0].Call != nil {
		t.Fatalf("kept %+v", kept)
	}
	return w, in
}

// The intent of a claimed message is stored, by another process or by itself, but the answer is lost. The
// message does not remove the call.
func TestStoredIntentIsNotRemoved(t *testing.T) {
	for name, answer := range map[string]func() ([]bool, error){
		"a rival's":          func() ([]bool, error) { return []bool{false}, nil },
		"answered by a fall": func() ([]bool, error) { return nil, collided{} },
		"not answered":       func() ([]bool, error) { return nil, errCut },
	} {
		t.Run(name, func(t *testing.T) {
			b := &bank{}
			w, in := chargedLate(t, b,
				func(d store.Driver[tx]) store.Driver[tx] { return falls{&losing{d, answer}} })
			w.pass(time.Minute)
			w.quiet(in)
			if kept := w.kept(); len(kept) != 1 || kept[0].Call == nil || kept[0].Call.Key != "1" {
				t.Errorf("kept %+v", kept)
			}
			w.ends(in, b)
		})
	}
}

// A step is in state calling, but its message is stored without the call. The message continues under the
// key in the step, and looks up a possible effect.
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
			w.apply(store.Effect{Park: &store.Park{Parked: p, Was: &p.Attempts, WasCall: key}})
			w.ends(in, b)
			if !strings.HasPrefix(b.asked(), "do 1, look up 1") {
				t.Errorf("asked %s", b.asked())
			}
		})
	}
}

// ends runs until the charge has taken effect, once.
func (w *world) ends(in *inbox.Inbox[tx], b *bank) {
	w.t.Helper()
	for range 6 {
		w.pass(time.Minute)
		w.quiet(in)
	}
	w.expect("k", "1=receipt of req 1")
	if steps := w.db.Steps(); len(w.kept()) != 0 || b.moved["1"] != 1 || len(steps) != 1 ||
		steps[0].State != store.StepDone {
		w.t.Errorf("asked %s, kept %+v, steps %+v", b.asked(), w.kept(), steps)
	}
}

// paused is a driver that pauses a claimer once, before the intake of its claimed message. With blind it
// frees a message by its attempts alone.
type paused struct {
	store.Driver[tx]
	meanwhile func()
	blind     bool
}

func (d *paused) Begin(ctx context.Context, in store.Intake) (store.Unit[tx], error) {
	if meanwhile := d.meanwhile; meanwhile != nil && in.Marks[0].KeyOrder == store.Retrying {
		d.meanwhile = nil
		meanwhile()
	}
	u, err := d.Driver.Begin(ctx, in)
	if err != nil {
		return nil, err
	}
	return pausedUnit{u, d}, nil
}

type pausedUnit struct {
	store.Unit[tx]
	d *paused
}

func (u pausedUnit) Commit(ctx context.Context, es ...store.Effect) error {
	return u.Unit.Commit(ctx, u.d.freeing(ctx, es)...)
}

func (u pausedUnit) Rollback(ctx context.Context, instead ...store.Effect) ([]bool, error) {
	return u.Unit.Rollback(ctx, u.d.freeing(ctx, instead)...)
}

func (d *paused) freeing(ctx context.Context, es []store.Effect) []store.Effect {
	for i := range es {
		if f := es[i].Finish; f != nil && d.blind {
			kept, err := store.ListParked(ctx, d,
				store.ParkedQuery{Consumer: f.Consumer, Identity: &f.Identity, Limit: 1})
			if err == nil && len(kept) == 1 && kept[0].Call != nil {
				f.WasCall = kept[0].Call.Key
			}
		}
	}
	return es
}

// A process was paused until its claim ended, and then has no call to make. It does not finish the message
// while another process makes the call: the payment is recorded. If it compared only the attempts, the
// payment would be lost.
// Interleaving 8.
func TestSeededBugOfThePausedClaimer(t *testing.T) {
	for _, no := range []error{nil, skald.Reject(errors.New("closed"))} {
		for name, c := range map[string]struct {
			blind  bool
			effect string
		}{
			"as it is": {false, "1=receipt of req 1"},
			"the bug":  {true, ""},
		} {
			t.Run(fmt.Sprint(name, ", ", no), func(t *testing.T) { finishedBeside(t, c.blind, no, c.effect) })
		}
	}
}

// finishedBeside runs two processes. While the first one makes a call, the second one has no call to make or,
// with an error, rejects.
func finishedBeside(t *testing.T, blind bool, no error, want string) {
	w, b, first := newWorld(t, 1), &bank{}, true
	asked, answer, ended := make(chan struct{}, 1), make(chan struct{}), make(chan error, 1)
	b.during = func(string) {
		asked <- struct{}{}
		<-answer
	}
	how := b.call()
	how.Intent = func(_ context.Context, t tx, m skald.Received[string]) (string, string, error) {
		if first {
			first = false
			return "", "", skald.RetryAfter(time.Minute, errors.New("not yet"))
		}
		if _, closed := t.Get("closed"); closed {
			return "", "", errors.Join(no, note(t, "intents", m.Value))
		}
		return "req " + m.Value, m.Value, nil
	}
	caller := func(db store.Driver[tx]) *inbox.Inbox[tx] {
		in := w.over(db, &inbox.Options{Now: w.clock, Timeouts: inbox.Timeouts{Handle: 5 * time.Minute}},
			keep)
		inbox.OnCall(in, said, how)
		return in
	}
	d := &paused{Driver: w.db, blind: blind}
	in, other := caller(d), caller(w.db)
	w.publish(w.message("k", "1"))
	w.quiet(in)
	d.meanwhile = func() {
		w.pass(time.Hour)
		go func() { ended <- decideStep(t.Context(), other) }()
		comes(t, "the call", asked)
		mine := w.db.BeginTx()
		if err := errors.Join(mine.Put("closed", "yes"), mine.Commit()); err != nil {
			t.Error(err)
		}
	}
	w.pass(2 * time.Minute)
	w.quiet(in)
	if kept := w.kept(); (len(kept) == 1 && kept[0].Call != nil && kept[0].Call.Key == "1") == blind {
		t.Errorf("during the call there is %+v", kept)
	}
	close(answer)
	if err := comes(t, "the end of the call", ended); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		w.pass(2 * time.Hour)
		w.quiet(in)
		w.quiet(other)
	}
	w.expect("k", want)
	if b.asked() != "do 1" || b.moved["1"] != 1 || len(w.kept()) != 0 || d.meanwhile != nil {
		t.Errorf("asked %s, moved %v, kept %+v", b.asked(), b.moved, w.kept())
	}
	if !blind {
		w.expect("intents", "")
	}
}

// decideStep calls Step until nothing is left to do.
func decideStep(ctx context.Context, in *inbox.Inbox[tx]) error {
	for {
		if busy, err := in.Step(ctx); err != nil || !busy {
			return err
		}
	}
}

// comes returns the next value of a channel, or fails the test after a while.
func comes[T any](t *testing.T, what string, from <-chan T) (one T) {
	t.Helper()
	select {
	case one = <-from:
	case <-time.After(5 * time.Minute):
		t.Errorf("waited in vain: %s", what)
	}
	return one
}

// A process crashes in each outside call of a message. Its message becomes a dead letter with its call, as
// with a handler that crashes.
// Interleaving 12.
func TestCallThatKillsBecomesADeadLetter(t *testing.T) {
	w, b := newWorld(t, 1), &bank{}
	w.publish(w.message("k", "1"), w.message("l", "2"))
	deaths := 0
	live := func() (died bool) {
		session := sagatest.NewFaults(uint64(deaths), sagatest.None()).Session()
		how := b.call()
		kill := func(req string) bool { return req == "req 1" && session.Die() != nil }
		how.Do = func(ctx context.Context, req, key string) (string, error) {
			if kill(req) {
				return "", context.Canceled
			}
			return b.do(ctx, req, key)
		}
		how.LookUp = func(ctx context.Context, req, key string) (string, bool, error) {
			if kill(req) {
				return "", false, context.Canceled
			}
			return b.lookUp(ctx, req, key)
		}
		in := inbox.New(sagatest.WrapDriver(store.Driver[tx](w.db), session),
			sagatest.WrapBroker(w.bus.Client(), session), "stock",
			&inbox.Options{Now: w.clock, Logger: slog.New(slog.DiscardHandler),
				Instance: inbox.Instance{Member: "one"},
				Retry:    inbox.Retry{InitialInterval: time.Millisecond}})
		inbox.OnCall(in, said, how)
		for range 100 {
			busy, err := in.Step(t.Context())
			select {
			case <-session.Died():
				return true
			default:
			}
			if err != nil {
				t.Fatal(err)
			}
			if !busy {
				return false
			}
		}
		t.Fatal("never quiet")
		return false
	}
	for live() {
		if deaths++; deaths > 20 {
			t.Fatalf("it still dies: %+v", w.kept())
		}
		w.pass(2 * time.Minute)
	}
	dead := w.dead()
	if len(dead) != 1 || dead[0].Dead.Kind != "crash" || dead[0].Call == nil || dead[0].CrashCount != 3 {
		t.Errorf("after %d deaths: %+v", deaths, dead)
	}
	w.expect("l", "2=receipt of req 2")
}
