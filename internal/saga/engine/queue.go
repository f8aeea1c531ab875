package engine

import "sync"

const (
	most      = 500     // entries of one commit
	mostBytes = 4 << 20 // of states and messages
)

// queue collects entries while those before are committed. The zero value is empty.
type queue[T any] struct {
	mu    sync.Mutex
	waits []T
	led   bool // somebody commits what waits, until nothing does
}

// add returns true if the caller has to see that it is committed, since nobody does yet.
func (q *queue[T]) add(one T) (leads bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.waits = append(q.waits, one)
	leads, q.led = !q.led, true
	return leads
}

// take returns the entries that wait, up to the bounds of one commit. Without any, nobody leads any more.
func (q *queue[T]) take(size func(T) int) (out []T) {
	q.mu.Lock()
	defer q.mu.Unlock()
	bytes := 0
	for _, one := range q.waits {
		if bytes += size(one); len(out) == most || len(out) > 0 && bytes > mostBytes {
			break
		}
		out = append(out, one)
	}
	if q.waits = q.waits[len(out):]; len(q.waits) == 0 {
		q.waits = nil
	}
	q.led = len(out) > 0
	return out
}
