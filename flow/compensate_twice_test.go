package flow_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/flow"
	"github.com/skald-go/skald/operate"
	"github.com/skald-go/skald/store/memstore"
)

// TestCompensateStepThatCameTwice checks that a step that takes effect twice is undone twice. The next
// command requests only the undo of an effect that came after the last command. An event that reports one of
// two undos does not count for both. A repeated request starts a new wait.
func TestCompensateStepThatCameTwice(t *testing.T) {
	db := memstore.New(nil)
	c := &town[*memstore.Tx]{db: db, tracker: flow.NewTracker(shipping(t), db, nil)}
	receive := func(name, id string) flow.SagaState {
		t.Helper()
		tx := db.BeginTx()
		m := skald.Message{ID: id, Source: "/shop", Topic: "orders", Type: name, Key: []byte("o-1"),
			CorrelationID: "o-1", Time: time.Now(),
			Data: []byte(`"o-1"`), ContentType: "application/json"}
		if err := errors.Join(c.tracker.Handle(t.Context(), tx, []skald.Message{m}),
			tx.Commit()); err != nil {
			t.Fatal(err)
		}
		return c.find(t, "o-1")
	}
	compensate := func(again bool, events, before int) {
		t.Helper()
		r, err := operate.Compensate(t.Context(), db, operate.CompensateRequest{Key: "o-1", Repeat: again},
			operate.Order{Author: "ada", Reason: "twice"})
		if err != nil || len(r.Events) != events || len(r.Before) != before {
			t.Fatalf("%d events, %d before, %v, want %d and %d", len(r.Events), len(r.Before), err,
				events, before)
		}
	}
	receive("placed", "p")
	receive("taken", "t-1")
	compensate(false, 1, 0)
	compensate(false, 0, 1)
	first := c.find(t, "o-1").Asked[0]
	receive("taken", "t-2")
	compensate(false, 1, 0)
	compensate(false, 0, 1)
	if both := c.find(t, "o-1").Asked[0]; len(both.IDs) != 2 || !both.Due.Equal(*first.Due) {
		t.Errorf("asked %+v, and then %+v: the first is due as before", first, both)
	}
	compensate(true, 2, 0)
	s := c.find(t, "o-1")
	if len(s.Asked) != 1 || len(s.Asked[0].Of) != 2 {
		t.Fatalf("asked %+v", s.Asked)
	}
	waits := slices.DeleteFunc(slices.Clone(s.Waiting),
		func(w flow.Wait) bool { return w.After.Type != "taken" || w.For[0].Type != "refunded" })
	if len(waits) != 1 || !waits[0].Since.Equal(s.Asked[0].At) || !waits[0].Due.Equal(*s.Asked[0].Due) {
		t.Errorf("asked %+v, and it waits for %+v", s.Asked[0], waits)
	}
	unsure := func(s flow.SagaState) bool {
		return slices.ContainsFunc(s.Drift,
			func(d string) bool { return strings.Contains(d, "some may not be undone") })
	}
	if s = receive("refunded", "r-1"); !unsure(s) {
		t.Errorf("one of two is undone: %+v", s.Drift)
	}
	if s = receive("refunded", "r-2"); unsure(s) {
		t.Errorf("both are undone: %+v", s.Drift)
	}
}
