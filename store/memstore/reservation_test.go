package memstore

import (
	"errors"
	"testing"
	"time"

	"github.com/skald-go/skald/store"
)

func TestAKeyIsOnesUntilItsLeaseEnds(t *testing.T) {
	rs, now := newReservation(), time.Now()
	r := store.Reservation{Consumer: "c", Identity: store.Identity{Source: "/s", ID: "1"}, Token: "mine",
		Lease: time.Minute}
	rival := r
	rival.Token = "his"
	if rs.Take(&r, now).Rival || !rs.Take(&rival, now).Rival {
		t.Error("want it to be with the first alone")
	}
	if later := now.Add(time.Hour); rs.Take(&rival, later).Rival {
		t.Error("an hour later the second does not get it")
	}
	if err := rs.CheckOwner(&r); !errors.Is(err, store.ErrLost) {
		t.Errorf("the first still has it: %v", err)
	}
}
