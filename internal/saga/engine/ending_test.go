package engine

import (
	"testing"

	"github.com/skald-go/skald/store"
)

func TestTellReachesTheWaitersForTheSaga(t *testing.T) {
	var w waiters
	at := store.SagaRef{Name: "order", Key: "1"}
	first, leaveFirst := w.Add(at)
	second, leaveSecond := w.Add(at)
	other, leaveOther := w.Add(store.SagaRef{Name: "order", Key: "2"})
	leaveSecond()

	is := endNotifier{Saga: store.Saga{ID: "id"}}
	w.Notify(at, is)
	w.Notify(at, is) // no waiter is left, so this does not block
	if got := <-first; got.Saga.ID != "id" {
		t.Errorf("told %+v", got)
	}
	if len(second) > 0 || len(other) > 0 {
		t.Error("a caller that left, or waits for another saga, was notified")
	}
	leaveFirst()
	leaveOther()
	if len(w.by) != 0 {
		t.Errorf("%d sagas without a waiter are left", len(w.by))
	}
}
