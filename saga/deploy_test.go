package saga_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/inbox"
	"github.com/skald-go/skald/operate"
	"github.com/skald-go/skald/saga"
	"github.com/skald-go/skald/store"
	"github.com/skald-go/skald/store/memstore"
)

// packStep returns a command with its own name and an undo.
func packStep(name string, opts ...saga.Option) *saga.Step[order, string] {
	box := func(r saga.Run[order]) stand { return stand{Order: r.Key, Line: name} }
	return saga.Command(name, packIt, box, saga.Reply(packed),
		append([]saga.Option{saga.UndoBy(unpackIt, box, saga.Reply(unpacked))}, opts...)...)
}

func orders(name string, mapped []saga.Mapping, steps ...saga.StepOf[order]) *saga.Definition[order] {
	return saga.New(name, &saga.Options[order]{Key: orderID, Mappings: mapped}, steps...)
}

// answers returns an inbox for an engine's replies, with short retries of parked messages.
func (k *desk[TTx]) answers(e *saga.Engine[TTx]) *inbox.Inbox[TTx] {
	in := inbox.New(k.db, k.bus, "orders", &inbox.Options{Workers: 1,
		Timeouts: inbox.Timeouts{Wait: time.Minute}, Logger: k.log(),
		Retry: inbox.Retry{InitialInterval: time.Millisecond, MaxInterval: time.Millisecond}})
	e.Answers(in)
	return in
}

func (k *desk[TTx]) step(in *inbox.Inbox[TTx]) bool {
	k.t.Helper()
	busy, err := in.Step(k.t.Context())
	if err != nil {
		k.t.Fatal(err)
	}
	return busy
}

// kept returns the parked messages of the engines' inbox.
func (k *desk[TTx]) kept() []store.Parked {
	k.t.Helper()
	kept, err := store.ListParked(k.t.Context(), k.db, store.ParkedQuery{Consumer: "orders"})
	if err != nil {
		k.t.Fatal(err)
	}
	return kept
}

// until steps until a saga has ended, for at most a minute.
func (k *desk[TTx]) until(key string, all ...skald.Stepper) string {
	k.t.Helper()
	for end := time.Now().Add(time.Minute); time.Now().Before(end); {
		k.quiet(all...)
		if s := k.saga(key); !s.Ended.IsZero() {
			return s.Status
		}
	}
	k.t.Fatalf("it does not end: %+v", k.saga(key))
	return ""
}

// TestReplyAtAnOlderBuild: during a rollout the older build receives replies to commands that only the
// newer one has, of a step or of a saga. It leaves them to the newer build.
func TestReplyAtAnOlderBuild(t *testing.T) {
	older := orders("order", nil, packStep("pack"))
	for name, newer := range map[string]*saga.Definition[order]{
		"a step more":  orders("order", nil, packStep("pack"), packStep("wrap")),
		"another saga": orders("gift", nil, packStep("pack")),
	} {
		for _, named := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s/%t", name, named), func(t *testing.T) {
				t.Parallel()
				db := memstore.New(nil)
				k := newDesk(t, db)
				k.d, k.e = newer, engineOf(t, db, newer)
				was := engineOf(t, db, older)
				theirs := k.answers(was)
				for cs := k.begin(order{ID: "o"}); len(cs) > 0; cs = k.goOn() {
					m := k.reply(cs[0], "packed", "o")
					if !named {
						m.CausationID = ""
					}
					publish(t, k.bus, m)
					for k.step(theirs) && len(k.kept()) == 0 { // a parked message is due at once
					}
				}
				if kept := k.kept(); len(kept) != 1 || kept[0].Dead != nil {
					t.Fatalf("kept: %+v", kept)
				}
				if got := k.until("o", k.answers(k.e), k.e); got != "done" {
					t.Errorf("it is %s", got)
				}
				if n := was.Health().Replies; n["orphan"]+n["foreign"] != 0 {
					t.Errorf("replies at the older build: %v", n)
				}
			})
		}
	}
}

// renamed is a saga with a command, a call and a child in progress, and a wait. It is moved after the wait.
type renamed struct {
	*desk[tx]
	bank                *bank
	inner, older, newer *saga.Definition[order]
	inside, side        saga.Signal[bool]
}

func newRenamed(t *testing.T) *renamed {
	r := &renamed{desk: newDesk(t, memstore.New(nil)), bank: newBank(),
		inside: saga.Signal[bool]{Name: "inside"}, side: saga.Signal[bool]{Name: "side"}}
	r.inner = orders("inner", nil, packStep("wrap"), saga.Wait[order]("inside", r.inside))
	r.older = r.define(nil, "pack", "pay", "inner")
	r.newer = r.define([]saga.Mapping{{From: r.older.Hash(),
		Rename: map[string]string{"pack": "box", "pay": "charge", "inner": "kid"}}},
		"box", "charge", "kid")
	return r
}

