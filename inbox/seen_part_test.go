package inbox

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/broker"
	"github.com/skald-go/skald/inbox/internal/partition"
	"github.com/skald-go/skald/once"
	"github.com/skald-go/skald/store"
)

// A seenBench is a database, a cache and the attempts of a consumer, all of which a test says.
type seenBench struct {
	done  map[string]store.Outcome
	cache map[string]string
	read  int
	err   error
	l     *partition.Partition
	told  []string
}

func (b *seenBench) Seen(_ context.Context, _ string, ids []store.Identity) (out []store.Verdict, err error) {
	b.read++
	for _, id := range ids {
		out = append(out, store.Verdict{Outcome: b.done[id.ID]})
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
func (b *seenBench) HasKey() bool       { return true }
func (b *seenBench) AsksBeside() bool   { return false }
func (b *seenBench) Seal(e *partition.Entry, server string) once.Entry {
	return once.Entry{Key: e.Given.ID, Value: server}
}

func (b *seenBench) Harmless(_ *partition.Entry, v store.Verdict) bool {
	return v.Outcome == store.Done
}

func seenNewBench() (*seenBench, *filter) {
	b := &seenBench{done: map[string]store.Outcome{}, cache: map[string]string{},
		l: partition.New("orders/0")}
	return b, newSeen(seenConfig{Group: "stock", DB: b, Session: "session", Cache: b, Attempt: b,
		Again: func(m skald.Message) bool { return m.Type == "again" },
		Repeat: func(e *partition.Entry, cached bool) {
			b.told = append(b.told, fmt.Sprint(e.Given.ID, " ", cached))
		},
		Read: func(context.Context, error) {}})
}

func (b *seenBench) entry(id string) *partition.Entry {
	e := b.l.Add(broker.Delivery{Message: skald.Message{ID: id, Topic: "orders", Type: "placed"},
		Partition: b.l.Name})
	e.Given = store.Identity{Source: "/shop", ID: id}
	return e
}

// What has a mark is dropped, remembered, and dropped by the cache from then on; what is a conflict, or is to
// be answered again, is left to its attempt.
func TestRepeatsAreDropped(t *testing.T) {
	b, f := seenNewBench()
	b.done["done"], b.done["conflict"], b.done["again"] = store.Done, store.Rejected, store.Done
	fresh, done, conflict, again := b.entry("fresh"), b.entry("done"), b.entry("conflict"), b.entry("again")
	again.Type = "again"
	if !f.Marked(t.Context(), []*partition.Entry{fresh, done, conflict, again}) {
		t.Error("it is not known what was finished")
	}
	if fresh.Done || !done.Done || conflict.Done || len(b.cache) != 1 {
		t.Errorf("dropped are %v; the cache has %v", b.told, b.cache)
	}
	repeat, other := b.entry("done"), b.entry("fresh")
	if f.Cached(t.Context(), []*partition.Entry{repeat, other}); !repeat.Done || other.Done ||
		b.told[len(b.told)-1] != "done true" {
		t.Errorf("told of %v", b.told)
	}
	f.On("another run")
	if repeat = b.entry("done"); repeat.Done {
		t.Fatal("a new one is done")
	}
	if f.Cached(t.Context(), []*partition.Entry{repeat}); repeat.Done {
		t.Error("the cache counts behind a restart of the database")
	}
}

// Behind many that are new it is no longer asked, but where a process may have died of one, and behind a
// repeat.
func TestNewOnesAreNotAskedForForEver(t *testing.T) {
	b, f := seenNewBench()
	for n := range trusting {
		f.Marked(t.Context(), []*partition.Entry{b.entry(fmt.Sprint(n))})
	}
	if known := f.Marked(t.Context(), []*partition.Entry{b.entry("more")}); known || b.read != trusting {
		t.Errorf("asked %d times: %v", b.read, known)
	}
	b.l.Tried = map[string]bool{}
	if f.Marked(t.Context(), []*partition.Entry{b.entry("suspect")}); b.read != trusting+1 {
		t.Error("it is not asked of what a process may have died of")
	}
	b.l.Tried = nil
	f.Distrust()
	if f.Marked(t.Context(), []*partition.Entry{b.entry("more")}); b.read != trusting+2 {
		t.Error("it is not asked behind a repeat")
	}
	b.err = errors.New("away")
	if f.Marked(t.Context(), []*partition.Entry{b.entry("more")}) {
		t.Error("it is known though the database is away")
	}
}
