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

// A saga of which no engine that runs takes care says so, and what is to be done: after a rollback, where its
// definition is incompatible, and where nothing runs.
func TestExplainsThatNoBuildGoesOn(t *testing.T) {
	now := time.Now()
	db := memstore.New(&memstore.Options{Now: func() time.Time { return now }})
	graph := func(shape string, steps ...string) plan.Graph {
		g := plan.Graph{Name: "order", Shape: shape}
		for _, name := range steps {
			g.Steps = append(g.Steps, plan.Step{Name: name, Kind: plan.Do, NoEffect: true})
		}
		return g
	}
	v1, v2 := graph("string", "hold"), graph("string", "hold", "check")
	v3 := graph("number", "hold", "check")
	note := func(g plan.Graph, ms ...plan.Mapping) {
		t.Helper()
		var text strings.Builder
		err := plan.Write(&text, plan.Written{Hash: g.Hash(), Graph: g, Mappings: ms})
		if err == nil {
			_, err = db.Apply(t.Context(), store.Effect{Definitions: []store.SagaDefinition{{Name: g.Name,
				Hash: g.Hash(), Written: text.String()}}})
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	says := func(what, want string) {
		t.Helper()
		r, err := ReadSaga(t.Context(), db, "order", "o")
		if err != nil {
			t.Fatal(err)
		}
		got := strings.Join(r.Explain(""), "\n")
		none := !strings.Contains(got, "No engine") && !strings.Contains(got, "waits for an engine")
		if none != (want == "") || !strings.Contains(got, want) {
			t.Errorf("%s: got\n%s\nwant %q", what, got, want)
		}
		all, err := orchestrated(t.Context(), db, "o", "")
		if err != nil || len(all) != 1 {
			t.Fatalf("%+v, %v", all, err)
		}
		drift := strings.Join(all[0].Drift, "\n")
		if none != (drift == "") || !strings.Contains(drift, want) {
			t.Errorf("%s: the status is\n%s\nwant %q", what, drift, want)
		}
	}
	note(v1)
	note(v2)
	state, err := json.Marshal(plan.State{ID: "1", Status: plan.Running})
	if err != nil {
		t.Fatal(err)
	}
	tx := db.BeginTx()
	if _, _, err := db.StartSagas(t.Context(), tx, store.Saga{Name: "order", Key: "o", ID: "1",
		Hash: v2.Hash(), Input: "{}", State: string(state),
		SagaStatus: store.SagaStatus{Status: "running"}}); err != nil {
		t.Fatal(err)
	}
	if err := tx.Commit(); err != nil {
		t.Fatal(err)
	}
	says("its build runs", "")
	now = now.Add(20 * time.Second)
	note(v1)
	says("a rollback, before the notes are old", "waits for an engine with its definition ("+v2.Hash()+
		"), which an engine last stored at ")
	late, err := lateOf(t.Context(), db, "order")
	if err != nil || late != "" {
		t.Errorf("before it counts as overdue: %q, %v", late, err)
	}
	now = now.Add(time.Minute)
	if late, err = lateOf(t.Context(), db, "order"); err != nil ||
		!strings.Contains(late, "; 1 of definition "+v2.Hash()+": It has been due since ") {
		t.Errorf("the doctor has %q, %v", late, err)
	}
	now = now.Add(10 * time.Minute)
	says("no engine runs it", "no engine with another definition of its name")
	note(v1)
	says("the earlier build runs again", v1.Hash()+" run, but that definition is not a later one")
	says("the remedy", "saga.Mapping whose From is "+v2.Hash())
	note(v1, plan.Mapping{From: v2.Hash()})
	says("it maps them back", "")
	now = now.Add(10 * time.Minute)
	note(v3)
	says("a build that cannot read their input runs", "its input: string is read as number")
}
