package relay

import (
	"context"
	"log/slog"
	"testing"

	"github.com/skald-go/skald/broker/membroker"
	"github.com/skald-go/skald/store"
	"github.com/skald-go/skald/store/memstore"
)

// lateSeen is a source that says that all is seen. What it heard of becomes visible after the first look.
type lateSeen struct {
	*memstore.Store
	looks int
}

func (*lateSeen) Hear(ctx context.Context, _ *slog.Logger) { <-ctx.Done() }

func (*lateSeen) Hearing() store.Hearing { return store.Hearing{Quiet: true} }

func (s *lateSeen) Lease(_ context.Context, ask store.Ask) (store.Leased, error) {
	if s.looks++; s.looks == 1 {
		return store.Leased{Tip: *ask.Look}, nil
	}
	return store.Leased{Tip: "9-later"}, nil
}

// Of two groups with windows of their own one looks in vain, then the other finds something: the relay does
// not rest, for the first one has not seen what the source was told of meanwhile.
func TestARelayDoesNotRestBeforeAllGroupsHaveSeen(t *testing.T) {
	from := &lateSeen{Store: memstore.New(nil)}
	r := New(from, membroker.New(nil), nil)
	for i, base := range []string{"1-one", "2-two"} {
		l := newShard(store.Shard{ID: i, First: i, Last: i, Cursor: store.Cursor{Base: base, Tip: base}})
		r.shards[l.ID] = l
		r.groupFor(l, r.o.Now())
	}
	if busy, err := r.look(t.Context()); err != nil || !busy || from.looks != 2 {
		t.Fatalf("busy %v, %d looks, %v", busy, from.looks, err)
	}
	if r.resting {
		t.Error("it rests")
	}
}
