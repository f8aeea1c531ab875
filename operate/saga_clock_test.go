package operate

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/skald-go/skald/internal/saga/plan"
	"github.com/skald-go/skald/store"
	"github.com/skald-go/skald/store/memstore"
)

// An operator's clock that is three days behind the store's, or ahead of it, gives a step that is tried again
// its time by the store's.
func TestRetryByAnotherClock(t *testing.T) {
	for _, ahead := range []time.Duration{72 * time.Hour, -72 * time.Hour} {
		retriesByClock(t,
			memstore.New(&memstore.Options{Now: func() time.Time { return time.Now().Add(ahead) }}))
	}
}

func retriesByClock(t *testing.T, db *memstore.Store) {
	t.Helper()
	graph := plan.Graph{Name: "order", Steps: []plan.Step{{Name: "wait", Kind: plan.Wait, Signal: "go",
		NoEffect: true, Try: plan.Policy{Timeout: time.Hour}}}}
	var text strings.Builder
	if err := plan.Write(&text, plan.Written{Hash: graph.Hash(), Graph: graph}); err != nil {
		t.Fatal(err)
	}
	if _, err := db.Apply(t.Context(), store.Effect{Definitions: []store.SagaDefinition{{Name: "order",
		Hash: graph.Hash(), Written: text.String()}}}); err != nil {
		t.Fatal(err)
	}
	stuck := plan.State{ID: "1", Status: plan.Running,
		Runs: []plan.Run{{Step: "wait", Phase: plan.Waiting, Stuck: true}}}
	state, err := json.Marshal(stuck)
	if err != nil {
		t.Fatal(err)
	}
	tx := db.BeginTx()
	if _, _, err := db.StartSagas(t.Context(), tx,
		store.Saga{Name: "order", Key: "o", ID: "1", Hash: graph.Hash(), Input: "{}", State: string(state),
			SagaStatus: store.SagaStatus{Status: "running", Stuck: true}}); err != nil {
		t.Fatal(err)
	}
	if err := tx.Commit(); err != nil {
		t.Fatal(err)
	}
	r, err := ChangeSagas(t.Context(), db, SagaSelection{Key: "o"},
		SagaChange{Verb: RetrySaga},
		Order{Author: "ann", Reason: "it has to be"})
	if err != nil || r.Done != 1 {
		t.Fatalf("%+v, %v", r, err)
	}
	ss, err := store.ListSagas(t.Context(), db, store.SagaQuery{Key: "o"})
	if err != nil || len(ss) != 1 {
		t.Fatal(ss, err)
	}
	var now plan.State
	if err := json.Unmarshal([]byte(ss[0].State), &now); err != nil {
		t.Fatal(err)
	}
	if due := now.Runs[0].Due; due.Before(ss[0].Started.Add(time.Hour)) ||
		due.After(ss[0].Started.Add(2*time.Hour)) {
		t.Errorf("its time is up at %v, and by the store's clock it was tried again after %v", due,
			ss[0].Started)
	}
}
