package inbox_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/call"
	"github.com/skald-go/skald/inbox"
	"github.com/skald-go/skald/sagatest"
	"github.com/skald-go/skald/store"
	"github.com/skald-go/skald/store/memstore"
)

var errCut = errors.New("the connection is cut")

// bank is a provider that deduplicates by key. Tests set the results of calls by their number.
type bank struct {
	mu  sync.Mutex
	did []string // its requests in order
	// moods has the result of each call: refuse, after (done, but no answer), before (not done, no answer),
	// later; otherwise the bank does it
	moods     []string
	moved     map[string]int
	cancelled map[string]bool
	during    func(key string) // runs during a call
}

func (b *bank) do(_ context.Context, req, key string) (string, error) {
	if b.during != nil {
		b.during(key)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	mood := ""
	if len(b.moods) > 0 {
		mood, b.moods = b.moods[0], b.moods[1:]
	}
	b.did = append(b.did, "do "+key)
	switch mood {
	case "refuse":
		return "", fmt.Errorf("bank: %w", skald.Reject(errors.New("no money")))
	case "later":
		return "", skald.RetryAfter(time.Minute, errors.New("closed"))
	case "before":
		return "", errCut
	}
	if b.cancelled[key] {
		return "", skald.Reject(errors.New("cancelled"))
	}
	if b.moved == nil {
		b.moved = map[string]int{}
	}
	if b.moved[key] == 0 {
		b.moved[key]++
	}
	if mood == "after" {
		return "", errCut
	}
	return "receipt of " + req, nil
}

func (b *bank) lookUp(_ context.Context, req, key string) (string, bool, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.did = append(b.did, "look up "+key)
	return "receipt of " + req, b.moved[key] > 0, nil
}

func (b *bank) cancel(_ context.Context, req, key string) (string, bool, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.did = append(b.did, "cancel "+key)
	if b.moved[key] > 0 {
		return "receipt of " + req, true, nil
	}
	if b.cancelled == nil {
		b.cancelled = map[string]bool{}
	}
	b.cancelled[key] = true
	return "", false, nil
}

func (b *bank) asked() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return strings.Join(b.did, ", ")
}

type outsideCall = call.Call[tx, string, string, string]

// call returns a call that moves money for each message. The text of the message is the key.
func (b *bank) call() outsideCall {
	return outsideCall{
		At: call.NewProvider("bank", &call.ProviderOptions{Timeout: time.Second}),
		Intent: func(_ context.Context, t tx, m skald.Received[string]) (string, string, error) {
			return "req " + m.Value, m.Value, note(t, "intents", m.Value)
		},
		Do: b.do, LookUp: b.lookUp, Cancel: b.cancel,
		Settle: func(_ context.Context, t tx, m skald.Received[string], o call.Outcome[string]) error {
			if o.Refused {
				return skald.Reject(errors.New(o.Reason), skald.Draft{Topic: "orders", Type: "refused"})
			}
			return note(t, string(m.Key), m.Value+"="+o.Value)
		},
	}
}

func (w *world) caller(c outsideCall) *inbox.Inbox[tx] { return w.callerOver(w.db, c) }

func (w *world) callerOver(db store.Driver[tx], c outsideCall) *inbox.Inbox[tx] {
	in := w.over(db, &inbox.Options{Now: w.clock}, keep)
	inbox.OnCall(in, said, c)
	return in
}

