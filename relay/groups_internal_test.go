package relay

import (
	"context"
	"log/slog"
	"testing"

	"github.com/skald-go/skald/broker/membroker"
	"github.com/skald-go/skald/store"
	"github.com/skald-go/skald/store/memstore"
)

// lateSeen is a source that always reports that each commit was read, although one commit becomes visible
// only after the first look.
type lateSeen struct {
	*memstore.Store
	looks int
}

func (*lateSeen) Listen(ctx context.Context, _ *slog.Logger) { <-ctx.Done() }

func (*lateSeen) Listening() store.Listening { return store.Listening{Quiet: true} }

func (s *lateSeen) Lease(_ context.Context, ask store.LeaseRequest) (store.Leased, error) {
	if s.looks++; s.looks == 1 {
		return store.Leased{Tip: *ask.SnapshotBase}, nil
	}
	return store.Leased{Tip: "9-later"}, nil
}

// TestRelayRestsOnlyAfterAllGroupsHaveLooked has two groups, each with its own window. The look of the first
// group finds nothing, then the look of the second group finds a row. The relay must not pause, because the
// first group has missed this commit.
func TestRelayRestsOnlyAfterAllGroupsHaveLooked(t *testing.T) {
	from := &lateSeen{Store: memstore.New(nil)}
	r := New(from, membroker.New(nil), nil)
	for i, base := range []string{"1-one", "2-two"} {
		s := newShard(store.Shard{ID: i, First: i, Last: i, Cursor: store.Cursor{Base: base, Tip: base}})
		r.shards[s.ID] = s
		r.joinGroup(s, r.o.Now())
	}
	if busy, err := r.look(t.Context()); err != nil || !busy || from.looks != 2 {
		t.Fatalf("busy %v, %d looks, %v", busy, from.looks, err)
	}
	if r.resting {
		t.Error("it rests")
	}
}