func (r *renamed) define(mapped []saga.Mapping, pack, pay, child string) *saga.Definition[order] {
	b := r.bank
	call := saga.CallWith(pay, saga.Request[tx, order, int, string]{At: b.at, Do: b.pay, LookUp: b.find,
		Intent: func(context.Context, tx, saga.Run[order]) (int, error) { return 100, nil }},
		saga.UndoRequest[tx, order, string, string, bool]{At: b.at, Do: b.refund,
			Intent: func(_ context.Context, _ tx, r saga.Run[order], _ string) (string, error) {
				return r.ForwardKey(), nil
			}}, saga.AtStart())
	box, kid := packStep(pack, saga.AtStart()),
		saga.Child(child, r.inner, func(r saga.Run[order]) order { return order{ID: r.Key + "-c"} },
			saga.AtStart())
	side := saga.Wait[order]("side", r.side, saga.AtStart())
	look := saga.Do("look", func(context.Context, tx, saga.Run[order]) (int, error) { return 0, nil }, nil,
		saga.NoEffect(), saga.After(side))
	return orders("order", mapped, box, call, kid, side, look,
		saga.Wait[order]("last", saga.Signal[bool]{Name: "last"}, saga.After(box, call, kid, look)))
}

// as runs the engine of one definition.
func (r *renamed) as(d *saga.Definition[order]) {
	r.d, r.e = d, engineOf(r.t, r.db.(*memstore.Store), d)
}

func (r *renamed) send(d *saga.Definition[order], key string, s saga.Signal[bool]) {
	r.t.Helper()
	if got, err := s.Send(r.t.Context(), saga.Bind(r.e, d), key, true); err != nil || got != saga.Taken {
		r.t.Fatalf("the signal %s: %s, %v", s.Name, got, err)
	}
	r.goOn()
}

// TestRenameInProgress: requests in progress when their step is renamed are answered, continued and undone
// under their original names. The answers come before or after the saga is moved.
func TestRenameInProgress(t *testing.T) {
	for _, before := range []bool{true, false} {
		t.Run(fmt.Sprint(before), func(t *testing.T) {
			t.Parallel()
			r := newRenamed(t)
			r.as(r.older)
			commands := r.begin(order{ID: "o"})
			if len(commands) != 2 {
				t.Fatalf("%d commands", len(commands))
			}
			r.as(r.newer)
			if before {
				r.send(r.newer, "o", r.side)
			}
			for _, c := range commands {
				r.take(r.reply(c, "packed", "o"))
			}
			r.goOn()
			r.send(r.inner, "o-c", r.inside)
			if !before {
				r.send(r.newer, "o", r.side)
			}
			if s := r.saga("o"); s.Step != "last" || s.Hash != r.newer.Hash() || r.bank.payments() != 1 {
				t.Fatalf("its state is %+v; replies %v", s, r.e.Health().Replies)
			}
			if out, err := r.cancel("o"); err != nil || out != saga.Taken {
				t.Fatal(out, err)
			}
			for n := 0; n < 2; n++ {
				for _, c := range r.goOn() {
					r.take(r.reply(c, "unpacked", "o"))
				}
			}
			if got := r.until("o", r.e); got != "compensated" || r.bank.payments() != 0 {
				t.Errorf("it is %s, and %d payments are left", got, r.bank.payments())
			}
			if end := await(t, r.e, r.inner, "o-c"); end.Done {
				t.Errorf("its child is %+v", end)
			}
		})
	}
}

func (r *renamed) cancel(key string) (out saga.SignalResult, err error) {
	db := r.db.(*memstore.Store)
	return within(r.t, db, func(tx tx) (saga.SignalResult, error) {
		return saga.Bind(r.e, r.newer).Cancel(r.t.Context(), tx, key, "no more")
	}), nil
}

