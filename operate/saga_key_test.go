package operate_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/skald-go/skald/operate"
	"github.com/skald-go/skald/saga"
	"github.com/skald-go/skald/store/memstore"
)

// twins are two sagas of two definitions, which share the key k-1.
func twins(t *testing.T) *memstore.Store {
	t.Helper()
	db := memstore.New(nil)
	key := &saga.Options[string]{Key: func(s string) string { return s }}
	child := saga.New("child", key, saga.Wait[string]("wait", goAhead))
	parent := saga.New("parent", key, saga.Wait[string]("wait", goAhead))
	e, err := saga.NewEngine(db, nil, child, parent)
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range []*saga.Definition[string]{child, parent} {
		tx := db.BeginTx()
		if _, err := saga.Start(t.Context(), e, tx, d, "k-1"); err != nil {
			t.Fatal(err)
		}
		if err := tx.Commit(); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := e.Step(t.Context()); err != nil { // it notes the definitions
		t.Fatal(err)
	}
	return db
}

// A key that sagas of several definitions have does not say which is meant: nothing is changed, as nothing
// is shown. In a run it is a filter.
func TestKeyOfSeveralDefinitions(t *testing.T) {
	db := twins(t)
	pause := operate.SagaChange{Verb: operate.PauseSaga}
	o := operate.Order{Author: "ann", Reason: "the bank is away"}
	key := operate.SagaSelection{Key: "k-1"}
	for _, dry := range []bool{false, true} {
		o.DryRun = dry
		r, err := operate.ChangeSagas(t.Context(), db, key, pause, o)
		if usage := new(operate.UsageError); !errors.As(err, &usage) || r.Selected != 0 ||
			!strings.Contains(err.Error(), `key "k-1": name one of them, child or parent`) {
			t.Errorf("dry run %v: %+v, %v", dry, r, err)
		}
	}
	o.DryRun = false
	if list, err := operate.Sagas(t.Context(), db, operate.SagaSelection{Paused: true}); err != nil ||
		len(list) != 0 {
		t.Errorf("paused: %+v, %v", list, err)
	}
	named := operate.SagaSelection{Name: "parent", Key: "k-1"}
	if r, err := operate.ChangeSagas(t.Context(), db, named, pause, o); err != nil || r.Done != 1 {
		t.Errorf("%+v, %v", r, err)
	}
	cancel := operate.SagaChange{Verb: operate.CancelSaga}
	if r, err := operate.RunSagas(t.Context(), db, "cancel", key, cancel, o); err != nil || r.Done != 2 {
		t.Errorf("as a run: %+v, %v", r, err)
	}
}