// The inbox makes a call outside of any transaction. Before it, the store has only the request and its key.
func TestCallIsMadeBetweenTwoTransactions(t *testing.T) {
	w, b := newWorld(t, 1), &bank{}
	in := w.caller(b.call())
	b.during = func(key string) {
		kept := w.kept()
		if len(kept) != 1 || kept[0].Call == nil || kept[0].Call.Key != key ||
			kept[0].Call.Request != `"req 1"` || kept[0].Attempts != 0 {
			t.Errorf("during the call there is %+v", kept)
		}
		if len(w.db.Marks()) != 0 || len(w.db.User()) != 0 {
			t.Errorf("during the call there is %v %v", w.db.Marks(), w.db.User())
		}
		u, err := w.db.Begin(t.Context(), store.Intake{Wait: time.Second}) // no transaction holds a lock
		if err != nil {
			t.Fatal(err)
		}
		_, _ = u.Rollback(t.Context())
	}
	m := w.message("k", "1")
	w.publish(m, m)
	w.quiet(in)
	w.publish(m)
	w.quiet(in)
	w.expect("k", "1=receipt of req 1")
	w.expect("intents", "")
	if b.asked() != "do 1" || len(w.kept()) != 0 || in.Health().Handled != 1 || in.Health().Duplicates != 2 ||
		in.Health().UnknownSettled != 0 {
		t.Errorf("asked %s, kept %v, health %+v", b.asked(), w.kept(), in.Health())
	}
}

func TestRefusalIsSettled(t *testing.T) {
	w, b := newWorld(t, 1), &bank{moods: []string{"refuse"}}
	in := w.caller(b.call())
	w.publish(w.message("k", "1"), w.message("k", "2"))
	w.quiet(in)
	w.expect("k", "2=receipt of req 2")
	if rows := w.db.Rows(); b.asked() != "do 1, do 2" || in.Health().Rejected != 1 || len(rows) != 1 ||
		rows[0].Type != "refused" || len(w.kept()) != 0 {
		t.Errorf("asked %s, health %+v, rows %v", b.asked(), in.Health(), rows)
	}
}

// The inbox looks up the outcome of a call without an answer. If the lookup finds nothing, the inbox makes
// the call again under its key. The messages behind it wait.
func TestUnknownIsSettled(t *testing.T) {
	for _, c := range []struct {
		mood   string
		lookUp bool
		asked  string
	}{
		{"after", true, "do 1, look up 1, do 2"},
		{"before", true, "do 1, look up 1, do 1, do 2"},
		{"after", false, "do 1, do 1, do 2"},
		{"before", false, "do 1, do 1, do 2"},
	} {
		t.Run(fmt.Sprint(c.mood, c.lookUp), func(t *testing.T) {
			w, b := newWorld(t, 1), &bank{moods: []string{c.mood}}
			how := b.call()
			if !c.lookUp {
				how.LookUp = nil
			}
			in := w.caller(how)
			w.publish(w.message("k", "1"), w.message("k", "2"))
			w.quiet(in)
			kept := w.kept()
			if len(kept) != 2 || kept[0].Attempts != 1 || kept[0].Call == nil ||
				!strings.Contains(kept[0].Last.Why, errCut.Error()) {
				t.Fatalf("kept %+v", kept)
			}
			w.pass(time.Minute)
			w.quiet(in)
			w.expect("k", "1=receipt of req 1 2=receipt of req 2")
			if b.asked() != c.asked || b.moved["1"] != 1 || in.Health().UnknownSettled != 1 {
				t.Errorf("asked %s, moved %v, health %+v", b.asked(), b.moved, in.Health())
			}
		})
	}
}

func TestNotNowIsNotCharged(t *testing.T) {
	w, b := newWorld(t, 1), &bank{moods: []string{"later"}}
	in := w.caller(b.call())
	w.publish(w.message("k", "1"))
	w.quiet(in)
	if kept := w.kept(); len(kept) != 1 || kept[0].Attempts != 0 || kept[0].Due < 50*time.Second {
		t.Errorf("kept %+v", kept)
	}
	w.pass(2 * time.Minute)
	w.quiet(in)
	w.expect("k", "1=receipt of req 1")
}

