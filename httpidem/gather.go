// This file combines the queries of many requests into one call.

package httpidem

import (
	"cmp"
	"context"
	"sync"
	"time"

	"github.com/skald-go/skald/once"
	"github.com/skald-go/skald/store"
)

const mostGathered = 100 // maximum number of queries in one call

// gather combines the queries of many requests into one call. Queries that arrive during a call share the
// next call.
type gather[Q, A any] struct {
	ask     func(ctx context.Context, all []Q) ([]A, error)
	within  time.Duration // the time limit of one call; 0 means finishTimeout
	mu      sync.Mutex
	waiting []*question[Q, A]
	busy    bool
}

// question is the query of one request.
type question[Q, A any] struct {
	q    Q
	a    A
	err  error
	done chan struct{}
}

// query returns the answer to q. It sends q together with the queries of other requests.
func (g *gather[Q, A]) query(ctx context.Context, q Q) (a A, err error) {
	mine := &question[Q, A]{q: q, done: make(chan struct{})}
	g.mu.Lock()
	g.waiting = append(g.waiting, mine)
	if !g.busy {
		g.busy = true
		go g.run()
	}
	g.mu.Unlock()
	select {
	case <-mine.done:
		return mine.a, mine.err
	case <-ctx.Done():
		return a, ctx.Err()
	}
}

// run makes calls until no query waits.
func (g *gather[Q, A]) run() {
	for {
		g.mu.Lock()
		batch := g.waiting[:min(len(g.waiting), mostGathered)]
		g.waiting = g.waiting[len(batch):]
		if g.busy = len(batch) > 0; !g.busy {
			g.waiting = nil
		}
		g.mu.Unlock()
		if len(batch) == 0 {
			return
		}
		all := make([]Q, len(batch))
		for i, one := range batch {
			all[i] = one.q
		}
		ctx, cancel := context.WithTimeout(context.Background(), cmp.Or(g.within, finishTimeout))
		got, err := g.ask(ctx, all)
		cancel()
		for i, one := range batch {
			if one.err = err; err == nil {
				one.a = got[i]
			}
			close(one.done)
		}
	}
}

// seer looks up the keys of one endpoint, for many requests in one call.
type seer struct {
	once.Seer
	keys gather[store.Identity, store.Verdict]
}

func newSeer(db once.Seer, scope string, within time.Duration) *seer {
	s := &seer{Seer: db}
	s.keys.within = within
	s.keys.ask = func(ctx context.Context, ids []store.Identity) ([]store.Verdict, error) {
		return db.Seen(ctx, scope, ids)
	}
	return s
}

// Seen looks up keys. If there is only one key, it combines this query with those of other requests.
func (s *seer) Seen(ctx context.Context, consumer string, ids []store.Identity) ([]store.Verdict, error) {
	if len(ids) != 1 {
		return s.Seer.Seen(ctx, consumer, ids)
	}
	v, err := s.keys.query(ctx, ids[0])
	return []store.Verdict{v}, err
}
