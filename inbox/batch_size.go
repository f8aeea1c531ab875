package inbox

import "time"

const (
	// defaultBatch is also the number of savepoints of a transaction that PostgreSQL keeps in shared memory.
	// With more of them, each snapshot of other sessions becomes slower.
	defaultBatch = 64
	// longestBatch is how long the handlers of one transaction may take together. Its commit is then a small
	// part of the time, and more messages would only hold locks for longer.
	longestBatch = 200 * time.Millisecond
	// collisionPart is which part of the time collisions of shared transactions may take: 1/collisionPart.
	collisionPart = 20
	// longestCalm bounds the time without growth after a collision.
	longestCalm = 10 * time.Minute
	// mostCollisions bounds how often that time doubles.
	mostCollisions = 8
)

// A batchSize is how many messages may share a transaction.
type batchSize struct {
	most int // Options.Batch
	now  int

	collisions int       // that made it smaller, since it was at most
	calm       time.Time // no growth before
}

// newBatchSize begins with what the user chose, or with one message if the user chose nothing.
func newBatchSize(chosen int) batchSize {
	if chosen == 0 {
		return batchSize{most: defaultBatch, now: 1}
	}
	most := max(1, chosen)
	return batchSize{most: most, now: most}
}

// succeeded notes n messages of a transaction in which nothing failed, and how long their handlers took
// together. Messages that are fewer than might have been prove nothing about more.
func (b *batchSize) succeeded(n int, took time.Duration, at time.Time) {
	switch {
	case took > longestBatch:
		b.now = max(1, min(b.now, n/2))
	case n < b.now, took > longestBatch/2, at.Before(b.calm), b.now == b.most:
	default:
		if b.now = min(2*b.now, b.most); b.now == b.most {
			b.collisions = 0
		}
	}
}

// failed notes n messages whose transaction was rolled back. Many such jobs may have begun before the first
// of them ended: together they halve the size once.
func (b *batchSize) failed(n int) { b.now = max(1, min(b.now, n/2)) }

// collided is failed for transactions that collided with those of rivals, which cost so much time.
func (b *batchSize) collided(n int, cost time.Duration, at time.Time) {
	if was := b.now; n > 1 {
		if b.failed(n); b.now < was {
			b.collisions = min(b.collisions+1, mostCollisions)
		}
	}
	calm := min(cost*collisionPart<<max(0, b.collisions-1), longestCalm)
	if until := at.Add(calm); until.After(b.calm) {
		b.calm = until
	}
}
