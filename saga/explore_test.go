package saga_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"testing"
	"time"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/call"
	"github.com/skald-go/skald/internal/need"
	"github.com/skald-go/skald/operate"
	"github.com/skald-go/skald/saga"
	"github.com/skald-go/skald/sagatest"
	"github.com/skald-go/skald/store"
	"github.com/skald-go/skald/store/memstore"
)

// stage is a set of sagas that two engines run. Right checks the effects of a saga that has ended. Want
// names the sagas that end well.
type stage struct {
	def   func() (*saga.Definition[trip], func(db *memstore.Store, key string, done bool) error)
	want  map[string]bool
	ins   []trip
	ahead time.Duration // offset of the first engine's clock
}

// wiring adds a bug between processes and their database. Nil adds none.
type wiring struct {
	engine, operator *tamper
	bare             bool // a reply names its saga, but not its command
}

// session returns the database of one session of a process.
func session(p *sagatest.Process, db *memstore.Store, t *tamper) store.Driver[tx] {
	own := db.Session()
	p.OnCrash(own.Kill)
	switch {
	case t == nil:
		return sagatest.CrashDriver[tx](p, own)
	case t.unguarded: // checked at each I/O
		return sagatest.CrashDriver[tx](p, &tampered{Driver: own, t: t, raw: db})
	}
	return &tampered{Driver: sagatest.CrashDriver[tx](p, own), t: t, raw: db}
}

func quietly(w *sagatest.World) *saga.EngineOptions {
	return &saga.EngineOptions{Now: w.Now, NewID: w.NewID, Lease: 3 * time.Second,
		Logger: slog.New(slog.DiscardHandler)}
}

// startAll starts sagas before any fault.
func startAll(w *sagatest.World, db *memstore.Store, def *saga.Definition[trip], ins ...trip) error {
	starter, err := saga.NewEngine(db, quietly(w), def)
	if err != nil {
		return err
	}
	for _, in := range ins {
		tx := db.BeginTx()
		if _, err := saga.Bind(starter, def).Start(context.Background(), tx, in); err != nil {
			return err
		}
		if err := tx.Commit(); err != nil {
			return err
		}
	}
	return nil
}

// build returns a world with the stage.
func (s stage) build(b wiring) func(w *sagatest.World) error {
	return func(w *sagatest.World) error {
		db := memstore.New(&memstore.Options{Now: w.Now, Wait: time.Millisecond})
		def, right := s.def()
		if err := startAll(w, db, def, s.ins...); err != nil {
			return err
		}
		for i, name := range []string{"one", "two"} {
			w.Process(name, func(p *sagatest.Process) error {
				o := quietly(w)
				o.Now = func() time.Time { return w.Now().Add(time.Duration(1-i) * s.ahead) }
				e, err := saga.NewEngine(session(p, db, b.engine), o, def)
				if err == nil {
					p.Step(e)
				}
				return err
			})
		}
		w.Finally("each saga has ended as it should", func() error {
			ss, err := store.ListSagas(context.Background(), db, store.SagaQuery{Name: def.Name()})
			if err != nil || len(ss) != len(s.ins) {
				return fmt.Errorf("%d sagas, %w", len(ss), err)
			}
			for _, is := range ss {
				if is.Ended.IsZero() || (is.Status == "done") != s.want[is.Key] {
					err = errors.Join(err, fmt.Errorf("%s is %s (stuck: %v) at %s: %s", is.Key, is.Status,
						is.Stuck, is.Step, is.Error))
				}
				err = errors.Join(err, right(db, is.Key, s.want[is.Key]))
				if n := left(db, is.Key); s.want[is.Key] != (n > 0) {
					err = errors.Join(err, fmt.Errorf("%s left %d rows: %v", is.Key, n,
						maps.Collect(maps.All(db.User()))))
				}
			}
			return err
		})
		return nil
	}
}

// drawn returns the number of schedules of an exploration: n in a full run (need.Full), or else a third of n.
func drawn(n int) int {
	if need.Full() {
		return n
	}
	return n / 3
}

// explored runs the sagas with a fault at each I/O.
func explored(t *testing.T, s stage) {
	t.Helper()
	sagatest.Explore(t, s.build(wiring{}), &sagatest.Options{Pairs: !testing.Short(), Sample: drawn(300),
		Rest: 15 * time.Second})
}

