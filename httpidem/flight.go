package httpidem

import (
	"context"
	"crypto/sha256"
	"sync"
	"time"

	"github.com/skald-go/skald/store"
)

// In one process, requests with the same key wait for the first one. They use no database connection
// meanwhile. After its commit they get its answer from memory. Between processes the database decides.

type flightKey struct{ tenant, key string }

// flight is a request in progress that other requests with the same key wait for.
type flight struct {
	key    flightKey
	print  [sha256.Size]byte
	ended  chan struct{}
	once   sync.Once
	answer *answer // the stored answer; nil if there is none, so another request must run
}

type flights struct {
	mu     *sync.Mutex
	up     map[flightKey]*flight
	recent *recent
}

func newFlights() flights {
	return flights{mu: &sync.Mutex{}, up: map[flightKey]*flight{}, recent: &recent{}}
}

// join makes q the request that runs, unless another request with the key is in progress. In that case join
// waits. If the other request has the same payload and stores its answer, join returns that answer. If the
// other request still has the key after maxWait, join returns store.ErrBusy.
func (f flights) join(ctx context.Context, q *keyedRequest, maxWait time.Duration) (*flight, *answer, error) {
	print := sha256.Sum256(q.request.Payload)
	timer := time.NewTimer(max(maxWait, 0))
	defer timer.Stop()
	for {
		f.mu.Lock()
		was := f.up[q.flightKey]
		if was == nil {
			mine := &flight{key: q.flightKey, print: print, ended: make(chan struct{})}
			f.up[q.flightKey] = mine
			f.mu.Unlock()
			return mine, nil, nil
		}
		f.mu.Unlock()
		if maxWait < 0 {
			return nil, nil, store.ErrBusy
		}
		select {
		case <-was.ended:
			if was.answer != nil && was.print == print {
				again := *was.answer
				again.header, again.replayed, again.outcome = keepable(again.header), true, ""
				return nil, &again, nil
			}
		case <-ctx.Done():
			return nil, nil, ctx.Err()
		case <-timer.C:
			return nil, nil, store.ErrBusy
		}
	}
}

// end ends a flight. If a is stored, the waiting requests get it. Later calls have no effect.
func (f flights) end(one *flight, a answer) {
	one.once.Do(func() {
		f.mu.Lock()
		if a.stored {
			one.answer = &a
			f.recent.add(one.key)
		}
		delete(f.up, one.key)
		f.mu.Unlock()
		close(one.ended)
	})
}

// answered reports whether this process has recently seen an answer for the key.
func (f flights) answered(key flightKey) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.recent.has(key)
}

// recent has the last few thousand keys with an answer, in two generations.
type recent struct{ young, old map[flightKey]struct{} }

const generation = 4096 // keys

func (r *recent) add(key flightKey) {
	if len(r.young) >= generation {
		r.old, r.young = r.young, nil
	}
	if r.young == nil {
		r.young = make(map[flightKey]struct{}, generation)
	}
	r.young[key] = struct{}{}
}

func (r *recent) has(key flightKey) bool {
	if _, ok := r.young[key]; ok {
		return true
	}
	_, ok := r.old[key]
	return ok
}
