package inbox

import (
	"testing"
	"time"

	"github.com/skald-go/skald/broker/membroker"
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