func TestExploreDo(t *testing.T) {
	explored(t, stage{
		def: func() (*saga.Definition[trip], func(*memstore.Store, string, bool) error) {
			return trips(), func(*memstore.Store, string, bool) error { return nil }
		},
		want: map[string]bool{"a": true},
		ins:  []trip{{ID: "a"}, {ID: "b", Fail: map[string]string{"car": "reject", "undo flight": "once"}}},
	})
}

func TestExploreCall(t *testing.T) { explored(t, payments()) }

// payments returns a stage with two payments, each at its own bank: one is kept, and one is refunded.
func payments() stage {
	return stage{
		def: func() (*saga.Definition[trip], func(*memstore.Store, string, bool) error) {
			b := newBank()
			b.asking = make(chan struct{}, 100_000)
			b.at = call.NewProvider("bank", &call.ProviderOptions{Timeout: time.Second, Trip: 1000})
			return paying(b, nil), func(*memstore.Store, string, bool) error {
				if n := b.payments(); n != 1 {
					return fmt.Errorf("%d payments", n)
				}
				return nil
			}
		},
		want: map[string]bool{"a": true},
		ins:  []trip{{ID: "a"}, {ID: "b", Fail: map[string]string{"pack": "reject"}}},
	}
}

// TestExploreChild: a child and its parent have the same result after each fault.
func TestExploreChild(t *testing.T) { explored(t, family()) }

func family() stage {
	return stage{
		def: func() (*saga.Definition[trip], func(*memstore.Store, string, bool) error) {
			inner := saga.New("inner", &saga.Options[trip]{Key: tripKey}, ledger("x"))
			of := func(r saga.Run[trip]) trip { return trip{r.Key, r.In.Fail} }
			return saga.New("outer", &saga.Options[trip]{Key: tripKey}, ledger("a"),
					saga.Child("inner", inner, of), ledger("b")),
				func(*memstore.Store, string, bool) error { return nil }
		},
		want: map[string]bool{"a": true},
		ins:  []trip{{ID: "a"}, {ID: "b", Fail: map[string]string{"b": "reject"}}},
	}
}

// TestExploreRetryOfAChild: a child is rejected past the pivot, and an operator removes the cause and
// retries it. After each fault, the first child has no effect, the other one is done once, and the parent
// gets its end.
func TestExploreRetryOfAChild(t *testing.T) {
	sagatest.Explore(t, repaired, &sagatest.Options{Pairs: !testing.Short(), Sample: drawn(60),
		Rest: 15 * time.Second})
}

func repaired(w *sagatest.World) error {
	db := memstore.New(&memstore.Options{Now: w.Now, Wait: time.Millisecond})
	short := true
	child := saga.New("inner", &saga.Options[trip]{Key: tripKey}, ledger("x"),
		saga.Do("y", func(_ context.Context, tx tx, r saga.Run[trip]) (string, error) {
			if short {
				return "", skald.Reject(errors.New("out of stock"))
			}
			return "", tx.Put(r.Key+" y", "done")
		}, nil, saga.NoEffect()))
	d := saga.New("outer", &saga.Options[trip]{Key: tripKey}, ledger("pay", saga.Pivot()),
		saga.Child("inner", child, func(r saga.Run[trip]) trip { return r.In }))
	if err := startAll(w, db, d, trip{ID: "a"}); err != nil {
		return err
	}
	for _, name := range []string{"one", "two"} {
		w.Process(name, func(p *sagatest.Process) error {
			e, err := saga.NewEngine(session(p, db, nil), quietly(w), d)
			if err == nil {
				p.Step(e)
			}
			return err
		})
	}
	w.Process("operator", func(p *sagatest.Process) error {
		db := session(p, db, nil)
		p.Step(stepping(func(ctx context.Context) (bool, error) {
			ss, err := store.ListSagas(ctx, db, store.SagaQuery{Name: "outer"})
			if err != nil || len(ss) != 1 || !ss[0].Stuck {
				return false, err
			}
			short = false
			_, err = operate.ChangeSagas(ctx, db, operate.SagaSelection{Name: "outer", Key: "a"},
				operate.SagaChange{Verb: operate.RetrySaga}, operate.Order{Author: "ann", Reason: "test"})
			if errors.As(err, new(*operate.PartialError)) {
				err = nil
			}
			return true, err
		}))
		return nil
	})
	w.Finally("done once", func() error {
		ss, err := store.ListSagas(context.Background(), db, store.SagaQuery{})
		if err != nil || len(ss) != 2 || ss[0].Status != "done" || ss[1].Status != "done" ||
			left(db, "a") != 3 {
			return fmt.Errorf("%+v, %v: %w", ss, db.User(), err)
		}
		return nil
	})
	return nil
}

