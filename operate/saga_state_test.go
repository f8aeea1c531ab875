package operate_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/skald-go/skald/operate"
	"github.com/skald-go/skald/status"
	"github.com/skald-go/skald/store"
)

// told is what explain and status say of a saga.
func (b *sagaBench) told(key string) (explained string, one operate.SagaProgress, plain string) {
	b.t.Helper()
	const at = "--store s.db"
	read, err := operate.ReadSaga(b.t.Context(), b.db, "order", key)
	if err != nil {
		b.t.Fatal(err)
	}
	a, err := status.Ask(b.t.Context(), b.db, key, at)
	if err != nil || len(a.Sagas) != 1 {
		b.t.Fatalf("%+v, %v", a, err)
	}
	return strings.Join(read.Explain(at), "\n"), a.Sagas[0].SagaProgress,
		strings.Join(status.Explain(&a, time.Now()), "\n")
}

// A saga that a build left to another one says so, since when and why, what to do about it, and how to
// compare: to each who asks. Its step is not said to be at work.
func TestToldLeftToAnotherBuild(t *testing.T) {
	b := newSagaBench(t, new(bool))
	b.start("a")
	list, err := store.ListSagas(t.Context(), b.db, store.SagaQuery{Name: "order", Key: "a"})
	if err != nil || len(list) != 1 {
		t.Fatalf("%+v, %v", list, err)
	}
	s := &list[0]
	s.Error, s.Failed = "left to another build: the step b is not there", 1
	s.Since = time.Date(2026, 1, 31, 8, 0, 0, 0, time.UTC)
	state := strings.ReplaceAll(s.State, `"waiting"`, `"ready"`)
	m := &store.SagaUpdate{SagaStatus: s.SagaStatus, State: state, Release: true,
		SagaRef: store.SagaRef{Name: s.Name, Key: s.Key, Version: s.Version}}
	if _, err := b.db.Apply(t.Context(), store.Effect{Saga: m}); err != nil {
		t.Fatal(err)
	}
	explained, one, plain := b.told("a")
	const want = "ince 2026-01-31T08:00:00Z no build runs it: a build left it to another build (the step b is not " +
		"there). Start a build that can run it, or give the next build a mapping; to compare: skald saga check " +
		"--store s.db --definitions '…'"
	if !strings.Contains(explained, "S"+want) || !strings.Contains(plain, "s"+want) ||
		len(one.Drift) != 1 || one.Drift[0] != "s"+want {
		t.Errorf("explained: %s\nplain: %s\n%+v", explained, plain, one)
	}
	if step := one.Steps[1]; step.Outcome != operate.StepNext || one.Retrying != nil {
		t.Errorf("%+v, %+v", step, one.Retrying)
	}
}

// Past its pivot nobody is told that a saga turns back, nor of one that is paused that its time does
// something, nor of one that has ended that it is paused.
func TestToldOfItsDeadline(t *testing.T) {
	broken := true
	b := newSagaBench(t, &broken)
	b.start("a", "b")
	b.must("a", operate.SagaChange{Verb: operate.PauseSaga})
	explained, one, plain := b.told("a")
	if strings.Contains(explained, "turns back") || strings.Contains(plain, "turns back") ||
		!strings.Contains(explained, ": it has no effect while the saga is paused.") {
		t.Errorf("paused: %s\n%s", explained, plain)
	}
	if one.Forward || !one.Paused {
		t.Errorf("paused: %+v", one)
	}
	b.must("b", operate.SagaChange{Verb: operate.SignalSaga, Signal: "go", Data: json.RawMessage(`"yes"`)})
	if _, one, plain = b.told("b"); !one.Forward ||
		!strings.Contains(one.Deadline(time.Now()), ": its pivot is done, so it goes on") ||
		strings.Contains(plain, "turns back") || len(one.Stays) == 0 {
		t.Errorf("past its pivot: %s\n%+v", plain, one)
	}
	b.must("b", operate.SagaChange{Verb: operate.PauseSaga})
	b.must("b", operate.SagaChange{Verb: operate.SkipSaga, Step: "b"})
	explained, one, _ = b.told("b")
	list, err := operate.Sagas(t.Context(), b.db, operate.SagaSelection{Key: "b"})
	if one.State != "done" || one.Paused || len(one.Commands) > 0 || strings.Contains(explained, "resume") ||
		err != nil || list[0].Paused {
		t.Errorf("ended: %s\n%+v, %+v", explained, one, list)
	}
}

// What is undone is told of one that turns back, and what would be of another one.
func TestToldWhatIsUndone(t *testing.T) {
	forward := operate.SagaProgress{State: "running"}
	back := operate.SagaProgress{State: "compensating"}
	if f, u := forward.UndoWord(), back.UndoWord(); f != "a failure undoes" || u != "to be undone" {
		t.Errorf("%s, %s", f, u)
	}
}
