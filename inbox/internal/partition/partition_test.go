package partition

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/broker"
	"github.com/skald-go/skald/store"
)

// add adds a delivery at the next position. Without a key if key is "".
func add(l *Partition, key string) *Entry {
	d := broker.Delivery{Message: skald.Message{Topic: "orders"}, Partition: l.Name,
		Position: int64(len(l.Entries))}
	if key != "" {
		d.Key = []byte(key)
	}
	return l.Add(d)
}

// Messages of one key are in one chain; each message without a key has its own chain. Pass removes finished
// messages, and an empty chain is dropped.
func TestChainPassesFinishedEntries(t *testing.T) {
	l := New("orders/0")
	first, other, second, alone, lone := add(l, "a"), add(l, "b"), add(l, "a"), add(l, ""), add(l, "")
	if first.Chain != second.Chain || first.Chain == other.Chain || alone.Chain == lone.Chain {
		t.Fatal("the chains are not by key")
	}
	first.Done = true
	if c := first.Chain; !c.Pass() || c.Queue[0] != second {
		t.Errorf("the head of the chain is %+v", c.Queue)
	}
	if second.Done = true; second.Chain.Pass() {
		t.Error("the chain is not empty")
	}
	if again := add(l, "a"); again.Chain == first.Chain {
		t.Error("the empty chain is used again")
	}
}

// Prefix returns the finished entries at the head of the partition, and no others.
func TestPrefixEndsBeforeUnfinishedEntry(t *testing.T) {
	l := New("orders/0")
	es := []*Entry{add(l, "a"), add(l, "b"), add(l, "c"), add(l, "d")}
	es[0].Done, es[1].Done, es[3].Done = true, true, true
	all := l.Bytes
	last, ok := l.Prefix()
	if !ok || last.Position != 1 || l.At != 2 || len(l.Entries) != 2 ||
		l.Bytes != all-es[0].Weight()-es[1].Weight() {
		t.Errorf("the last is %d (%v), the partition is at %d with %d entries of %d bytes",
			last.Position, ok, l.At, len(l.Entries), l.Bytes)
	}
	if _, ok = l.Prefix(); ok {
		t.Error("an unfinished entry was acknowledged")
	}
	es[2].Done = true
	if last, ok = l.Prefix(); !ok || last.Position != 3 || l.Bytes != 0 {
		t.Errorf("then the last is %d (%v), and %d bytes are left", last.Position, ok, l.Bytes)
	}
}

// Messages start in the order in which they came, not in the order in which they became ready. Waiting ones
// start once they are due, unless their partition is lost.
func TestScheduleStartsInOrderOfArrival(t *testing.T) {
	var s Schedule
	l, lost := New("orders/0"), New("orders/1")
	var es []*Entry
	for n := range 4 {
		e := add(l, fmt.Sprint(n))
		s.Number(e)
		es = append(es, e)
	}
	s.Start([]*Entry{es[3], es[1], es[1]})
	s.Start([]*Entry{es[0]})
	now := time.Now()
	es[2].Chain.Busy = true
	s.Hold(es[2].Chain, now.Add(time.Second))
	gone := add(lost, "gone")
	s.Hold(gone.Chain, now.Add(time.Second))
	lost.Lost = true
	if wait, some := s.Wake(now); !some || wait != time.Second || s.Len() != 3 {
		t.Errorf("%d may start; the next in %v (%v)", s.Len(), wait, some)
	}
	if _, some := s.Wake(now.Add(time.Second)); some {
		t.Error("a chain still waits")
	}
	var came []int64
	for c := s.First(); c != nil; c = s.First() {
		came = append(came, c.Queue[0].Nth)
		s.Drop()
	}
	if !slices.Equal(came, []int64{1, 2, 3, 4}) {
		t.Errorf("they start in the order %v", came)
	}
}

// A partition pauses at its bound, and resumes at half of it. If all partitions together are at their bound,
// those with more than their share pause.
func TestBoundPausesAndResumes(t *testing.T) {
	l, small := New("orders/0"), New("orders/1")
	all := map[string]*Partition{"orders/0": l, "orders/1": small}
	b := Bound{Unacknowledged: 4, Bytes: 1 << 20}
	for range 4 {
		add(l, "")
	}
	check := func(why string, pause, resume int) {
		t.Helper()
		if p, r := b.Apply(all); len(p) != pause || len(r) != resume {
			t.Errorf("%s: pause %v, resume %v", why, p, r)
		}
	}
	check("at the bound", 1, 0)
	check("again", 0, 0)
	l.Entries = l.Entries[:3]
	check("below it", 0, 0)
	l.Entries = l.Entries[:2]
	check("at half of it", 0, 1)
	l.Entries[0].Crowd(true)
	check("one cannot be parked", 1, 0)
	l.Entries[0].Crowd(false)
	check("it was", 0, 1)
	b.Bytes = l.Bytes + small.Bytes
	check("more than its share", 1, 0)
}

// The first unfinished message of each key is a suspect, below the position up to which messages may have
// begun. If the finished messages are not known, each message of the key is one.
func TestSuspectIsTheFirstOfItsKey(t *testing.T) {
	for _, known := range []bool{true, false} {
		l := New("orders/0")
		l.Suspects, l.Tried = 4, map[string]bool{}
		es := []*Entry{add(l, "a"), add(l, "a"), add(l, "b"), add(l, "c"), add(l, "d")}
		es[2].Unknown = errors.New("no id")
		es[3].Done = true
		Suspect(es, known)
		var got []bool
		for _, e := range es {
			got = append(got, e.Suspect)
		}
		if want := []bool{true, !known, false, false, false}; !slices.Equal(got, want) {
			t.Errorf("known %v: suspected are %v, want %v", known, got, want)
		}
		if l.Tried != nil {
			t.Error("the search continues after the last suspect")
		}
	}
}

// A message begins only if the stored checkpoint covers it, in a partition with an origin.
func TestCoversPositionsOfTheCheckpoint(t *testing.T) {
	l := New("orders/0")
	if !l.Covers(7) {
		t.Error("a partition without an origin needs no checkpoint")
	}
	l.Origin = "one"
	if l.Covers(0) {
		t.Error("a position is covered without a checkpoint")
	}
	l.Checkpoint = &store.Checkpoint{InFlightEnd: 5}
	if !l.Covers(4) || l.Covers(5) {
		t.Error("only positions below InFlightEnd are covered")
	}
}
