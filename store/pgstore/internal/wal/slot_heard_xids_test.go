package wal

import (
	"math"
	"testing"
	"time"
)

func seen(t *testing.T, text string) snapshot {
	t.Helper()
	s, err := parseSnapshot(text)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// TestNoted checks that a transaction of the WAL is removed when a snapshot includes it, not while it runs,
// and not if the snapshot ends before its number.
func TestNoted(t *testing.T) {
	n := noted{xids: map[uint32]struct{}{}}
	n.add(7, time.Now())
	n.add(9, time.Now())
	n.settle(seen(t, "7:9:7"), time.Now())
	if len(n.xids) != 2 {
		t.Errorf("7 runs and 9 is not reached: %v", n.xids)
	}
	n.settle(seen(t, "7:10:7"), time.Now())
	if _, still := n.xids[7]; !still || len(n.xids) != 1 {
		t.Errorf("9 is seen: %v", n.xids)
	}
	if n.settle(seen(t, "10:10:"), time.Now()); !n.none() {
		t.Errorf("all are seen: %v", n.xids)
	}
}

// TestNotedAfterItsLook checks that a transaction needs no other look if the last one saw it. An old look
// does not count, because numbers wrap around.
func TestNotedAfterItsLook(t *testing.T) {
	n := noted{xids: map[uint32]struct{}{}}
	now := time.Now()
	n.settle(seen(t, "8:10:8"), now)
	if n.add(9, now); !n.none() {
		t.Errorf("9 is seen: %v", n.xids)
	}
	if n.add(8, now); n.none() {
		t.Error("8 ran")
	}
	n.settle(seen(t, "11:11:"), now)
	if n.add(10, now.Add(seenFor)); n.none() {
		t.Error("the look is too long ago")
	}
}

// TestNotedAtTheBeginning checks that at the start any running transaction may have committed.
func TestNotedAtTheBeginning(t *testing.T) {
	var n noted
	n.begin(20)
	n.settle(seen(t, "5:20:5,8"), time.Now())
	if n.none() || !n.all {
		t.Error("a snapshot before the number was counted as complete")
	}
	n.add(30, time.Now())
	n.settle(seen(t, "5:31:5,8"), time.Now())
	if n.all || len(n.xids) != 2 {
		t.Errorf("5 and 8 ran: %+v", n)
	}
	if n.settle(seen(t, "31:31:"), time.Now()); !n.none() {
		t.Errorf("all have ended: %+v", n)
	}
}

// TestNotedAroundTheEnd checks numbers that wrap around at 2³²; of longer ones the lower half counts.
func TestNotedAroundTheEnd(t *testing.T) {
	n := noted{xids: map[uint32]struct{}{}}
	n.add(math.MaxUint32, time.Now())
	n.add(2, time.Now())
	n.settle(seen(t, "4294967295:4294967296:"), time.Now())
	if _, still := n.xids[2]; !still || len(n.xids) != 1 {
		t.Errorf("the one before the end is seen: %v", n.xids)
	}
	if n.settle(seen(t, "4294967299:4294967299:"), time.Now()); !n.none() {
		t.Errorf("the one after the end is seen: %v", n.xids)
	}
}

// TestNotedIsBounded checks that a limited number is stored, and that none is removed unseen.
func TestNotedIsBounded(t *testing.T) {
	n := noted{xids: map[uint32]struct{}{}}
	for x := range uint32(3 * notedMost) {
		n.add(x+1, time.Now())
	}
	if len(n.xids) > notedMost {
		t.Errorf("%d are remembered", len(n.xids))
	}
	if n.settle(seen(t, "5:20000:5"), time.Now()); n.none() {
		t.Error("later ones are forgotten")
	}
	n.settle(seen(t, "5:30001:5"), time.Now())
	if _, still := n.xids[5]; !still || len(n.xids) != 1 {
		t.Errorf("5 runs: %+v", n)
	}
}

func TestParseSnapshotRefuses(t *testing.T) {
	for _, text := range []string{"", "1:2", "1:x:", "1:2:3,y"} {
		if _, err := parseSnapshot(text); err == nil {
			t.Errorf("%q is taken", text)
		}
	}
}

func TestReadWALRefuses(t *testing.T) {
	head := func(b ...byte) []byte { return append(append([]byte("w"), make([]byte, 24)...), b...) }
	for _, b := range [][]byte{nil, {}, []byte("k"), []byte("x12345678901234567890"), head(), head('B', 1),
		head('C')} {
		if m, err := readWAL(b); err == nil {
			t.Errorf("%q is taken: %+v", b, m)
		}
	}
	if m, err := readWAL(head('I', 0, 0)); err != nil || m.Kind != walOther {
		t.Errorf("a row: %+v, %v", m, err)
	}
}
