package pgstore

import (
	"context"
	"testing"
	"time"

	"github.com/skald-go/skald/store"
)

// TestKeptCounts checks that parked messages are counted up to 10,000 and estimated above that, with an
// exact age.
func TestKeptCounts(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	s := b.store(t)
	ctx := context.Background()
	counts := func() store.ParkedCounts {
		t.Helper()
		got, err := s.Status(ctx, store.StatusQuery{ParkedOf: "stock", Backlog: true})
		if err != nil {
			t.Fatal(err)
		}
		if len(got.Backlog.PerConsumer) != 2 || got.Backlog.PerConsumer[1].Parked != got.Parked.Parked ||
			got.Backlog.PerConsumer[0].Dead != 1 {
			t.Fatalf("kept for one %+v, for each %+v", got.Parked, got.Backlog.PerConsumer)
		}
		return got.Parked
	}
	b.exec(t, "INSERT"+b.parkedRows("1, 1"))
	b.exec(t, "UPDATE {skald_parked} SET consumer = 'mail', dead_at = now()")
	b.exec(t, "INSERT"+b.parkedRows("2, 20001"))
	b.exec(t, "UPDATE {skald_parked} SET since = now() - interval '1 hour' WHERE place = 15000")
	if n := counts(); n.Parked < 10_001 || n.Parked > 40_000 || n.Bytes < 8*n.Parked ||
		n.Bytes > 10*n.Parked || n.Dead != 0 || n.Oldest < time.Hour {
		t.Errorf("of 20,000: %+v", n)
	}
	b.exec(t,
		"UPDATE {skald_parked} SET dead_at = now(), fingerprint = 'f' WHERE consumer = 'stock' AND place % 4 > 0")
	if n := counts(); n.Dead < 10_001 || n.Dead > 40_000 || n.Parked != 5000 || n.Bytes != 9*n.Parked {
		t.Errorf("of 15,000 dead: %+v", n)
	}
	b.exec(t, "DELETE FROM {skald_parked} WHERE consumer = 'stock' AND place % 4 > 1")
	if n := counts(); n.Dead != 5000 || n.Parked != 5000 || n.Oldest < time.Hour {
		t.Errorf("few: %+v", n)
	}
}
