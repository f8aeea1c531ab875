package memstore

import (
	"errors"
	"testing"
	"time"

	"github.com/skald-go/skald/store"
)

func at(stamp string, position int64) *store.SyncRequest {
	return &store.SyncRequest{Consumer: "c", Session: "1", Stamp: stamp + "+",
		Checkpoints: []store.Checkpoint{{Partition: "p", Stamp: stamp, Position: position, InFlightEnd: 9}}}
}

// TestTakenPartitions checks that a session which takes a partition gets the InFlightEnd of the previous
// session, and that the previous session cannot change the checkpoint any more.
func TestTakenPartitions(t *testing.T) {
	cs, now := newConsumer(), time.Now()
	if left := cs.Take(at("", 3), now); len(left) != 0 {
		t.Errorf("the first takes it from %v", left)
	}
	next := at("", 3)
	next.Session, next.Stamp = "2", "mine"
	if left := cs.Take(next, now); len(left) != 1 || left[0] != "1" {
		t.Errorf("the second takes it from %v", left)
	}
	cs.Advance(at("+", 5), now)
	got := cs.Checkpoints("c")
	if len(got) != 1 || got[0].Position != 3 || got[0].CrashSuspect != 9 || got[0].Session != "2" {
		t.Errorf("it is %+v", got)
	}
}

func TestARewindGoesBack(t *testing.T) {
	cs, now := newConsumer(), time.Now()
	cs.Take(at("", 3), now)
	r := &store.Rewind{Consumer: "c", Partition: "p", Position: 5}
	if err := cs.Rewindable(r); !errors.Is(err, store.ErrLost) {
		t.Errorf("forwards: %v", err)
	}
	r.Position = 1
	if err := cs.Rewindable(r); err != nil {
		t.Error(err)
	}
}

func TestTypesThatNobodyHandlesGo(t *testing.T) {
	cs, now := newConsumer(), time.Now()
	kind := store.Kind{Topic: "t", Type: "x"}
	cs.Beat("c", &store.Heartbeat{Own: []store.Kind{kind}}, now)
	if got := cs.Beat("c", &store.Heartbeat{}, now); len(got) != 1 || got[0] != kind {
		t.Errorf("noted are %v", got)
	}
	if got := cs.Beat("c", &store.Heartbeat{Forget: time.Hour}, now.Add(2*time.Hour)); len(got) != 0 {
		t.Errorf("two hours later noted are %v", got)
	}
}
