package relay_test

import (
	"context"
	"log/slog"
	"sync/atomic"
	"testing"
	"time"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/broker/membroker"
	"github.com/skald-go/skald/outbox"
	"github.com/skald-go/skald/relay"
	"github.com/skald-go/skald/store"
	"github.com/skald-go/skald/store/memstore"
)

// allSeen is a source that reports that each commit was read, and counts looks.
type allSeen struct {
	*memstore.Store
	looks, pulls atomic.Int64
}

func (*allSeen) Listen(ctx context.Context, _ *slog.Logger) { <-ctx.Done() }

func (*allSeen) Listening() store.Listening { return store.Listening{Quiet: true} }

func (s *allSeen) Lease(ctx context.Context, ask store.LeaseRequest) (store.Leased, error) {
	if ask.SnapshotBase != nil {
		s.looks.Add(1)
	}
	return s.Store.Lease(ctx, ask)
}

func (s *allSeen) Pull(ctx context.Context, w store.Window, limit int) (store.Page, error) {
	s.pulls.Add(1)
	return s.Store.Pull(ctx, w, limit)
}

// TestOneLookForEachCommit checks that no further look follows after a look that read all commits, whether
// the look found rows or not.
func TestOneLookForEachCommit(t *testing.T) {
	db := memstore.New(nil)
	from, bus := &allSeen{Store: db}, membroker.New(nil)
	if err := bus.MakeTopics(t.Context(), 1, "orders"); err != nil {
		t.Fatal(err)
	}
	r := relay.New(from, bus, nil)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- r.Run(ctx) }()
	out := outbox.New(db, nil)
	const commits = 20
	write := func(n int) {
		tx := db.BeginTx()
		err := out.Write(ctx, tx, skald.Draft{Topic: "orders", Key: []byte("k"), Type: "placed", Value: n})
		if err == nil {
			err = tx.Commit()
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	for n := range commits {
		write(n)
		again := time.Now().Add(time.Second)
		for end := time.Now().Add(time.Minute); r.Health().Published < int64(n)+1; {
			if time.Now().After(end) {
				t.Fatalf("message %d was not published", n)
			}
			// Unlike a real one, this source misses a commit at the moment in which the relay goes to rest.
			// The next commit wakes the relay.
			if time.Now().After(again) {
				write(n)
				again = time.Now().Add(time.Second)
			}
			<-time.After(time.Millisecond)
		}
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	// The first look, and one combined with a renewal of the lease.
	if looks, pulls := from.looks.Load(), from.pulls.Load(); looks > pulls+2 {
		t.Errorf("%d looks for %d windows", looks, pulls)
	}
}