// A key that the provider may have dropped is not used again: if a lookup finds nothing, the message
// becomes a dead letter.
func TestForgottenKeyIsNotUsedAgain(t *testing.T) {
	w, b := newWorld(t, 2), &bank{moods: []string{"after", "before"}}
	how := b.call()
	how.Memory = time.Hour
	in := w.caller(how)
	w.publish(w.message("k", "1"), w.message("l", "2"))
	w.quiet(in)
	w.pass(2 * time.Hour)
	w.quiet(in)
	w.expect("k", "1=receipt of req 1")
	if dead := w.dead(); len(dead) != 1 || dead[0].Dead.Kind != "permanent" ||
		!strings.Contains(dead[0].Last.Why, call.ErrForgotten.Error()) || dead[0].Call.Key != "2" {
		t.Errorf("dead letters %+v", dead)
	}
	if n := strings.Count(b.asked(), "do "); n != 2 {
		t.Errorf("asked %s", b.asked())
	}
}

// The age of a call is measured by the clock of the database, not by the clock of the host that intended
// or claims it.
func TestAgeOfACallBetweenTwoWrongClocks(t *testing.T) {
	const month = 30 * 24 * time.Hour
	for name, c := range map[string]struct {
		one, two, passes time.Duration
		forgotten        bool
	}{
		"young, and the second host is ahead": {-month, month, time.Minute, false},
		"old, and the second host is behind":  {month, -month, 2 * time.Hour, true},
	} {
		t.Run(name, func(t *testing.T) {
			w, b := newWorld(t, 1), &bank{moods: []string{"before"}}
			how := b.call()
			how.Memory = time.Hour
			work := func(wrong time.Duration) {
				in := inbox.New(w.db, w.bus, "stock",
					&inbox.Options{Now: func() time.Time { return w.clock().Add(wrong) },
						Logger: slog.New(slog.DiscardHandler)})
				inbox.OnCall(in, said, how)
				w.quiet(in)
				if err := in.Close(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
			w.publish(w.message("k", "1"))
			work(c.one)
			w.pass(c.passes)
			work(c.two)
			dead := w.dead()
			if c.forgotten {
				if len(dead) != 1 || !strings.Contains(dead[0].Last.Why, call.ErrForgotten.Error()) ||
					strings.Count(b.asked(), "do ") != 1 {
					t.Errorf("asked %s, dead letters %+v", b.asked(), dead)
				}
				return
			}
			if w.expect("k", "1=receipt of req 1"); len(dead) != 0 {
				t.Errorf("dead letters %+v", dead)
			}
		})
	}
}

// If settling a known outcome fails, the inbox does not make the call again.
func TestOutcomeIsKeptWhenSettlingFails(t *testing.T) {
	w, b := newWorld(t, 1), &bank{}
	how, fails := b.call(), 2
	settle := how.Settle
	how.Settle = func(ctx context.Context, tx tx, m skald.Received[string], o call.Outcome[string]) error {
		if fails--; fails >= 0 {
			return errors.New("no such column")
		}
		return settle(ctx, tx, m, o)
	}
	in := w.caller(how)
	w.publish(w.message("k", "1"))
	for range 4 {
		w.quiet(in)
		w.pass(time.Minute)
	}
	w.expect("k", "1=receipt of req 1")
	if b.asked() != "do 1" {
		t.Errorf("asked %s", b.asked())
	}
}

// Without a key no call is made, and the writes of the intent are committed.
func TestIntentThatAsksForNothing(t *testing.T) {
	w, b := newWorld(t, 1), &bank{}
	how := b.call()
	how.Intent = func(_ context.Context, t tx, m skald.Received[string]) (string, string, error) {
		return "", "", note(t, "intents", m.Value)
	}
	in := w.caller(how)
	w.publish(w.message("k", "1"))
	w.quiet(in)
	w.expect("intents", "1")
	if b.asked() != "" || in.Health().Handled != 1 {
		t.Errorf("asked %s, health %+v", b.asked(), in.Health())
	}
}

// slowly is a driver that lets time pass after an intent.
type slowly struct {
	store.Driver[tx]
	w    *world
	pass time.Duration // after the next intent
	then func()        // what other processes do then; nil: nothing
}

func (d *slowly) Begin(ctx context.Context, in store.Intake) (store.Unit[tx], error) {
	u, err := d.Driver.Begin(ctx, in)
	return slowUnit{u, d}, err
}

type slowUnit struct {
	store.Unit[tx]
	d *slowly
}

func (u slowUnit) Rollback(ctx context.Context, instead ...store.Effect) ([]bool, error) {
	stood, err := u.Unit.Rollback(ctx, instead...)
	if len(instead) == 1 && instead[0].Park != nil && instead[0].Park.Call != nil {
		u.d.w.pass(u.d.pass)
		u.d.pass = 0
		if u.d.then != nil {
			u.d.then()
		}
	}
	return stood, err
}

// If a sender is paused between its intent and its call until its claim has ended, it does not make the call.
// Interleaving 8.
func TestSenderThatWakesTooLateDoesNotSend(t *testing.T) {
	w, b := newWorld(t, 1), &bank{}
	d := &slowly{Driver: w.db, w: w, pass: 70 * time.Second}
	in := w.callerOver(d, b.call())
	w.publish(w.message("k", "1"))
	if _, err := in.Step(t.Context()); err != nil {
		t.Fatal(err)
	}
	if b.asked() != "" {
		t.Errorf("asked %s", b.asked())
	}
	w.pass(time.Minute)
	w.quiet(w.caller(b.call())) // another one
	w.quiet(in)
	w.expect("k", "1=receipt of req 1")
	if b.asked() != "look up 1, do 1" {
		t.Errorf("asked %s", b.asked())
	}
}

// The intent of a process that died is settled as soon as another one has its partition, long before the
// lease ends. The call may have been made.
func TestIntentOfADeadProcessIsSettledImmediately(t *testing.T) {
	for _, when := range []string{"before the call", "after the call"} {
		t.Run(when, func(t *testing.T) {
			w, b := newWorld(t, 1), &bank{}
			session := sagatest.NewFaults(1, sagatest.None()).Session()
			how := b.call()
			how.Do = func(ctx context.Context, req, key string) (string, error) {
				if when == "after the call" {
					_, _ = b.do(ctx, req, key)
				}
				return "", session.Die()
			}
			mortal := inbox.New(sagatest.WrapDriver(store.Driver[tx](w.db), session),
				sagatest.WrapBroker(w.bus.Client(), session), "stock",
				&inbox.Options{Now: w.clock, Logger: slog.New(slog.DiscardHandler)})
			inbox.OnCall(mortal, said, how)
			w.publish(w.message("k", "1"))
			for dead := false; !dead; {
				_, _ = mortal.Step(t.Context())
				select {
				case <-session.Died():
					dead = true
				default:
				}
			}
			if kept := w.kept(); len(kept) != 1 || kept[0].Call == nil || kept[0].Due < time.Minute {
				t.Fatalf("it left %+v", kept)
			}
			w.quiet(w.caller(b.call()))
			w.expect("k", "1=receipt of req 1")
			if b.moved["1"] != 1 || len(w.kept()) != 0 {
				t.Errorf("moved %v, kept %+v", b.moved, w.kept())
			}
		})
	}
}

// A provider that does not answer gets no calls for a while. Its messages wait, and their attempts do not
// count.
func TestProviderThatDoesNotAnswerGetsAPause(t *testing.T) {
	w, b := newWorld(t, 1), &bank{moods: slices.Repeat([]string{"before"}, 3)}
	how := b.call()
	how.LookUp = nil
	how.At = call.NewProvider("bank", &call.ProviderOptions{Trip: 2, Rest: 10 * time.Second,
		Timeout: time.Second})
	in := w.caller(how)
	for i := range 6 {
		w.publish(w.message(fmt.Sprint("k", i), fmt.Sprint(i)))
	}
	w.quiet(in)
	charged := 0
	for _, p := range w.kept() {
		charged += p.Attempts
	}
	if n := strings.Count(b.asked(), "do "); n != 2 || charged != 2 || len(w.kept()) != 6 {
		t.Errorf("asked %s; %d attempts are charged of %d", b.asked(), charged, len(w.kept()))
	}
	w.pass(11 * time.Second)
	w.quiet(in)
	if n := strings.Count(b.asked(), "do "); n != 3 { // one to see
		t.Errorf("asked %s", b.asked())
	}
	for range 8 {
		w.pass(time.Minute)
		w.quiet(in)
	}
	for i := range 6 {
		w.expect(fmt.Sprint("k", i), fmt.Sprintf("%d=receipt of req %d", i, i))
	}
}

// A provider that hangs uses at most its limit of the workers.
func TestSlowProviderLeavesRoomForOthers(t *testing.T) {
	t.Run("one of two workers", func(t *testing.T) {
		slowProviderLeavesRoom(t, &call.ProviderOptions{Limit: 1, Timeout: time.Minute}, 2, 4)
	})
	t.Run("by default", func(t *testing.T) {
		slowProviderLeavesRoom(t, &call.ProviderOptions{Timeout: time.Minute}, 0, 32)
	})
}

func slowProviderLeavesRoom(t *testing.T, o *call.ProviderOptions, workers, calls int) {
	w, b := newWorld(t, 1), &bank{}
	release := make(chan struct{})
	b.during = func(string) { <-release }
	how := b.call()
	how.At = call.NewProvider("bank", o)
	in := w.over(w.db, &inbox.Options{Workers: workers}, keep)
	inbox.OnCall(in, said, how)
	inbox.On(in, skald.Event[string]{Topic: "orders", Type: "other"}, keep)
	for i := range calls {
		w.publish(w.message(fmt.Sprint("k", i), fmt.Sprint(i)))
	}
	other := w.message("o", "1")
	other.Type = "other"
	w.publish(other)
	stop := run(t, in)
	until(t, "others flow", func() bool { return w.db.User()["o"] == "1" })
	close(release)
	until(t, "all are done", func() bool {
		w.pass(10 * time.Millisecond) // the messages above the limit are due
		return in.Health().Handled == int64(calls)+1 && len(w.kept()) == 0
	})
	if err := stop(); err != nil {
		t.Error(err)
	}
}

// If a message must be undone anyway, the inbox voids the key of its call with an unknown outcome.
// Interleaving 8.
func TestKeyOfAnUnknownCallIsVoided(t *testing.T) {
	for mood, want := range map[string][2]string{"after": {"k", "1=receipt of req 1"}, "before": {"k", ""}} {
		t.Run(mood, func(t *testing.T) {
			w, b := newWorld(t, 1), &bank{moods: []string{mood}}
			how := b.call()
			how.LookUp = nil
			in := w.caller(how)
			w.publish(w.message("k", "1"))
			w.quiet(in)
			p := w.kept()[0]
			p.Call.Undo = true
			w.apply(store.Effect{Park: &store.Park{Parked: p, Was: &p.Attempts, WasCall: p.Call.Key}})
			w.pass(time.Minute)
			w.quiet(in)
			w.expect(want[0], want[1])
			if b.asked() != "do 1, cancel 1" || len(w.kept()) != 0 || !b.cancelled["1"] && b.moved["1"] != 1 {
				t.Errorf("asked %s, kept %v", b.asked(), w.kept())
			}
			if out, err := b.do(t.Context(), "late", "1"); mood == "before" && err == nil {
				// a sender that wakes up
				t.Errorf("the key still gives %s", out)
			}
		})
	}
}

// moves is a driver that changes an entity after the first intake.
type moves struct {
	store.Driver[tx]
	do func()
}

func (d *moves) Begin(ctx context.Context, in store.Intake) (store.Unit[tx], error) {
	u, err := d.Driver.Begin(ctx, in)
	return movesUnit{u, d}, err
}

type movesUnit struct {
	store.Unit[tx]
	d *moves
}

func (u movesUnit) Rollback(ctx context.Context, instead ...store.Effect) ([]bool, error) {
	if u.d.do == nil || len(instead) == 0 {
		return u.Unit.Rollback(ctx, instead...)
	}
	_, err := u.Unit.Rollback(ctx)
	u.d.do()
	u.d.do = nil
	if err != nil {
		return nil, err
	}
	return u.d.Apply(ctx, instead...)
}

// If an entity changed, the store refuses the intent, and the inbox calls Intent again.
func TestIntentThatIsNoLongerTrueIsNotStored(t *testing.T) {
	w, b := newWorld(t, 1), &bank{}
	lock := []store.Lock{{Space: "order", Key: "1"}}
	d := &moves{Driver: w.db, do: func() {
		u, err := w.db.Begin(t.Context(), store.Intake{Locks: lock})
		if err == nil {
			err = errors.Join(u.Tx().Put("barred", "yes"), u.Commit(t.Context()))
		}
		if err != nil {
			t.Fatal(err)
		}
	}}
	how := b.call()
	how.Intent = func(_ context.Context, t *memstore.Tx, m skald.Received[string]) (string, string, error) {
		if _, barred := t.Get("barred"); barred {
			return "", "", skald.Reject(errors.New("barred"))
		}
		return "req", m.Value, nil
	}
	in := w.over(d, &inbox.Options{Now: w.clock,
		Transaction: inbox.Transaction{Entities: func(skald.Message) []store.Lock { return lock }}}, keep)
	inbox.OnCall(in, said, how)
	w.publish(w.message("k", "1"))
	w.quiet(in)
	if b.asked() != "" || in.Health().Rejected != 1 || len(w.kept()) != 0 {
		t.Errorf("asked %s, health %+v", b.asked(), in.Health())
	}
}

// A compensation comes while the outcome of a call is unknown. It first voids the key to settle the call.
// Then there is an effect to undo, or there is none. The call of a dead letter is settled, too.
func TestCompensationSettlesTheCallFirst(t *testing.T) {
	for mood, want := range map[string]string{"after": "1=receipt of req 1 undone",
		"before": "undone nothing"} {
		for _, attempts := range []int{9, 1} {
			t.Run(fmt.Sprint(mood, attempts), func(t *testing.T) {
				w, b := newWorld(t, 1), &bank{moods: []string{mood}}
				if err := w.bus.MakeTopics(t.Context(), 1, "cancels"); err != nil {
					t.Fatal(err)
				}
				how := b.call()
				how.LookUp = nil
				in := w.over(w.db, &inbox.Options{Now: w.clock, Retry: inbox.Retry{Attempts: attempts}}, keep)
				step := inbox.NewStep(in, "charge", sagaInValue)
				inbox.DoCallOn(step, said, how)
				inbox.UndoOn(step, skald.Event[string]{Topic: "cancels", Type: "said"},
					func(_ context.Context, t tx, m skald.Received[string], _ inbox.DoneStep) (inbox.Result,
						error) {
						return inbox.Result{}, note(t, "k", "undone")
					},
					inbox.Reply(func(_ skald.Received[string], was store.StepState) []skald.Draft {
						return []skald.Draft{{Topic: "orders", Type: was.String()}}
					}))
				w.publish(w.message("k", "1"))
				w.quiet(in)
				if steps := w.db.Steps(); len(steps) != 1 || steps[0].State != store.StepCalling ||
					steps[0].OutsideKey != "1" {
					t.Fatalf("steps %+v", steps)
				}
				if dead := len(w.dead()) == 1; dead != (attempts == 1) {
					t.Fatalf("dead: %v", dead)
				}
				undo := w.message("another key", "1")
				undo.Topic = "cancels"
				w.publish(undo)
				for range 6 {
					w.quiet(in)
					w.pass(time.Minute)
				}
				got, rows := w.db.User()["k"], w.db.Rows()
				if mood == "before" && got == "" && len(rows) == 2 && rows[1].Type == "rejected" {
					got = "undone nothing"
				}
				if got != want || b.asked() != "do 1, cancel 1" || len(w.kept()) != 0 {
					t.Errorf("%s; asked %s, kept %+v, said %v, steps %+v", got, b.asked(), w.kept(), rows,
						w.db.Steps())
				}
			})
		}
	}
}
