package inbox

import "time"

const (
	// defaultBatch is the default limit of a batch. PostgreSQL keeps 64 savepoints of a transaction in shared
	// memory. With more of them, each snapshot of other sessions becomes slower.
	defaultBatch = 64
	// longestBatch is how long the handlers of one transaction may take together. The commit is then a small
	// part of the time. A larger batch would only hold locks for longer.
	longestBatch = 200 * time.Millisecond
	// collisionPart limits the time lost by collisions of shared transactions to 1/collisionPart.
	collisionPart = 20
	// longestCalm bounds the time without growth after a collision. collided computes this time.
	longestCalm = 10 * time.Minute
	// mostCollisions bounds how often the time without growth doubles.
	mostCollisions = 8
)

// batchSize adapts the number of messages that may share a transaction.
type batchSize struct {
	most int // Options.Batch
	now  int // the current size

	collisions int       // collisions that halved the size since it was at most
	calm       time.Time // the size does not grow before this time
}

// newBatchSize returns a size that starts at chosen (Options.Batch), or at 1 if chosen is 0.
func newBatchSize(chosen int) batchSize {
	if chosen == 0 {
		return batchSize{most: defaultBatch, now: 1}
	}
	most := max(1, chosen)
	return batchSize{most: most, now: most}
}

// succeeded records a transaction of n messages without a failure. The handlers of these messages took
// handlerTime together. The size does not grow if n is smaller than the size.
func (b *batchSize) succeeded(n int, handlerTime time.Duration, at time.Time) {
	switch {
	case handlerTime > longestBatch:
		b.now = max(1, min(b.now, n/2))
	case n < b.now, handlerTime > longestBatch/2, at.Before(b.calm), b.now == b.most:
	default:
		if b.now = min(2*b.now, b.most); b.now == b.most {
			b.collisions = 0
		}
	}
}

// halve halves the size after a transaction of n messages was rolled back. Several jobs that began with the
// same size halve it only once.
func (b *batchSize) halve(n int) { b.now = max(1, min(b.now, n/2)) }

// collided halves the size after a transaction of n messages collided with another one and was rolled back.
// The collision cost lostTime.
func (b *batchSize) collided(n int, lostTime time.Duration, at time.Time) {
	if was := b.now; n > 1 {
		if b.halve(n); b.now < was {
			b.collisions = min(b.collisions+1, mostCollisions)
		}
	}
	calm := min(lostTime*collisionPart<<max(0, b.collisions-1), longestCalm)
	if until := at.Add(calm); until.After(b.calm) {
		b.calm = until
	}
}
