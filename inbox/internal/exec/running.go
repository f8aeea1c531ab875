// This file lists the handlers and outside calls that run now, and finds those that ignore their time limit.

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

// runningFunc is a handler or an outside call that runs.
type runningFunc struct {
	es     []*partition.Entry // several for a batch handler
	begun  time.Time
	most   time.Duration
	logged bool
}

// runningFuncs has the functions that run now. The zero value is empty. It is safe for concurrent use.
type runningFuncs struct {
	mu  sync.Mutex
	now map[*runningFunc]bool
}

// begin adds a function with the messages es and this time limit. The caller must call end when the
// function returns.
func (a *runningFuncs) begin(limit time.Duration, es ...*partition.Entry) (end func()) {
	one := &runningFunc{es: es, begun: time.Now(), most: limit}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.now == nil {
		a.now = map[*runningFunc]bool{}
	}
	a.now[one] = true
	return func() {
		a.mu.Lock()
		defer a.mu.Unlock()
		delete(a.now, one)
	}
}

// longest describes the n functions that have run for the longest time.
func (a *runningFuncs) longest(n int) []string {
	a.mu.Lock()
	all := slices.SortedFunc(maps.Keys(a.now),
		func(x, y *runningFunc) int { return x.begun.Compare(y.begun) })
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

// Running is a handler or an outside call that runs now.
type Running struct {
	Entries []*partition.Entry // several for a batch handler
	Begun   time.Time
	Most    time.Duration // its time limit
	Late    bool          // it has run for longer than its time limit
	Stuck   bool          // it has run for longer than its time limit plus grace, so it ignores its context
}

// list lists all functions.
func (a *runningFuncs) list(grace time.Duration) []Running {
	a.mu.Lock()
	defer a.mu.Unlock()
	out := make([]Running, 0, len(a.now))
	for one := range a.now {
		took := time.Since(one.begun)
		out = append(out, Running{one.es, one.begun, one.most, took >= one.most, took >= one.most+grace})
	}
	return out
}

// Renew extends the claim of e while its handler runs: the claim ends when lease has passed from now on. It
// changes nothing if another session has the claim, or the message is finished.
func (x *Executor[TTx]) Renew(ctx context.Context, e *partition.Entry, lease time.Duration) error {
	id := e.Identity()
	kept, err := store.ListParked(ctx, x.db, store.ParkedQuery{Consumer: x.o.Group, Identity: &id, Limit: 1})
	if err == nil && len(kept) == 1 && kept[0].Dead == nil && kept[0].Session != "" &&
		kept[0].Session == e.InHandOf() {
		k := ifUnchanged(&kept[0])
		k.Due = lease
		_, err = x.db.Apply(ctx, store.Effect{Park: k})
	}
	if err != nil {
		return fmt.Errorf("renew the claim of %s: %w", e.Name(), err)
	}
	return nil
}

// overdue lists the functions that have run for longer than their time limit plus grace. It logs each of them
// once.
func (a *runningFuncs) overdue(grace time.Duration, log *slog.Logger) (out []Running) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for one := range a.now {
		took := time.Since(one.begun)
		if took < one.most+grace {
			continue
		}
		e := one.es[0]
		out = append(out, Running{one.es, one.begun, one.most, true, true})
		if !one.logged {
			one.logged = true
			log.Warn("inbox: a handler ignores that its context ended; its messages wait until it returns",
				"note", "the attempt failed, and its transaction is rolled back",
				"remedy", "make the handler return when its context ends",
				"topic", e.Topic, "partition", e.Partition, "position", e.Position, "id", e.ID,
				"type", e.Type, "messages", len(one.es), "after", took.Round(time.Second))
		}
	}
	return out
}
