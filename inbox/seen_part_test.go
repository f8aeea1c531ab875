package inbox

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/broker"
	"github.com/skald-go/skald/broker/membroker"
	"github.com/skald-go/skald/inbox/internal/partition"
	"github.com/skald-go/skald/once"
	"github.com/skald-go/skald/store"
	"github.com/skald-go/skald/store/memstore"
)

// seenBench is a database and a cache with the answers that a test sets.
type seenBench struct {
	store.Driver[*memstore.Tx]
	done  map[string]store.Outcome
	cache map[string]string
	read  int
	err   error
	l     *partition.Partition
}

func (b *seenBench) Seen(_ context.Context, _ string, ids []store.Identity) (out []store.Verdict, err error) {
	b.read++
	for _, id := range ids {
		v := store.Verdict{Outcome: b.done[id.ID], Fingerprint: 1}
		if v.Outcome == store.Done {
			v.Fingerprint = 0 // unknown
		}
		out = append(out, v)
	}
	return out, b.err
}

func (b *seenBench) Get(_ context.Context, keys []string) (values []string) {
	for _, k := range keys {
		values = append(values, b.cache[k])
	}
	return values
}

func (b *seenBench) Put(es ...once.Entry) {
	for _, e := range es {
		b.cache[e.Key] = e.Value
	}
}

func (b *seenBench) TTL() time.Duration { return time.Hour }

func seenNewBench(t *testing.T) (*seenBench, *filter[*memstore.Tx]) {
	t.Helper()
	b := &seenBench{Driver: memstore.New(nil), done: map[string]store.Outcome{}, cache: map[string]string{},
		l: partition.New("orders/0")}
	in := New[*memstore.Tx](b, membroker.New(nil), "stock", &Options{Cache: Cache{Finished: b},
		Logger:   slog.New(slog.DiscardHandler),
		Identity: Identity{Repeat: func(m skald.Message) bool { return m.Type == "again" }}})
	if err := in.exec.Rekey(t.Context()); err != nil {
		t.Fatal(err)
	}
	return b, in.seen
}

func (b *seenBench) entry(id string) *partition.Entry {
	e := b.l.Add(broker.Delivery{Message: skald.Message{ID: id, Topic: "orders", Type: "placed"},
		Partition: b.l.Name})
	e.Given = store.Identity{Source: "/shop", ID: id}
	return e
}

// A message with a mark is dropped and added to the cache. The cache then drops the next duplicate. A
// conflict, or a message with an answer to publish again, continues to its attempt.
func TestRepeatsAreDropped(t *testing.T) {
	b, f := seenNewBench(t)
	b.done["done"], b.done["conflict"], b.done["again"] = store.Done, store.Rejected, store.Done
	fresh, done, conflict, again := b.entry("fresh"), b.entry("done"), b.entry("conflict"), b.entry("again")
	again.Type = "again"
	if !f.Marked(t.Context(), []*partition.Entry{fresh, done, conflict, again}) {
		t.Error("the marks were not read")
	}
	if fresh.Done || !done.Done || conflict.Done || len(b.cache) != 1 {
		t.Errorf("dropped are %d; the cache has %v", f.in.Health().Duplicates, b.cache)
	}
	repeat, other := b.entry("done"), b.entry("fresh")
	if f.Cached(t.Context(), []*partition.Entry{repeat, other}); !repeat.Done || other.Done ||
		f.in.Health().Cached != 1 {
		t.Errorf("the cache dropped %d", f.in.Health().Cached)
	}
	f.On("another run")
	if repeat = b.entry("done"); repeat.Done {
		t.Fatal("a new message is dropped")
	}
	if f.Cached(t.Context(), []*partition.Entry{repeat}); repeat.Done {
		t.Error("the cache is used after a restart of the database")
	}
}

// After many new messages the filter no longer reads marks, except for suspects and after a duplicate.
func TestNewMessagesAreNotLookedUpForever(t *testing.T) {
	b, f := seenNewBench(t)
	for n := range enoughNew {
		f.Marked(t.Context(), []*partition.Entry{b.entry(fmt.Sprint(n))})
	}
	if known := f.Marked(t.Context(), []*partition.Entry{b.entry("more")}); known || b.read != enoughNew {
		t.Errorf("asked %d times: %v", b.read, known)
	}
	b.l.Tried = map[string]bool{}
	if f.Marked(t.Context(), []*partition.Entry{b.entry("suspect")}); b.read != enoughNew+1 {
		t.Error("the marks of suspects are not read")
	}
	b.l.Tried = nil
	f.ReadAgain()
	if f.Marked(t.Context(), []*partition.Entry{b.entry("more")}); b.read != enoughNew+2 {
		t.Error("the marks are not read after a duplicate")
	}
	b.err = errors.New("away")
	if f.Marked(t.Context(), []*partition.Entry{b.entry("more")}) {
		t.Error("the marks count as read while the database is away")
	}
}
