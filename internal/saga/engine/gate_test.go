package engine

import (
	"testing"
	"time"
)

// bench is a gate with a clock that the test moves.
func bench() (g *crashGate, pass func(time.Duration)) {
	now := time.Unix(1_000, 0)
	return newCrashGate(func() time.Time { return now }), func(d time.Duration) { now = now.Add(d) }
}

func leased(g *crashGate, d time.Duration) *gateState {
	s := &gateState{}
	s.LeaseEnd.Store(g.now().Add(d).UnixNano())
	return s
}

func TestNothingBeginsWhileOneRunsAlone(t *testing.T) {
	g, _ := bench()
	solo, other := leased(g, time.Minute), leased(g, time.Minute)
	if after := g.Reserve(solo, false); after != 0 || !solo.Alone {
		t.Fatalf("the first one waits for %v", after)
	}
	if !g.Taken() || g.Enter(other, time.Second) || g.Reserve(other, false) != asideWait {
		t.Error("another saga begins at the same time")
	}
	if !g.Enter(solo, time.Second) {
		t.Error("the one that runs alone cannot begin")
	}
	g.Leave(solo)
	if !g.Free(solo) || g.Free(solo) || g.Taken() || !g.Enter(other, time.Second) {
		t.Error("the others do not go on after it")
	}
}

func TestOthersWaitForAHangingSagaUntilItsLeaseAndTurnEnd(t *testing.T) {
	g, pass := bench()
	solo, other := leased(g, time.Second), leased(g, time.Minute)
	g.Reserve(solo, false)
	g.Expect(solo, 2*time.Second)
	if pass(1500 * time.Millisecond); g.Enter(other, time.Second) {
		t.Error("another saga begins before its function should be over")
	}
	if pass(time.Second); !g.Enter(other, time.Second) {
		t.Error("another saga waits for one that hangs")
	}
}

func TestOthersRunForAsLongAsASagaRanAlone(t *testing.T) {
	g, pass := bench()
	first, second := leased(g, time.Hour), leased(g, time.Hour)
	g.Reserve(first, false)
	pass(3 * time.Second)
	g.Free(first)
	if after := g.Reserve(second, false); after != 3*time.Second {
		t.Errorf("the next one waits for %v, want 3s", after)
	}
	if after := g.Reserve(second, true); after != 0 {
		t.Errorf("with noRest it waits for %v", after)
	}
}

func TestQuietReturnsAtOnceIfTheEngineStops(t *testing.T) {
	g, pass := bench()
	solo, other := leased(g, time.Hour), leased(g, time.Hour)
	stop := make(chan struct{})
	close(stop)
	g.Expect(other, time.Hour)
	if g.Quiet(t.Context(), solo, stop) {
		t.Error("it runs next to another one")
	}
	if after := g.Reserve(solo, false); after != restFor {
		t.Errorf("the others go on for %v, want %v", after, restFor)
	}
	if pass(aloneTimeout + time.Second); !g.Quiet(t.Context(), solo, stop) {
		t.Error("it still waits after more than a minute")
	}
	if pass(time.Hour); !g.Quiet(t.Context(), solo, nil) {
		t.Error("it waits for one whose function should be over")
	}
}
