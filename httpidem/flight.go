package httpidem

import (
	"context"
	"crypto/sha256"
	"sync"
	"time"

	"github.com/skald-go/skald/store"
)

// Requests with the same key in one process wait for the first. They occupy no connection, and get its
// answer from memory after its commit. Across processes the database decides.

type flightKey struct{ tenant, key string }

// flight is a request in progress.
type flight struct {
	key    flightKey
	print  [sha256.Size]byte
	landed chan struct{}
	once   sync.Once
	answer *answer // the stored answer; nil if another request must try
}

type flights struct {
	mu     *sync.Mutex
	up     map[flightKey]*flight
	recent *recent
}

func newFlights() flights {
	return flights{mu: &sync.Mutex{}, up: map[flightKey]*flight{}, recent: &recent{}}
}

// lead makes q the request that is done. If another request with the same payload has just stored its
// answer, lead returns that answer. It returns store.ErrBusy if another request still has the key after
// wait.
func (f flights) lead(ctx context.Context, q *asked, wait time.Duration) (*flight, *answer, error) {
	print := sha256.Sum256(q.request.Payload)
	timer := time.NewTimer(max(wait, 0))
	defer timer.Stop()
	for {
		f.mu.Lock()
		was := f.up[q.flightKey]
		if was == nil {
			mine := &flight{key: q.flightKey, print: print, landed: make(chan struct{})}
			f.up[q.flightKey] = mine
			f.mu.Unlock()
			return mine, nil, nil
		}
		f.mu.Unlock()
		if wait < 0 {
			return nil, nil, store.ErrBusy
		}
		select {
		case <-was.landed:
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

// land ends a flight, with the answer if it is stored. Later calls have no effect.
func (f flights) land(one *flight, a answer) {
	one.once.Do(func() {
		f.mu.Lock()
		if a.stored {
			one.answer = &a
			f.recent.add(one.key)
		}
		delete(f.up, one.key)
		f.mu.Unlock()
		close(one.landed)
	})
}

// answered returns true if this process has recently seen an answer for the key.
func (f flights) answered(key flightKey) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.recent.has(key)
}

// recent stores the last few thousand keys.
type recent struct{ young, old map[flightKey]struct{} }

const generation = 4096

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
