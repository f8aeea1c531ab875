package engine

import "sync"

const (
	most      = 500     // limit of the entries of one commit
	mostBytes = 4 << 20 // limit of the states and messages of one commit
)

// queue collects entries while earlier entries are committed. One goroutine leads: it commits entries until
// there are none. The zero value is empty. It is safe for concurrent use.
type queue[T any] struct {
	mu    sync.Mutex
	waits []T
	led   bool // a goroutine leads
}

// add adds an entry. It returns true if the caller must start the goroutine that leads.
func (q *queue[T]) add(one T) (leads bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.waits = append(q.waits, one)
	leads, q.led = !q.led, true
	return leads
}

// take removes and returns waiting entries, up to the limits of one commit. If it returns none, the goroutine
// that leads must end.
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
