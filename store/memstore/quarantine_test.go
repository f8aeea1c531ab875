package memstore

import (
	"errors"
	"strconv"
	"testing"
	"time"

	"github.com/skald-go/skald/store"
)

func quarantined(id string, fingerprint int64) store.Quarantined {
	return store.Quarantined{Consumer: "c", Identity: store.Identity{Source: "/s", ID: id},
		Fingerprint: fingerprint, Why: store.Conflict}
}

// TestAdmittedThenTaken checks that a message is taken once, after an operator admitted it.
func TestAdmittedThenTaken(t *testing.T) {
	var qs quarantineTable
	now, one := time.Now(), quarantined("1", 7)
	qs.Add(one)
	qs.Add(one)
	if got := qs.List(&store.QuarantineQuery{}, 9); len(got) != 1 || got[0].Number != 1 {
		t.Fatalf("there are %+v, want it once", got)
	}
	if err := qs.Takeable(&one); !errors.Is(err, store.ErrLost) {
		t.Errorf("taken before it is admitted: %v", err)
	}
	a := &store.Admit{Number: 1, By: "me"}
	if err := qs.Admittable(a); err != nil {
		t.Fatal(err)
	}
	qs.Admit(a, now)
	if err := qs.Admittable(a); !errors.Is(err, store.ErrLost) {
		t.Errorf("admitted twice: %v", err)
	}
	if err := qs.Takeable(&one); err != nil {
		t.Fatal(err)
	}
	qs.Take(&one, now)
	if err := qs.Takeable(&one); !errors.Is(err, store.ErrLost) {
		t.Errorf("taken twice: %v", err)
	}
}

func TestThereIsRoomForSoManyOfOne(t *testing.T) {
	var qs quarantineTable
	for i := range store.QuarantineOfOne + 3 {
		qs.Add(quarantined("1", int64(i)))
	}
	qs.Add(quarantined(strconv.Itoa(2), 0))
	if got := qs.List(&store.QuarantineQuery{}, 1000); len(got) != store.QuarantineOfOne+1 {
		t.Errorf("there are %d", len(got))
	}
}
