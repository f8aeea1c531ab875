package saga_test

import (
	"errors"
	"testing"
	"time"

	"github.com/skald-go/skald/store"
	"github.com/skald-go/skald/store/memstore/internal/saga"
)

func free(saga.Key) bool { return false }

func start(ss *saga.Sagas, key string, now time.Time) {
	v := ss.View()
	v.Start(store.Saga{Name: "order", Key: key, ID: key, Hash: "h", Lease: time.Minute,
		Standing: store.Standing{Status: "running"}}, now)
	v.Commit()
}

func TestClaimTakesWhatIsDueAndNotLocked(t *testing.T) {
	ss, now := saga.New(), time.Now()
	start(ss, "a", now)
	start(ss, "b", now)
	want := store.ClaimSagas{Hashes: []string{"h"}, Session: "s", Limit: 9, Lease: time.Hour}
	if got := ss.Claim(want, free, now); len(got.Sagas) != 0 || got.Next != time.Minute {
		t.Errorf("before they are due: %+v", got)
	}
	later := now.Add(2 * time.Minute)
	locked := func(at saga.Key) bool { return at == saga.KeyOf("order", "a") }
	if got := ss.Claim(want, locked, later); len(got.Sagas) != 1 || got.Sagas[0].Key != "b" {
		t.Errorf("claimed are %+v, want b alone", got.Sagas)
	}
}

func TestAMoveIsMadeAtItsVersion(t *testing.T) {
	ss, now := saga.New(), time.Now()
	start(ss, "a", now)
	v := ss.View()
	m := &store.SagaMove{SagaRef: store.SagaRef{Name: "order", Key: "a", Version: 1},
		Standing: store.Standing{Status: "running"}}
	if err := v.Move(m, now); err != nil {
		t.Fatal(err)
	}
	if err := v.Move(m, now); !errors.Is(err, store.ErrLost) {
		t.Errorf("made twice: %v", err)
	}
	other := ss.View()
	if !other.Stands(store.SagaRef{Name: "order", Key: "a", Version: 1}) {
		t.Error("others see what is not committed")
	}
}
