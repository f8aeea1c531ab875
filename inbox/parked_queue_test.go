package inbox

import (
	"context"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/broker/membroker"
	"github.com/skald-go/skald/inbox/internal/decide"
	"github.com/skald-go/skald/inbox/internal/exec"
	"github.com/skald-go/skald/inbox/internal/partition"
	"github.com/skald-go/skald/store"
	"github.com/skald-go/skald/store/memstore"
)

func aQueue(now func() time.Time) *queue[*memstore.Tx] {
	in := New[*memstore.Tx](memstore.New(nil), membroker.New(nil), "stock",
		&Options{Workers: 4, Now: now, Logger: slog.New(slog.DiscardHandler)})
	in.Handle("orders", "placed", func(context.Context, *memstore.Tx, skald.Message) error { return nil })
	return in.parked
}

// The inbox counts parked messages at intervals, because other processes park and free messages, too. A slow
// count takes at most a hundredth of the time. If no partition waits for the result, it takes a quarter of
// that. After a very slow count the counting continues.
func TestSlowCountIsRare(t *testing.T) {
	from := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		took, want time.Duration
		full       int
	}{{0, countIdle, 0}, {time.Millisecond, lookIdle, 1}, {time.Second / 2, 200 * time.Second, 0},
		{time.Second, 100 * time.Second, 1},
		{time.Minute, 5 * time.Minute, 0}, {time.Minute, 5 * time.Minute, 1}} {
		took, want, now := c.took, c.want, from
		q := aQueue(func() time.Time { return now })
		q.in.checkpoints.Partitions = map[string]*partition.Partition{"feed/0": {Full: c.full}}
		counts := func(at time.Duration) bool {
			now = from.Add(at)
			_, count, _ := q.Wants(countEvery)
			return count
		}
		q.counted, q.took, q.some, q.changed, q.at = from, took, true, false, from.Add(time.Hour)
		for _, at := range []time.Duration{want - time.Millisecond, want} {
			if count := counts(at); count != (at == want) {
				t.Errorf("a count that takes %v, %v later: %v", took, at, count)
			}
		}
		q.Change() // a change of this process: the next count is sooner
		if !counts(countEvery) {
			t.Errorf("a count that takes %v is not made after a change", took)
		}
	}
}

// parkedAs returns a parked message. Waiting means that it was prefetched.
func parkedAs(id, key string, waiting bool) store.Parked {
	return store.Parked{Consumer: "stock", Identity: store.Identity{Source: "/shop", ID: id}, Claims: 1,
		Waiting: waiting,
		Message: skald.Message{ID: id, Source: "/shop", Topic: "orders", Type: "placed", Key: []byte(key)}}
}

// A prefetched message is in the chain of its claimed message, and is dropped with that claim.
func TestPrefetchedMessagesAreDroppedWithTheirClaim(t *testing.T) {
	q := aQueue(time.Now)
	s := &q.in.schedule
	q.Take(looked{Claimed: store.Claimed{Parked: []store.Parked{
		parkedAs("1", "a", false), parkedAs("2", "a", true), parkedAs("3", "b", false),
		parkedAs("4", "a", true)}},
		Asked: store.ClaimSize{Keys: 2, Prefetch: 2, PrefetchAll: 4}})
	c := s.First()
	if s.Len() != 2 || q.Claimed() != 4 || len(c.Queue) != 3 || !c.Queue[1].Prefetches ||
		c.Queue[2].ID != "4" {
		t.Fatalf("%d chains of %d messages, the first of %d", s.Len(), q.Claimed(), len(c.Queue))
	}
	s.Drop()
	first := c.Queue[0]
	q.Settle(first, time.Second)
	if !c.Pass() || !q.DropPrefetched(c) || q.Claimed() != 1 || len(c.Queue) != 0 {
		t.Errorf("%d are claimed, and %d left in the chain", q.Claimed(), len(c.Queue))
	}
	if rest := q.NotBegun(); len(rest) != 1 || rest[0].ID != "3" {
		t.Errorf("not begun are %d", len(rest))
	}
}

// A suspect is in no schedule: it runs alone.
func TestSuspectRunsAlone(t *testing.T) {
	q := aQueue(time.Now)
	s := &q.in.schedule
	killer := parkedAs("1", "a", false)
	killer.CrashCount = 1
	q.Take(looked{Claimed: store.Claimed{Parked: []store.Parked{killer}}})
	if wait, inHand := q.Suspects(); !wait || inHand || s.Len() != 0 || len(q.NotBegun()) != 1 {
		t.Fatalf("a suspect waits: %v, runs: %v", wait, inHand)
	}
	e := q.Suspect()
	if wait, inHand := q.Suspects(); wait || !inHand || !e.Alone || q.Suspect() != nil {
		t.Errorf("then one waits: %v, runs: %v", wait, inHand)
	}
	q.Settle(e, 0)
	if _, inHand := q.Suspects(); inHand {
		t.Error("it still runs")
	}
}

// The number of messages that share a transaction doubles after each success, and is 1 after a failure. It
// halves if messages waited in memory for long.
func TestSizeOfClaimedBatchesFollowsResults(t *testing.T) {
	now := time.Now()
	q := aQueue(func() time.Time { return now })
	job := func(what decide.Ending, ago time.Duration) []exec.Result {
		return []exec.Result{{Entry: &partition.Entry{Since: now.Add(-ago)}, What: what}}
	}
	for i, c := range []struct {
		rs   []exec.Result
		want int
	}{{job(decide.Handled, 0), 2}, {job(decide.Handled, 0), 4}, {job(decide.Duplicate, 0), 8},
		{job(decide.Handled, 0), 10},
		{job(decide.Handled, exec.MaxWaitClaimed), 5}, {job(decide.Failed, 0), 1}} {
		if q.Adapt(c.rs, 10); q.Size() != c.want {
			t.Errorf("after job %d: %d share, want %d", i+1, q.Size(), c.want)
		}
	}
}

// The inbox claims no message while it has half of the possible number, or above a limit.
func TestClaimsStopAtHalf(t *testing.T) {
	q := aQueue(time.Now)
	if n := q.Claimable(4, 1); n != 1 {
		t.Errorf("of a limit of 1 there are %d to claim", n)
	}
	for n := range 5 {
		if got := q.Claimable(4, 1000); (got > 0) != (n <= 4) {
			t.Errorf("with %d claimed, %d more may be", n, got)
		}
		q.Take(looked{Claimed: store.Claimed{
			Parked: []store.Parked{parkedAs(fmt.Sprint(n), fmt.Sprint(n), false)}}})
	}
	if got := q.Claimable(4, 1000); got != 0 {
		t.Errorf("with more than half of it here, %d more may be claimed", got)
	}
}
