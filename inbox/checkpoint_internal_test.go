package inbox

import (
	"testing"
	"time"

	"github.com/skald-go/skald/broker/membroker"
	"github.com/skald-go/skald/inbox/internal/partition"
	"github.com/skald-go/skald/store"
	"github.com/skald-go/skald/store/memstore"
)

// Whoever has nothing to do looks by itself whether it was set back, and does not wait until something else
// wakes it.
func TestIdleInboxLooksByItself(t *testing.T) {
	in := New(memstore.New(nil), membroker.New(nil), "stock", nil)
	now := time.Now()
	in.checkpointer.patient, in.checkpointer.looked, in.knownTypes.told = true, now, now
	if _, wait, some := in.storeCall(now.Add(time.Second)); some || wait != lookPartitions-time.Second {
		t.Errorf("a second later there is an store call: %v; the next look is in %v", some, wait)
	}
	if e, _, some := in.storeCall(now.Add(lookPartitions)); !some || !e.look {
		t.Errorf("when it is time there is an store call: %v, to look: %v", some, e.look)
	}
}

// While one partition is looked at, another that might be occupied is not taken for occupied: no store was
// asked. And what is asked of the store is taken out of the partitions before, which go on meanwhile.
func TestLookOccupiesNothing(t *testing.T) {
	known, gained := partition.New("known"), partition.New("gained")
	known.Origin, known.Was, known.At = "one", &store.Checkpoint{}, 5
	in := &Inbox[any]{partitions: map[string]*partition.Partition{"known": known, "gained": gained}}
	e, _, some := in.storeCall(time.Now())
	if !some || !e.look || len(e.occupy) != 0 {
		t.Fatalf("the store call is %+v", e)
	}
	gained.Was = &store.Checkpoint{}
	e, _, some = in.storeCall(time.Now())
	known.At = 9
	if !some || e.look || len(e.occupy) != 2 || len(e.checkpoints) != 2 || e.checkpoints[1] != (store.Checkpoint{Partition: "known", Origin: "one", Position: 5}) {
		t.Fatalf("the store call is %+v", e)
	}
}

// A rival that occupied a partition and left it in peace between two looks is a rival; a database that went
// back, and a partition that was rewound, are not.
func TestRivalThatCameAndLeft(t *testing.T) {
	at := time.Now()
	for name, c := range map[string]struct {
		checkpoint store.Checkpoint
		moved      bool
	}{
		"a rival came and left":             {checkpoint: store.Checkpoint{Position: 9, Stamp: "rival-3", At: at.Add(time.Second)}},
		"the database went back":            {checkpoint: store.Checkpoint{Position: 5, Stamp: "older-1", At: at.Add(-time.Minute)}, moved: true},
		"it went back to before, and idle":  {checkpoint: store.Checkpoint{Position: 7, Stamp: "older-1", At: at.Add(-time.Minute)}, moved: true},
		"it was rewound":                    {checkpoint: store.Checkpoint{Position: 2, Stamp: "rewind-1", At: at.Add(time.Second)}, moved: true},
		"our own note of before is all":     {checkpoint: store.Checkpoint{Position: 7, Stamp: "ours-1", At: at.Add(time.Second)}, moved: true},
		"it speaks of another topic by now": {checkpoint: store.Checkpoint{Origin: "anew", Position: 9, Stamp: "rival-3", At: at.Add(time.Second)}, moved: true},
	} {
		t.Run(name, func(t *testing.T) {
			l := partition.New("orders/0")
			l.Origin, l.Open, l.At, l.Was = "one", true, 7, &store.Checkpoint{At: at.Add(-time.Second)}
			l.Checkpoint = &store.Checkpoint{Partition: l.Name, Origin: "one", Position: 7, Session: "ours", Stamp: "ours-4", At: at}
			in := &Inbox[any]{partitions: map[string]*partition.Partition{l.Name: l}}
			in.checkpointer.session = "ours"
			s := c.checkpoint
			s.Partition = l.Name
			if s.Origin == "" {
				s.Origin = "one"
			}
			in.compare(storeCall{was: store.Attended{Checkpoints: []store.Checkpoint{s}}}, at)
			if in.checkpointer.moved != c.moved || l.Open != c.moved || l.Foreign {
				t.Errorf("moved %v, open %v, foreign %v", in.checkpointer.moved, l.Open, l.Foreign)
			}
		})
	}
}
