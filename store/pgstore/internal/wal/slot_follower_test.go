package wal

import "testing"

// TestSighting checks when two looks are at the same slot.
func TestSighting(t *testing.T) {
	t.Parallel()
	was := &sighting{slot: "a", place: 100, where: "w", session: "s"}
	for is, want := range map[*sighting]bool{
		{slot: "a", where: "w", session: "s", restart: 200}: true,
		{slot: "a", where: "w", session: "z", restart: 99}:  true,
		{slot: "a", where: "w", session: "z", restart: 100}: false,
		{slot: "a", where: "x", session: "s", restart: 99}:  false,
		{slot: "b", where: "w", session: "s", restart: 99}:  false,
	} {
		if got := is.sameAs(was); got != want {
			t.Errorf("%+v: %t, want %t", is, got, want)
		}
	}
	nobody := &sighting{slot: "a", place: 100, where: "w"}
	if (&sighting{slot: "a", where: "w", restart: 200}).sameAs(nobody) || nobody.sameAs(nil) {
		t.Error("a sighting without a session equals another sighting")
	}
	if got := sightingOf("RANDOM." + was.String()); got == nil || got.String() != was.String() {
		t.Errorf("%+v is read as %+v", was, got)
	}
	if sightingOf("RANDOM") != nil {
		t.Error("a snapshot of a relay has a sighting")
	}
}

// TestThinned checks that few snapshots are kept while the slot's reader confirms nothing, and that the
// newest is one of them.
func TestThinned(t *testing.T) {
	t.Parallel()
	var waits []marked
	for n := range int64(10 * marksMost) {
		waits = append(thinned(waits), marked{place: n})
		if len(waits) > marksMost || n >= marksMost && len(waits) < marksMost/2 {
			t.Fatalf("of %d snapshots %d wait", n+1, len(waits))
		}
		for i := range waits[1:] {
			if waits[i].place >= waits[i+1].place {
				t.Fatalf("snapshots out of order: %v", waits)
			}
		}
		if last := waits[len(waits)-1].place; last != n || n > 0 && waits[len(waits)-2].place != n-1 {
			t.Fatalf("the newest of %d are not kept: %v", n+1, waits)
		}
	}
}