// TestAnotherChild: if the definition of a step's child differs, a build does not run a saga that has begun
// the step. It would not find the child, which would remain forever. The build that began it undoes it.
func TestAnotherChild(t *testing.T) {
	t.Parallel()
	now := time.Now()
	clock := func() time.Time { return now }
	db := memstore.New(&memstore.Options{Now: clock})
	train, plane := saga.New("train", &saga.Options[trip]{Key: tripKey}, ledger("rail")),
		saga.New("plane", &saga.Options[trip]{Key: tripKey}, ledger("air"))
	define := func(child *saga.Definition[trip]) *saga.Definition[trip] {
		return saga.New("trip", &saga.Options[trip]{Key: tripKey}, ledger("hotel"),
			saga.Child("ride", child, func(r saga.Run[trip]) trip { return trip{ID: r.Key} }),
			saga.Wait[trip]("go", moved))
	}
	older, newer := define(train), define(plane)
	was := engineAt(t, db, clock, older, train)
	start := func(key string) {
		begun := db.BeginTx()
		_, err := saga.Bind(was, older).Start(t.Context(), begun, trip{ID: key})
		done(t, "start", begun, err)
	}
	start("t")
	settle(t, was)
	is := engineAt(t, db, clock, newer, train, plane)
	start("unbegun")
	settle(t, is)
	var next bytes.Buffer
	if err := saga.Write(&next, newer, train); err != nil {
		t.Fatal(err)
	}
	checks, err := operate.CheckSagas(t.Context(), db, &next)
	if err != nil || len(checks) != 2 || checks[0].Continue+checks[1].Continue != 1 {
		t.Errorf("checked: %+v, %v", checks, err)
	}
	within(t, db, func(tx tx) (saga.SignalResult, error) {
		return saga.Bind(is, newer).Cancel(t.Context(), tx, "t", "no more")
	})
	settle(t, is)
	if _, there := db.User()["t rail"]; !there {
		t.Error("the later build has undone an unknown step")
	}
	if _, there := db.User()["unbegun air"]; !there {
		t.Error("the later build does not run a saga that has not begun the step")
	}
	now = now.Add(time.Minute) // the time for which it is left to other builds
	settle(t, engineAt(t, db, clock, older, train))
	for _, name := range []string{"trip", "train"} {
		list, err := store.ListSagas(t.Context(), db, store.SagaQuery{Name: name, Key: "t"})
		if err != nil || len(list) != 1 || list[0].Status != "compensated" {
			t.Errorf("%s: %+v, %v", name, list, err)
		}
	}
	if n := left(db, "t"); n != 0 {
		t.Errorf("%d rows of it are left", n)
	}
}

func engineAt(t *testing.T, db *memstore.Store, clock func() time.Time,
	defs ...saga.Defined) *saga.Engine[tx] {
	t.Helper()
	e, err := saga.NewEngine(db, &saga.EngineOptions{Now: clock,
		Logger: slog.New(slog.NewTextHandler(t.Output(), nil))}, defs...)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// TestLeftToAnotherBuild: a saga that a build cannot run is shown to operators with the reason, and counts
// as overdue after 15 minutes, until another build runs it.
func TestLeftToAnotherBuild(t *testing.T) {
	now := time.Now()
	clock := func() time.Time { return now }
	db := memstore.New(&memstore.Options{Now: clock})
	soon := saga.Retry(saga.Policy{InitialInterval: time.Millisecond})
	older := saga.New("trip", &saga.Options[trip]{Key: tripKey}, ledger("flight"), ledger("hotel", soon))
	newer := saga.New("trip", &saga.Options[trip]{Key: tripKey}, ledger("train"))
	was, is := engineAt(t, db, clock, older), engineAt(t, db, clock, newer)
	begun := db.BeginTx()
	_, err := saga.Bind(was, older).Start(t.Context(), begun,
		trip{ID: "t", Fail: map[string]string{"hotel": "once"}})

	done(t, "start", begun, err)
	overdue := func(want int64) {
		t.Helper()
		is, err := db.Status(t.Context(), store.StatusQuery{Sagas: true})
		if err != nil || len(is.Sagas) != 1 || is.Sagas[0].Overdue != want {
			t.Errorf("counted: %+v, want %d overdue, %v", is.Sagas, want, err)
		}
	}
	step := func(e *saga.Engine[tx], until func(s store.Saga) bool) {
		t.Helper()
		for {
			now = now.Add(10 * time.Second)
			if _, err := e.Step(t.Context()); err != nil {
				t.Fatal(err)
			}
			list, err := store.ListSagas(t.Context(), db, store.SagaQuery{Name: "trip", Key: "t"})
			if err != nil || len(list) != 1 {
				t.Fatalf("%+v, %v", list, err)
			}
			if until(list[0]) {
				return
			}
		}
	}
	step(was, func(s store.Saga) bool { return s.Failed == 1 })
	step(is, func(s store.Saga) bool {
		return strings.HasPrefix(s.Error, "left to another build: ") && s.Failed == 1
	})
	left, version := now, int64(0)
	overdue(0)
	step(is, func(s store.Saga) bool {
		version = s.Version
		return now.Sub(left) > 14*time.Minute
	})
	overdue(0)
	step(is, func(s store.Saga) bool { return now.Sub(left) > 16*time.Minute && s.Version > version })
	overdue(1)
	step(was, func(s store.Saga) bool { return !s.Ended.IsZero() })
}
