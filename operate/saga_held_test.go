package operate_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/skald-go/skald/operate"
	"github.com/skald-go/skald/store"
	"github.com/skald-go/skald/store/memstore"
)

// hold has a transaction of somebody else's hold the rows of sagas until the test ends.
func (b *sagaBench) hold(keys ...string) {
	b.t.Helper()
	var refs []store.SagaRef
	for _, key := range keys {
		list, err := store.ListSagas(b.t.Context(), b.db, store.SagaQuery{Name: "order", Key: key})
		if err != nil || len(list) != 1 {
			b.t.Fatalf("%+v, %v", list, err)
		}
		refs = append(refs, store.SagaRef{Name: "order", Key: key, Version: list[0].Version})
	}
	u, err := b.db.Begin(b.t.Context(), store.Intake{Sagas: refs, Handle: time.Hour})
	if err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(func() { _, _ = u.Rollback(context.WithoutCancel(b.t.Context())) })
}

// Sagas whose rows a step holds are left, with why, and the others are changed, soon.
func TestBulkLeavesWhatIsHeld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		broken := false
		b := newSagaBench(t, &broken)
		b.start("k-1", "k-2", "k-3", "k-4")
		<-time.After(time.Second) // a run is about sagas that were started before
		b.hold("k-1", "k-3")
		began := time.Now()
		r, err := operate.RunSagas(t.Context(), b.db, "pause", operate.SagaSelection{Name: "order"},
			operate.SagaChange{Verb: operate.PauseSaga}, operate.Order{Author: "ann", Reason: "an incident"})
		if !errors.As(err, new(*operate.PartialError)) || r.Done != 2 || len(r.Left) != 2 ||
			!r.Left[0].Unneeded || !strings.Contains(r.Left[0].Why, "one of its steps, or another") {
			t.Errorf("%+v, %v", r, err)
		}
		if took := time.Since(began); took > 7*time.Second {
			t.Errorf("it took %v", took)
		}
		list, err := operate.Sagas(t.Context(), b.db, operate.SagaSelection{Paused: true})
		if err != nil || len(list) != 2 || list[0].Key != "k-2" || list[1].Key != "k-4" {
			t.Errorf("paused: %+v, %v", list, err)
		}
		run, err := operate.ReadRun(t.Context(), b.db, "pause")
		if err != nil || !strings.HasPrefix(run.Ended, "2 of 4 sagas; the others were left") {
			t.Errorf("%+v, %v", run, err)
		}
		one, err := operate.ChangeSagas(t.Context(), b.db, operate.SagaSelection{Key: "k-1"},
			operate.SagaChange{Verb: operate.CancelSaga}, operate.Order{Author: "ann", Reason: "x"})
		if !errors.As(err, new(*operate.PartialError)) || len(one.Left) != 1 ||
			!strings.Contains(one.Left[0].Why, "repeat the command later") {
			t.Errorf("of one: %+v, %v", one, err)
		}
	})
}

// A filed store is one file: while a step holds that, nothing can be written, not even that a run begins.
type filed struct{ *memstore.Store }

func (f filed) Apply(context.Context, ...store.Effect) ([]bool, error) {
	<-time.After(5 * time.Second)
	return []bool{false}, fmt.Errorf("wait for another process's transaction: %w", store.ErrBusy)
}

func TestBulkWhileTheFileIsHeld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		broken := false
		b := newSagaBench(t, &broken)
		b.start("k-1", "k-2")
		<-time.After(time.Second)
		r, err := operate.RunSagas(t.Context(), filed{b.db}, "pause", operate.SagaSelection{Name: "order"},
			operate.SagaChange{Verb: operate.PauseSaga}, operate.Order{Author: "ann", Reason: "an incident"})
		if !errors.As(err, new(*operate.PartialError)) || r.Selected != 2 || r.Done != 0 ||
			len(r.Left) != 2 ||
			!r.Left[0].Unneeded {
			t.Errorf("%+v, %v", r, err)
		}
	})
}

// A refusing store does not take one saga, by a trigger of the user's perhaps.
type refusing struct {
	*memstore.Store
	key string
}

func (r refusing) Apply(ctx context.Context, es ...store.Effect) ([]bool, error) {
	if m := es[0].Saga; m != nil && m.Key == r.key {
		return []bool{false}, errors.New("a trigger says no")
	}
	return r.Store.Apply(ctx, es...)
}

// One saga that the store refuses, or whose state cannot be read, is left with why: the others are changed.
func TestBulkLeavesWhatIsRefused(t *testing.T) {
	broken := false
	b := newSagaBench(t, &broken)
	b.start("k-1", "k-2", "k-3")
	list, err := store.ListSagas(t.Context(), b.db, store.SagaQuery{Name: "order", Key: "k-2"})
	if err != nil || len(list) != 1 {
		t.Fatalf("%+v, %v", list, err)
	}
	torn := &store.SagaUpdate{SagaStatus: list[0].SagaStatus, State: "{",
		SagaRef: store.SagaRef{Name: "order", Key: "k-2", Version: list[0].Version}}
	if _, err := b.db.Apply(t.Context(), store.Effect{Saga: torn}); err != nil {
		t.Fatal(err)
	}
	for _, o := range []operate.Order{{DryRun: true}, {Author: "ann", Reason: "an incident"}} {
		r, err := operate.ChangeSagas(t.Context(), refusing{b.db, "k-1"},
			operate.SagaSelection{Name: "order"},
			operate.SagaChange{Verb: operate.PauseSaga}, o)
		done := 1
		if o.DryRun { // it does not ask the store
			done = 2
		}
		if !errors.As(err, new(*operate.PartialError)) || r.Done != done || len(r.Left) != 3-done ||
			r.Left[0].Why == "" {
			t.Errorf("%+v: %+v, %v", o, r, err)
		}
	}
}
