package saga_test

import (
	"context"
	"testing"

	"github.com/skald-go/skald/internal/testlog"
	"github.com/skald-go/skald/saga"
	"github.com/skald-go/skald/store"
	"github.com/skald-go/skald/store/memstore"
)

// brokenStore is a store that panics.
type brokenStore struct{ *memstore.Store }

func (brokenStore) Claim(context.Context, store.ClaimRequest) (store.Claimed, error) {
	panic("a driver is broken")
}

// TestPanicInTheEngineIsLoggedAndEndsRun: a panic in the engine's own loop is logged before it ends Run.
func TestPanicInTheEngineIsLoggedAndEndsRun(t *testing.T) {
	var log testlog.Log
	d := saga.New("order", &saga.Options[trip]{Key: tripKey}, ledger("a"))
	e, err := saga.NewEngine(brokenStore{memstore.New(nil)}, &saga.EngineOptions{Logger: log.Logger()}, d)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if v := recover(); v != "a driver is broken" {
			t.Errorf("Run ended with %v", v)
		}
		if log.Count("level=ERROR", "saga engine", "a driver is broken", "frame=0",
			"brokenStore.Claim") != 1 {
			t.Error(log.String())
		}
	}()
	t.Error(e.Run(t.Context()))
}
