package saga_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"testing"
	"time"

	"github.com/skald-go/skald/call"
	"github.com/skald-go/skald/operate"
	"github.com/skald-go/skald/saga"
	"github.com/skald-go/skald/sagatest"
	"github.com/skald-go/skald/store"
	"github.com/skald-go/skald/store/memstore"
)

// explored runs sagas of d on two engines, with one I/O going wrong each time. Right tells what is left of
// one that has ended; done tells which of the sagas end well.
func explored(t *testing.T, d func() (*saga.Definition[trip], func(key string, done bool) error), want map[string]bool, ins ...trip) {
	t.Helper()
	sagatest.Explore(t, func(w *sagatest.World) error {
		db := memstore.New(&memstore.Options{Now: w.Now, Wait: time.Millisecond})
		def, right := d()
		quiet := slog.New(slog.DiscardHandler)
		build := func(db store.Driver[tx]) (*saga.Engine[tx], error) {
			return saga.NewEngine(db, &saga.EngineOptions{Now: w.Now, NewID: w.NewID, Lease: 3 * time.Second, Logger: quiet}, def)
		}
		starter, err := build(db)
		if err != nil {
			return err
		}
		for _, in := range ins {
			tx := db.BeginTx()
			if _, err := saga.Start(context.Background(), starter, tx, def, in); err != nil {
				return err
			}
			if err := tx.Commit(); err != nil {
				return err
			}
		}
		for _, name := range []string{"one", "two"} {
			w.Process(name, func(p *sagatest.Process) error {
				e, err := build(sagatest.CrashDriver(p, store.Driver[tx](db.Session())))
				if err == nil {
					p.Step(e)
				}
				return err
			})
		}
		w.Finally("each saga has ended as it should", func() error {
			ss, err := store.ListSagas(context.Background(), db, store.SagaQuery{Name: def.Name()})
			if err != nil || len(ss) != len(ins) {
				return fmt.Errorf("%d sagas, %w", len(ss), err)
			}
			for _, s := range ss {
				if s.Ended.IsZero() || (s.Status == "done") != want[s.Key] {
					err = errors.Join(err, fmt.Errorf("%s is %s (stuck: %v) at %s: %s", s.Key, s.Status, s.Stuck, s.Step, s.Error))
				}
				err = errors.Join(err, right(s.Key, want[s.Key]))
				if n := left(db, s.Key); want[s.Key] != (n > 0) {
					err = errors.Join(err, fmt.Errorf("%s left %d rows: %v", s.Key, n, maps.Collect(maps.All(db.User()))))
				}
			}
			return err
		})
		return nil
	}, &sagatest.Options{Pairs: !testing.Short(), Sample: 300, Rest: 15 * time.Second})
}

func TestExploreDo(t *testing.T) {
	explored(t, func() (*saga.Definition[trip], func(string, bool) error) {
		return trips(), func(string, bool) error { return nil }
	}, map[string]bool{"a": true}, trip{ID: "a"}, trip{ID: "b", Fail: map[string]string{"car": "reject", "undo flight": "once"}})
}

func TestExploreCall(t *testing.T) {
	explored(t, func() (*saga.Definition[trip], func(string, bool) error) {
		b := newBank()
		b.asking = make(chan struct{}, 100_000)
		b.at = call.NewProvider("bank", &call.ProviderOptions{Timeout: time.Second, Trip: 1000})
		return paying(b, nil), func(string, bool) error {
			if n := b.payments(); n != 1 {
				return fmt.Errorf("%d payments", n)
			}
			return nil
		}
	}, map[string]bool{"a": true}, trip{ID: "a"}, trip{ID: "b", Fail: map[string]string{"pack": "reject"}})
}

// A child and its parent stand together, whatever goes wrong.
func TestExploreChild(t *testing.T) {
	explored(t, func() (*saga.Definition[trip], func(string, bool) error) {
		inner := saga.New("inner", &saga.Options[trip]{Key: tripKey}, ledger("x"))
		of := func(r saga.Run[trip]) trip { return trip{r.Key, r.In.Fail} }
		return saga.New("outer", &saga.Options[trip]{Key: tripKey}, ledger("a"), saga.Child("inner", inner, of), ledger("b")),
			func(string, bool) error { return nil }
	}, map[string]bool{"a": true}, trip{ID: "a"}, trip{ID: "b", Fail: map[string]string{"b": "reject"}})
}

// stepping is a process that does one thing once.
type stepping func(ctx context.Context) (bool, error)

func (s stepping) Step(ctx context.Context) (bool, error) { return s(ctx) }

// A cancellation comes at any I/O of an engine, which may die as well: what is done is all or nothing.
func TestExploreCancel(t *testing.T) {
	sagatest.Explore(t, func(w *sagatest.World) error {
		db := memstore.New(&memstore.Options{Now: w.Now, Wait: time.Millisecond})
		b := newBank()
		b.asking = make(chan struct{}, 100_000)
		b.at = call.NewProvider("bank", &call.ProviderOptions{Timeout: time.Second, Trip: 1000})
		d := paying(b, nil)
		o := &saga.EngineOptions{Now: w.Now, NewID: w.NewID, Lease: 3 * time.Second, Logger: slog.New(slog.DiscardHandler)}
		starter, err := saga.NewEngine(db, o, d)
		if err != nil {
			return err
		}
		start := db.BeginTx()
		if _, err := saga.Start(context.Background(), starter, start, d, trip{ID: "a", Fail: map[string]string{"hold": "once"}}); err != nil {
			return err
		}
		if err := start.Commit(); err != nil {
			return err
		}
		w.Process("engine", func(p *sagatest.Process) error {
			e, err := saga.NewEngine(sagatest.CrashDriver(p, store.Driver[tx](db.Session())), o, d)
			if err == nil {
				p.Step(e)
			}
			return err
		})
		asked := false
		w.Process("operator", func(p *sagatest.Process) error {
			db := sagatest.CrashDriver(p, store.Driver[tx](db.Session()))
			p.Step(stepping(func(ctx context.Context) (bool, error) {
				if asked {
					return false, nil
				}
				_, err := operate.ChangeSagas(ctx, db, operate.SagaSelection{Key: "a"}, operate.SagaChange{Verb: operate.CancelSaga}, operate.Order{Author: "ann", Reason: "test"})
				if asked = err == nil || errors.As(err, new(*operate.PartlyError)); asked {
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
			case s.Status == "done" && rows == 3 && payments == 1, s.Status == "compensated" && rows == 0 && payments == 0:
				return nil
			default:
				return fmt.Errorf("%s (stuck: %v) at %s: %s: %d rows, %d payments", s.Status, s.Stuck, s.Step, s.Error, rows, payments)
			}
		})
		return nil
	}, &sagatest.Options{Pairs: !testing.Short(), Sample: 400, Rest: 15 * time.Second})
}
