package inbox

import (
	"testing"
	"time"

	"github.com/skald-go/skald/broker/membroker"
	"github.com/skald-go/skald/store"
	"github.com/skald-go/skald/store/memstore"
)

// Whoever has nothing to do looks by itself whether it was set back, and does not wait until something else wakes it.
func TestIdleInboxLooksByItself(t *testing.T) {
	in := New(memstore.New(nil), membroker.New(nil), "stock", nil)
	now := time.Now()
	in.book.patient, in.book.looked, in.view.told = true, now, now
	if _, wait, some := in.errand(now.Add(time.Second)); some || wait != lookLanes-time.Second {
		t.Errorf("a second later there is an errand: %v; the next look is in %v", some, wait)
	}
	if e, _, some := in.errand(now.Add(lookLanes)); !some || !e.look {
		t.Errorf("when it is time there is an errand: %v, to look: %v", some, e.look)
	}
}

// While one lane is looked at, another that might be occupied is not taken for occupied: no store was asked. And what is asked of the
// store is taken out of the lanes before, which go on meanwhile.
func TestLookOccupiesNothing(t *testing.T) {
	known, gained := newLane("known"), newLane("gained")
	known.origin, known.was, known.at = "one", &store.Spot{}, 5
	in := &Inbox[any]{lanes: map[string]*lane{"known": known, "gained": gained}}
	e, _, some := in.errand(time.Now())
	if !some || !e.look || len(e.occupy) != 0 {
		t.Fatalf("the errand is %+v", e)
	}
	gained.was = &store.Spot{}
	e, _, some = in.errand(time.Now())
	known.at = 9
	if !some || e.look || len(e.occupy) != 2 || len(e.spots) != 2 || e.spots[1] != (store.Spot{Lane: "known", Origin: "one", Position: 5}) {
		t.Fatalf("the errand is %+v", e)
	}
}
