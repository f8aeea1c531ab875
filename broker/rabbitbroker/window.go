package rabbitbroker

import (
	"cmp"
	"time"
)

// This file limits the unacknowledged bytes of a member. RabbitMQ limits only the number of unacknowledged
// messages (the prefetch). For a quorum queue this number is fixed when a consumer starts, and RabbitMQ
// refuses a limit for a whole channel. So a member above the limit closes the channel of the partition with
// the most bytes. RabbitMQ puts its messages back in order. Then the member opens the channel again with a
// lower prefetch.

const (
	inFlight = 32 << 20         // maximum unacknowledged bytes of a member
	calm     = 10 * time.Second // minimum time before a prefetch is raised again
)

// flight has the sizes of the unacknowledged messages of a partition. The subscription's lock guards it.
type flight struct {
	prefetch int
	since    time.Time // when the channel was opened
	sizes    []int     // by delivery tag
	acked    int64     // the last acknowledged tag
	bytes    int
	largest  int // largest message since the channel was opened
	seen     int // number of messages since the channel was opened
	next     int // while the channel is being closed: the prefetch of the next one; else 0
}

func (f *flight) add(size int) {
	f.sizes, f.bytes = append(f.sizes, size), f.bytes+size
	f.largest, f.seen = max(f.largest, size), f.seen+1
}

// removeUpTo removes the messages up to a delivery tag, and returns their total size.
func (f *flight) removeUpTo(tag int64) (bytes int) {
	n := max(0, min(int(tag-f.acked), len(f.sizes)))
	for _, size := range f.sizes[:n] {
		bytes += size
	}
	f.sizes, f.acked, f.bytes = f.sizes[n:], f.acked+int64(n), f.bytes-bytes
	return bytes
}

// deliver counts a message of o. If the member has too many bytes, deliver lowers the prefetch of the
// partition with the most bytes. It returns false if o must ignore the message, because its channel is being
// closed. RabbitMQ then delivers the message again.
func (s *Subscription) deliver(o *partition, size int) bool {
	if o.next > 0 {
		return false
	}
	o.add(size)
	if s.flying += size; s.flying <= inFlight {
		return true
	}
	most := o
	for _, p := range s.feed.All() {
		if p.bytes > most.bytes {
			most = p
		}
	}
	if len(most.sizes) > 1 {
		fit := inFlight / max(1, len(s.feed.All())) / most.largest
		s.reopen(most, max(1, min(fit, most.prefetch/2)))
	}
	return o.next == 0
}

// reopen closes the channel of o. balance opens it again with that prefetch.
func (s *Subscription) reopen(o *partition, prefetch int) {
	s.flying -= o.bytes
	o.next, o.bytes, o.sizes = prefetch, 0, nil
	go o.close()
}

// reopens returns true if reopen is closing the channel of o.
func (s *Subscription) reopens(o *partition) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return o.next > 0
}

// widen raises prefetches that were lowered, if messages have become small.
func (s *Subscription) widen(now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, o := range s.feed.All() {
		most := cmp.Or(s.prefetch[o.Name], s.b.opts.Prefetch)
		if n := o.wider(most, inFlight/len(s.feed.All()), now); n > 0 {
			s.reopen(o, n)
		}
	}
}

// wider returns a higher prefetch, up to limit, or 0 for no change. With this prefetch, messages of the
// largest recent size need at most the given number of bytes. It waits until the partition has no messages
// in flight, but at most two times calm.
func (f *flight) wider(limit, bytes int, now time.Time) int {
	old := now.Sub(f.since)
	if f.next > 0 || f.prefetch >= limit || f.seen < f.prefetch || old < calm {
		return 0
	}
	n := min(limit, bytes/max(1, f.largest))
	if n < limit && n < 2*f.prefetch || len(f.sizes) > 0 && old < 2*calm {
		return 0
	}
	return n
}

// reopened stores the prefetch for a partition that reopen has closed. It returns false if the channel was
// closed for another reason.
func (s *Subscription) reopened(o *partition) bool {
	if !s.reopens(o) {
		return false
	}
	s.windows[o.Name] = o.next
	return true
}
