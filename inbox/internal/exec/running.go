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
	e     *partition.Entry
	begun time.Time
	most  time.Duration
	told  bool
}

// acts are those that run now. The zero value has none. It is for any goroutine.
type acts struct {
	mu  sync.Mutex
	now map[*act]bool
}

// Begin notes that something of e begins that may take most; over says that it is done.
func (a *acts) Begin(e *partition.Entry, most time.Duration) (over func()) {
	one := &act{e: e, begun: time.Now(), most: most}
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

// Longest describes the acts that run for the longest, at most n.
func (a *acts) Longest(n int) []string {
	a.mu.Lock()
	all := slices.SortedFunc(maps.Keys(a.now), func(x, y *act) int { return x.begun.Compare(y.begun) })
	a.mu.Unlock()
	out := make([]string, 0, n)
	for _, one := range all[:min(n, len(all))] {
		out = append(out, fmt.Sprintf("%s %s of %s for %v", one.e.Type, one.e.ID, one.e.Topic,
			time.Since(one.begun).Round(time.Millisecond)))
	}
	return out
}

// An overdue is a handler, or a call, that goes on although its time is over and its context has ended.
type overdue struct {
	Entry *partition.Entry
	Begun time.Time
	Most  time.Duration // that it had
}

// running is a message in a handler or a call.
type running struct {
	Entry *partition.Entry
	Late  bool // its time is over
	Stuck bool // its time and mercy are over
}

// Running lists all acts.
func (a *acts) Running(grace time.Duration) []running {
	a.mu.Lock()
	defer a.mu.Unlock()
	out := make([]running, 0, len(a.now))
	for one := range a.now {
		took := time.Since(one.begun)
		out = append(out, running{one.e, took >= one.most, took >= one.most+grace})
	}
	return out
}

// Renew extends the claim of e by lease from now on, while its handler goes on. It changes nothing if
// somebody claimed e since, or e was answered.
func (x *Executor[TTx]) Renew(ctx context.Context, e *partition.Entry, lease time.Duration) error {
	id := e.Identity()
	kept, err := store.ListKept(ctx, x.db, store.Sought{Consumer: x.o.Group, Identity: &id, Limit: 1})
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

// Overdue lists what goes on for grace longer than it may, and logs each once.
func (a *acts) Overdue(grace time.Duration, log *slog.Logger) (out []overdue) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for one := range a.now {
		took := time.Since(one.begun)
		if took < one.most+grace {
			continue
		}
		e := one.e
		out = append(out, overdue{Entry: e, Begun: one.begun, Most: one.most})
		if !one.told {
			one.told = true
			log.Warn("inbox: a handler ignores that its context ended; its key waits until it returns",
				"note", "another worker takes its place; the handler may keep a connection of the pool",
				"topic", e.Topic, "partition", e.Partition, "position", e.Position, "id", e.ID,
				"type", e.Type, "after", took.Round(time.Second))
		}
	}
	return out
}
