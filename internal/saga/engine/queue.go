package engine

import "sync"

const (
	most      = 500     // entries of one commit
	mostBytes = 4 << 20 // of states and messages
)

// queue collects entries during a commit of earlier ones. The zero value is empty.
type queue[T any] struct {
	mu    sync.Mutex
	waits []T
	led   bool // a goroutine commits the waiting entries, until there are none
}

// add returns true if the caller must start the commit, because no goroutine does yet.
func (q *queue[T]) add(one T) (leads bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.waits = append(q.waits, one)
	leads, q.led = !q.led, true
	return leads
}

// take returns the waiting entries, up to the limits of one commit. If there are none, the commit loop
// ends.
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