// TestExploreScenes: the scenes of the seeded bugs pass without a bug, after each fault.
func TestExploreScenes(t *testing.T) {
	for name, scene := range map[string]func(b wiring) func(w *sagatest.World) error{
		"two engines": twoEngines, "participants": participants, "impatient": impatient, "shop": shop,
		"starters": starters,
		"builds":   builds,
		"delays":   delays().build, "forgotten": forgotten,
	} {
		t.Run(name, func(t *testing.T) {
			o := &sagatest.Options{Pairs: !testing.Short(), Sample: drawn(150), Rest: 15 * time.Second}
			if name == "builds" {
				o.Rest = time.Minute // longer than an engine leaves a refused saga to others
			}
			sagatest.Explore(t, scene(wiring{}), o)
		})
	}
}

// stepping is a process that does one thing once.
type stepping func(ctx context.Context) (bool, error)

func (s stepping) Step(ctx context.Context) (bool, error) { return s(ctx) }

// TestExploreCancel: a cancellation comes at any I/O of an engine, which may die as well: all steps are
// done or none. Early means that it comes while the engine waits; late, only while the engine is down.
func TestExploreCancel(t *testing.T) {
	for name, after := range map[string]int{"early": early, "late": late} {
		t.Run(name, func(t *testing.T) {
			sagatest.Explore(t, cancelled(wiring{}, after),
				&sagatest.Options{Pairs: !testing.Short(), Sample: drawn(400), Rest: 15 * time.Second})
		})
	}
}

const (
	early = 1
	late  = 8
)

// cancelled is a saga that an operator cancels after some turns of an engine that is paused or has died.
func cancelled(wire wiring, after int) func(w *sagatest.World) error {
	return func(w *sagatest.World) error {
		db := memstore.New(&memstore.Options{Now: w.Now, Wait: time.Millisecond})
		b := newBank()
		b.asking = make(chan struct{}, 100_000)
		b.at = call.NewProvider("bank", &call.ProviderOptions{Timeout: time.Second, Trip: 1000})
		d := paying(b, nil)
		if err := startAll(w, db, d, trip{ID: "a", Fail: map[string]string{"hold": "once"}}); err != nil {
			return err
		}
		w.Process("engine", func(p *sagatest.Process) error {
			e, err := saga.NewEngine(session(p, db, wire.engine), quietly(w), d)
			if err == nil {
				p.Step(e)
			}
			return err
		})
		asked, taken, turns := false, false, 0
		w.Process("operator", func(p *sagatest.Process) error {
			db := session(p, db, wire.operator)
			p.Step(stepping(func(ctx context.Context) (bool, error) {
				if turns++; asked || turns < after {
					return !asked, nil
				}
				_, err := operate.ChangeSagas(ctx, db, operate.SagaSelection{Key: "a"},
					operate.SagaChange{Verb: operate.CancelSaga},
					operate.Order{Author: "ann", Reason: "test"})
				taken = err == nil
				if asked = taken || errors.As(err, new(*operate.PartialError)); asked {
					err = nil
				}
				return true, err
			}))
			return nil
		})
		w.Finally("all or nothing", func() error {
			ss, err := store.ListSagas(context.Background(), db, store.SagaQuery{})
			if err != nil || len(ss) != 1 {
				return fmt.Errorf("%d sagas, %w", len(ss), err)
			}
			rows, payments := left(db, "a"), b.payments()
			switch s := ss[0]; {
			case taken && s.Status != "compensated":
				return fmt.Errorf("%s, and the cancellation was taken", s.Status)
			case s.Status == "done" && rows == 3 && payments == 1, s.Status == "compensated" && rows == 0 &&
				payments == 0:
				return nil
			default:
				return fmt.Errorf("%s (stuck: %v) at %s: %s: %d rows, %d payments", s.Status, s.Stuck, s.Step,
					s.Error, rows, payments)
			}
		})
		return nil
	}
}
