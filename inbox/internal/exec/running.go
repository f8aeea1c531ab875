// This file knows which handlers and calls to the outside run now, and which go on although their time
// is over.

package exec

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/skald-go/skald/inbox/internal/partition"
	"github.com/skald-go/skald/store"
)

// An act is a handler, or a call to the outside, that is running.
type act struct {
	es    []*partition.Entry // several: of a batch handler
	begun time.Time
	most  time.Duration
	told  bool
}

// acts are those that run now. The zero value has none. It is for any goroutine.
type acts struct {
	mu  sync.Mutex
	now map[*act]bool
}

// begin adds an act with the messages es that may take most. Over removes it.
func (a *acts) begin(most time.Duration, es ...*partition.Entry) (over func()) {
	one := &act{es: es, begun: time.Now(), most: most}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.now == nil {
		a.now = map[*act]bool{}
	}
	a.now[one] = true
	return func() {
		a.mu.Lock()
		defer a.mu.Unlock()
		delete(a.now, one)
	}
}

// longest describes the acts that run for the longest, at most n.
func (a *acts) longest(n int) []string {
	a.mu.Lock()
	all := slices.SortedFunc(maps.Keys(a.now), func(x, y *act) int { return x.begun.Compare(y.begun) })
	a.mu.Unlock()
	out := make([]string, 0, n)
	for _, one := range all[:min(n, len(all))] {
		e, more := one.es[0], ""
		if n := len(one.es) - 1; n > 0 {
			more = fmt.Sprintf(" and %d more", n)
		}
		out = append(out, fmt.Sprintf("%s %s of %s%s for %v", e.Type, e.ID, e.Topic, more,
			time.Since(one.begun).Round(time.Millisecond)))
	}
	return out
}

// Running is a handler or a call that runs now.
type Running struct {
	Entries []*partition.Entry // several: of a batch handler
	Begun   time.Time
	Most    time.Duration // that it has
	Late    bool          // its time is over
	Stuck   bool          // its time and mercy are over: it goes on although its context ended
}

// running lists all acts.
func (a *acts) running(grace time.Duration) []Running {
	a.mu.Lock()
	defer a.mu.Unlock()
	out := make([]Running, 0, len(a.now))
	for one := range a.now {
		took := time.Since(one.begun)
		out = append(out, Running{one.es, one.begun, one.most, took >= one.most, took >= one.most+grace})
	}
	return out
}

// Renew extends the claim of e by lease from now on, while its handler goes on. It changes nothing if
// somebody claimed e since, or e was answered.
func (x *Executor[TTx]) Renew(ctx context.Context, e *partition.Entry, lease time.Duration) error {
	id := e.Identity()
	kept, err := store.ListParked(ctx, x.db, store.ParkedQuery{Consumer: x.o.Group, Identity: &id, Limit: 1})
	if err == nil && len(kept) == 1 && kept[0].Dead == nil && kept[0].Session != "" &&
		kept[0].Session == e.InHandOf() {
		k := asRead(&kept[0])
		k.Due = lease
		_, err = x.db.Apply(ctx, store.Effect{Park: k})
	}
	if err != nil {
		return fmt.Errorf("renew the claim of %s: %w", e.Name(), err)
	}
	return nil
}

// overdue lists the acts that go on for grace longer than they may, and logs each once.
func (a *acts) overdue(grace time.Duration, log *slog.Logger) (out []Running) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for one := range a.now {
		took := time.Since(one.begun)
		if took < one.most+grace {
			continue
		}
		e := one.es[0]
		out = append(out, Running{one.es, one.begun, one.most, true, true})
		if !one.told {
			one.told = true
			log.Warn("inbox: a handler ignores that its context ended; its keys wait until it returns",
				"note", "another worker takes its place; the handler may keep a connection of the pool",
				"topic", e.Topic, "partition", e.Partition, "position", e.Position, "id", e.ID,
				"type", e.Type, "messages", len(one.es), "after", took.Round(time.Second))
		}
	}
	return out
}
