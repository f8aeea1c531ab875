package memstore

import (
	"errors"
	"testing"
	"time"

	"github.com/skald-go/skald/store"
)

func sagaFree(sagaKey) bool { return false }

func start(ss *sagaTable, key string, now time.Time) {
	v := ss.View()
	v.Start(store.Saga{Name: "order", Key: key, ID: key, Hash: "h", Lease: time.Minute,
		SagaStatus: store.SagaStatus{Status: "running"}}, now)
	v.Commit()
}

func TestClaimTakesWhatIsDueAndNotLocked(t *testing.T) {
	ss, now := newSaga(), time.Now()
	start(ss, "a", now)
	start(ss, "b", now)
	want := store.ClaimRequest{Session: "s", Lease: time.Hour,
		Sagas: &store.SagaClaimRequest{Hashes: []string{"h"}, Limit: 9}}
	if got := ss.Claim(want, sagaFree, now); len(got.Sagas) != 0 || got.Next != time.Minute {
		t.Errorf("before they are due: %+v", got)
	}
	later := now.Add(2 * time.Minute)
	locked := func(at sagaKey) bool { return at == sagaKeyOf("order", "a") }
	if got := ss.Claim(want, locked, later); len(got.Sagas) != 1 || got.Sagas[0].Key != "b" {
		t.Errorf("claimed are %+v, want b alone", got.Sagas)
	}
}

func TestAMoveIsMadeAtItsVersion(t *testing.T) {
	ss, now := newSaga(), time.Now()
	start(ss, "a", now)
	v := ss.View()
	m := &store.SagaUpdate{SagaRef: store.SagaRef{Name: "order", Key: "a", Version: 1},
		SagaStatus: store.SagaStatus{Status: "running"}}
	if err := v.Move(m, now); err != nil {
		t.Fatal(err)
	}
	if err := v.Move(m, now); !errors.Is(err, store.ErrLost) {
		t.Errorf("made twice: %v", err)
	}
	other := ss.View()
	if !other.HasVersion(store.SagaRef{Name: "order", Key: "a", Version: 1}) {
		t.Error("others see what is not committed")
	}
}
