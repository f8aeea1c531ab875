package saga_test

import (
	"context"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/skald-go/skald/internal/testlog"
	"github.com/skald-go/skald/saga"
	"github.com/skald-go/skald/store"
	"github.com/skald-go/skald/store/memstore"
)

// panicky panics in each transaction of the saga "bad".
type panicky struct {
	*memstore.Store
	panics atomic.Int64
}

func (p *panicky) Begin(ctx context.Context, in store.Intake) (store.Unit[tx], error) {
	if slices.ContainsFunc(in.Sagas, func(r store.SagaRef) bool { return r.Key == "bad" }) {
		p.panics.Add(1)
		panic("a fault of the store's code")
	}
	return p.Store.Begin(ctx, in)
}

// TestPanicOfSkaldStopsOneSaga: a panic outside of a saga's functions stops neither its engine nor other
// sagas. It is logged with a stack.
func TestPanicOfSkaldStopsOneSaga(t *testing.T) {
	logged := &testlog.Log{}
	db := &panicky{Store: memstore.New(nil)}
	d := refusing("nowhere", func() error { return nil })
	e, err := saga.NewEngine(db, &saga.EngineOptions{Logger: logged.Logger()}, d)
	if err != nil {
		t.Fatal(err)
	}
	running(t, e)
	begin(t, db.Store, e, d, trip{ID: "bad"})
	for deadline := time.Now().Add(time.Minute); db.panics.Load() == 0; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("its transaction does not begin")
		}
	}
	begin(t, db.Store, e, d, trip{ID: "good"})
	if is := settled(t, db, "good"); is.Stuck {
		t.Errorf("the other saga is %+v", is)
	}
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
		if logged.Count("a panic outside of its functions", "key=bad") > 0 &&
			logged.Count("stack of the panic", "panic_test.go") > 0 {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("it is not logged with its stack: %s", logged.String())
		}
	}
}
