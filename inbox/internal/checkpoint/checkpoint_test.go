package checkpoint

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"testing"
	"time"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/broker"
	"github.com/skald-go/skald/inbox/internal/partition"
	"github.com/skald-go/skald/store"
)

// table is an in-memory store. It returns the checkpoints of each call, in addition to those in told.
type table struct {
	asked []store.SyncRequest
	told  store.SyncResult // set by tests
	err   error
}

func (b *table) SyncConsumer(_ context.Context, a store.SyncRequest) (store.SyncResult, error) {
	b.asked = append(b.asked, a)
	told := b.told
	for _, s := range a.Checkpoints {
		s.Stamp, s.Session = a.Stamp, a.Session
		told.Checkpoints = append(told.Checkpoints, s)
	}
	return told, b.err
}

func newCheckpointer(b *table) *Checkpointer {
	own := store.Kind{Topic: "orders", Type: "placed"}
	return New(Config{Group: "stock", DB: b, Kinds: func() []store.Kind { return []store.Kind{own} },
		Handles: func(k store.Kind) bool { return k == own }, Batch: 1, RetryFirst: time.Second,
		Now: time.Now, Logger: slog.New(slog.DiscardHandler)}, &partition.Schedule{})
}

// An idle inbox looks for a rewind by itself, without another event.
func TestIdleInboxLooksByItself(t *testing.T) {
	c := newCheckpointer(&table{})
	now := time.Now()
	c.patient, c.looked, c.types.storedAt = true, now, now
	if _, wait, some := c.Next(now.Add(time.Second)); some || wait != LookPartitions-time.Second {
		t.Errorf("a second later there is a call: %v; the next look is in %v", some, wait)
	}
	if e, _, some := c.Next(now.Add(LookPartitions)); !some || !e.look {
		t.Errorf("when the look is due there is a call: %v, to look: %v", some, e.look)
	}
}

// A call that looks at one partition does not occupy another one. A call copies the positions of its
// partitions, which advance meanwhile.
func TestLookOccupiesNothing(t *testing.T) {
	known, gained := partition.New("known"), partition.New("gained")
	known.Origin, known.Was, known.At = "one", &store.Checkpoint{}, 5
	c := newCheckpointer(&table{})
	c.Partitions = map[string]*partition.Partition{"known": known, "gained": gained}
	e, _, some := c.Next(time.Now())
	if !some || !e.look || len(e.occupy) != 0 {
		t.Fatalf("the call is %+v", e)
	}
	gained.Was = &store.Checkpoint{}
	e, _, some = c.Next(time.Now())
	known.At = 9
	if !some || e.look || len(e.occupy) != 2 || len(e.checkpoints) != 2 ||
		e.checkpoints[1] != (store.Checkpoint{Partition: "known", Origin: "one", Position: 5}) {
		t.Fatalf("the call is %+v", e)
	}
}

// An inbox distinguishes three changes between two looks: another process occupied the partition and left it
// cleanly, the database was restored, or the partition was rewound.
func TestRivalThatCameAndLeft(t *testing.T) {
	at := time.Now()
	for name, c := range map[string]struct {
		checkpoint store.Checkpoint
		moved      bool
	}{
		"a rival came and left": {checkpoint: store.Checkpoint{Position: 9, Stamp: "rival-3",
			At: at.Add(time.Second)}},
		"restored to an earlier position": {checkpoint: store.Checkpoint{Position: 5, Stamp: "older-1",
			At: at.Add(-time.Minute)}, moved: true},
		"restored to the same position": {checkpoint: store.Checkpoint{Position: 7, Stamp: "older-1",
			At: at.Add(-time.Minute)}, moved: true},
		"rewound": {checkpoint: store.Checkpoint{Position: 2, Stamp: "rewind-1",
			At: at.Add(time.Second)}, moved: true},
		"only an earlier stamp of its own": {checkpoint: store.Checkpoint{Position: 7, Stamp: "ours-1",
			At: at.Add(time.Second)}, moved: true},
		"the topic was recreated": {checkpoint: store.Checkpoint{Origin: "recreated", Position: 9,
			Stamp: "rival-3", At: at.Add(time.Second)}, moved: true},
	} {
		t.Run(name, func(t *testing.T) {
			l := partition.New("orders/0")
			l.Origin, l.Open, l.At, l.Was = "one", true, 7, &store.Checkpoint{At: at.Add(-time.Second)}
			l.Checkpoint = &store.Checkpoint{Partition: l.Name, Origin: "one", Position: 7, Session: "ours",
				Stamp: "ours-4", At: at}
			k := newCheckpointer(&table{})
			k.Partitions[l.Name] = l
			k.session = "ours"
			s := c.checkpoint
			s.Partition = l.Name
			if s.Origin == "" {
				s.Origin = "one"
			}
			k.compare(Call{answer: store.SyncResult{Checkpoints: []store.Checkpoint{s}}}, at)
			if k.moved != c.moved || l.Open != c.moved || l.Foreign {
				t.Errorf("moved %v, open %v, foreign %v", k.moved, l.Open, l.Foreign)
			}
		})
	}
}

