package relay

import (
	"errors"
	"testing"

	"github.com/skald-go/skald/broker"
	"github.com/skald-go/skald/broker/membroker"
	"github.com/skald-go/skald/store"
	"github.com/skald-go/skald/store/memstore"
)

// The lane was lost and taken again while a row of its that was set aside was on its way: its owner meanwhile may
// have published the row, so a refusal that comes late must not set it aside once more.
func TestLateRefusalOfARowSetAsideIsNotSavedUnderTheNextOwnership(t *testing.T) {
	r := New(memstore.New(nil), membroker.New(nil), nil)
	before, now := newLane(store.Lane{ID: 3, Epoch: 1}), newLane(store.Lane{ID: 3, Epoch: 3})
	before.dead = true
	r.byBucket[200] = now
	c := &call{aside: []store.Aside{{Row: store.Row{Seq: 7, Bucket: 200}, Attempts: 1}}, lanes: []*lane{before}, rows: 1}
	r.inFlight = 1
	r.answered(c, &broker.PublishError{Refused: map[int]error{0: errors.New("too large")}})
	if now.unsaved() || before.unsaved() {
		t.Errorf("to be saved: %v, %v", now.aside, before.aside)
	}
}
