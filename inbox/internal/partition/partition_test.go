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

// add is a delivery at the next position; key "" is none.
func add(l *Partition, key string) *Entry {
	d := broker.Delivery{Message: skald.Message{Topic: "orders"}, Partition: l.Name,
		Position: int64(len(l.Entries))}
	if key != "" {
		d.Key = []byte(key)
	}
	return l.Add(d)
}

// Messages of one key wait for each other, those without one for nobody. Finished ones are passed wherever
// they lie, and a chain of which nothing is left is forgotten.
func TestChainPassesWhatIsDone(t *testing.T) {
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
		t.Error("there is something left of the chain")
	}
	if again := add(l, "a"); again.Chain == first.Chain {
		t.Error("a chain that was forgotten goes on")
	}
}

// Acknowledged is what is finished from the beginning on, and no more.
func TestPrefixEndsBeforeWhatIsNotDone(t *testing.T) {
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
		t.Error("what is in hand was acknowledged")
	}
	es[2].Done = true
	if last, ok = l.Prefix(); !ok || last.Position != 3 || l.Bytes != 0 {
		t.Errorf("then the last is %d (%v), and %d bytes are left", last.Position, ok, l.Bytes)
	}
}

// What came first starts first, whatever became ready first; what waits starts once it is due, unless its
// partition is lost.
func TestScheduleStartsWhatCameFirst(t *testing.T) {
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
		t.Error("something waits still")
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

// A partition pauses at its bound, and goes on when half of that is worked off; where all together are at
// theirs, those with more than their share pause.
func TestBoundPausesAndResumes(t *testing.T) {
	l, small := New("orders/0"), New("orders/1")
	all := map[string]*Partition{"orders/0": l, "orders/1": small}
	b := Bound{Held: 4, Bytes: 1 << 20}
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

// Of each key the first that is not finished is suspected, below the position up to which messages may have
// been in hand: each of them, where it is not known what was finished.
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
			t.Error("it goes on behind the last of them")
		}
	}
}

// Nothing is begun that the database does not know of, where positions mean something.
func TestCoversWhatIsNoted(t *testing.T) {
	l := New("orders/0")
	if !l.Covers(7) {
		t.Error("where positions mean nothing, nothing need be noted")
	}
	l.Origin = "one"
	if l.Covers(0) {
		t.Error("nothing is noted yet")
	}
	l.Checkpoint = &store.Checkpoint{InFlightEnd: 5}
	if !l.Covers(4) || l.Covers(5) {
		t.Error("what lies below the end of what is noted may be begun, and no more")
	}
}