// A gained partition is looked at and occupied, and its position is stored as it advances. Done reports that
// its last owner did not leave it cleanly.
func TestPartitionIsOccupiedAndAdvances(t *testing.T) {
	b := &table{}
	c := newCheckpointer(b)
	c.types.storedAt, c.types.since = time.Now(), time.Now()
	c.Gain(broker.Partition{Name: "orders/0", Origin: "one"})
	l := c.Partitions["orders/0"]
	next := func() Found {
		t.Helper()
		e, _, some := c.Next(time.Now().Add(time.Minute))
		if !some {
			t.Fatal("no call is due")
		}
		found, err := c.Done(t.Context(), c.Do(t.Context(), e))
		if err != nil {
			t.Fatal(err)
		}
		return found
	}
	b.told.Checkpoints = []store.Checkpoint{{Partition: "orders/0", Origin: "one", Session: "rival",
		Position: 5}}
	next()
	if b.told.Checkpoints = nil; l.Open || !l.Foreign {
		t.Fatalf("after the look it is open: %v, not left cleanly: %v", l.Open, l.Foreign)
	}
	l.At = 7
	if found := next(); !l.Open || !found.Unclean || l.Session != c.Session() {
		t.Fatalf("it is open: %v, found %+v", l.Open, found)
	}
	l.At, l.Front = 9, 11
	e, _, some := c.Next(time.Now().Add(time.Second))
	if !some || len(e.checkpoints) != 1 || e.checkpoints[0].Position != 9 ||
		e.checkpoints[0].InFlightEnd < 11 {
		t.Errorf("the checkpoints to store are %+v", e.checkpoints)
	}
	c.Lose("orders/0")
	c.Acked()
	if err := c.Leave(t.Context()); err != nil || !l.Lost {
		t.Fatal(err)
	}
	if last := b.asked[len(b.asked)-1].Checkpoints; len(last) != 1 || last[0].Session != "" ||
		last[0].Position != 9 {
		t.Errorf("it is left as %+v", last)
	}
	if beat := b.asked[len(b.asked)-1].Heartbeat; beat == nil || !beat.Progress || len(beat.Own) != 1 {
		t.Errorf("its progress is stored as %+v", beat)
	}
	asked := len(b.asked)
	if err := c.Leave(t.Context()); err != nil || b.asked[len(b.asked)-1].Heartbeat != nil {
		t.Errorf("again, after %d calls: %+v, %v", asked, b.asked[len(b.asked)-1], err)
	}
}

// A failed call is made again after a pause.
func TestFailedCallIsMadeLater(t *testing.T) {
	b := &table{err: errors.New("away")}
	c := newCheckpointer(b)
	c.Gain(broker.Partition{Name: "orders/0", Origin: "one"})
	e, _, _ := c.Next(time.Now())
	if _, err := c.Done(t.Context(), c.Do(t.Context(), e)); err != nil {
		t.Fatal(err)
	}
	if _, wait, some := c.Next(time.Now()); some || wait <= 0 {
		t.Errorf("the call is made again immediately: %v, in %v", some, wait)
	}
}

// A type that another build handles is left to that build; a type that no build handles is not. While this is
// unknown, a delivery waits, and the later ones of its partition, too.
func TestTypesOfOtherBuilds(t *testing.T) {
	theirs := store.Kind{Topic: "orders", Type: "cancelled"}
	b := &table{told: store.SyncResult{Kinds: []store.Kind{theirs}}}
	c := newCheckpointer(b)
	c.SetPatient(true)
	first, wait, err := c.Enroll(t.Context())
	if err != nil || first || wait <= 0 {
		t.Errorf("the first: %v, to wait: %v, %v", first, wait, err)
	}
	if !c.LeftToOthers(theirs) || c.LeftToOthers(store.Kind{Topic: "orders", Type: "lost"}) ||
		!slices.Equal(c.Others(), []store.Kind{theirs}) {
		t.Errorf("left to others are %v", c.Others())
	}
	c.types.at = time.Now().Add(-time.Minute)
	strange := broker.Delivery{Message: skald.Message{Topic: "orders", Type: "lost"}, Partition: "orders/0"}
	known := broker.Delivery{Message: skald.Message{Topic: "orders", Type: "placed"}, Partition: "orders/0"}
	other := broker.Delivery{Message: skald.Message{Topic: "orders", Type: "placed"}, Partition: "orders/1"}
	c.Fetched([]broker.Delivery{strange, known, other})
	if now := c.Admissible(); len(now) != 1 || now[0].Partition != "orders/1" || !c.Waits() {
		t.Errorf("admitted are %+v", now)
	}
	c.AskTypes()
	e, _, some := c.Next(time.Now())
	if !some || !e.Types() {
		t.Fatalf("the call is %+v (%v)", e, some)
	}
	if _, err := c.Done(t.Context(), c.Do(t.Context(), e)); err != nil {
		t.Fatal(err)
	}
	if now := c.Admissible(); len(now) != 2 || c.Waits() {
		t.Errorf("then admitted are %+v", now)
	}
}
