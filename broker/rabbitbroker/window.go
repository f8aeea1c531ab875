package rabbitbroker

import (
	"cmp"
	"time"
)

// RabbitMQ limits unacknowledged deliveries by number. This file also limits their bytes. A quorum queue
// fixes the number (prefetch) for the life of a consumer, and refuses a global basic.qos. So a member above
// the limit closes the channel of the partition with the most bytes, which returns its messages in order,
// and opens it again with a lower prefetch.

const (
	inFlight = 32 << 20         // maximum unacknowledged bytes of a member
	calm     = 10 * time.Second // pause before a prefetch is raised again
)

// flight has the unacknowledged messages of a partition. The subscription's lock guards it.
type flight struct {
	prefetch int
	since    time.Time // when the channel was opened
	sizes    []int     // by delivery tag
	acked    int64     // the last acknowledged tag
	bytes    int
	largest  int // largest message since the channel was opened
	seen     int // number of messages since then
	next     int // the prefetch of the next channel while this one is being closed; otherwise 0
}

func (f *flight) add(size int) {
	f.sizes, f.bytes = append(f.sizes, size), f.bytes+size
	f.largest, f.seen = max(f.largest, size), f.seen+1
}

// done removes the messages up to a tag, and returns their bytes.
func (f *flight) done(tag int64) (bytes int) {
	n := max(0, min(int(tag-f.acked), len(f.sizes)))
	for _, size := range f.sizes[:n] {
		bytes += size
	}
	f.sizes, f.acked, f.bytes = f.sizes[n:], f.acked+int64(n), f.bytes-bytes
	return bytes
}

// deliver counts a message of o. If the member is above the limit, the partition with the most bytes gets a
// lower prefetch. It returns false if o must ignore the message, because its channel is being closed and
// the message is redelivered.
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

// reopen closes the channel of o, so that it is opened again with that prefetch.
func (s *Subscription) reopen(o *partition, prefetch int) {
	s.flying -= o.bytes
	o.next, o.bytes, o.sizes = prefetch, 0, nil
	go o.close()
}

// reopens returns true if the channel of o is being closed in order to be opened again.
func (s *Subscription) reopens(o *partition) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return o.next > 0
}

// widen raises lowered prefetches after messages have become small.
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

// wider returns the prefetch, up to most, with which messages of the largest size fit into that many bytes;
// 0 means no change. It changes a partition without messages in progress, or any partition after a while.
func (f *flight) wider(most, bytes int, now time.Time) int {
	old := now.Sub(f.since)
	if f.next > 0 || f.prefetch >= most || f.seen < f.prefetch || old < calm {
		return 0
	}
	n := min(most, bytes/max(1, f.largest))
	if n < most && n < 2*f.prefetch || len(f.sizes) > 0 && old < 2*calm {
		return 0
	}
	return n
}

// reopened returns the prefetch with which a partition is opened again; false if its channel ended for
// another reason.
func (s *Subscription) reopened(o *partition) bool {
	if !s.reopens(o) {
		return false
	}
	s.windows[o.Name] = o.next
	return true
}
