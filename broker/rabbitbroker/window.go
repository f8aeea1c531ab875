package rabbitbroker

import (
	"cmp"
	"time"
)

// RabbitMQ bounds unacknowledged deliveries by number. Here they are bounded in bytes as well. A quorum queue
// fixes the number (prefetch) for the life of a consumer: it refuses basic.qos with global. So a member that
// has too much closes the channel of the partition with the most, which returns its messages to the queue, in
// order, and reads them again with a smaller prefetch.

const (
	inFlight = 32 << 20         // bytes of a member, delivered and not acknowledged
	calm     = 10 * time.Second // before a prefetch is raised again
)

// flight is the messages of a partition that were delivered and not acknowledged. The subscription's lock
// guards it.
type flight struct {
	prefetch int
	since    time.Time // the channel was opened
	sizes    []int     // by delivery tag
	acked    int64     // the tag before these
	bytes    int
	largest  int // since the channel was opened
	seen     int // since then
	next     int // the prefetch of the next channel, since this one is being closed; 0: it is not
}

func (f *flight) add(size int) {
	f.sizes, f.bytes = append(f.sizes, size), f.bytes+size
	f.largest, f.seen = max(f.largest, size), f.seen+1
}

// done forgets the messages up to a tag, and returns their bytes.
func (f *flight) done(tag int64) (bytes int) {
	n := max(0, min(int(tag-f.acked), len(f.sizes)))
	for _, size := range f.sizes[:n] {
		bytes += size
	}
	f.sizes, f.acked, f.bytes = f.sizes[n:], f.acked+int64(n), f.bytes-bytes
	return bytes
}

// deliver counts a message of o. Where the member has too much, the partition with the most is to be read
// with a smaller prefetch. It reports whether o takes the message: one of a channel that is being closed
// comes again.
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

// reopen closes the channel of o. It is opened again with that prefetch.
func (s *Subscription) reopen(o *partition, prefetch int) {
	s.flying -= o.bytes
	o.next, o.bytes, o.sizes = prefetch, 0, nil
	go o.close()
}

// reopens reports whether the channel of o is being closed, to be opened again.
func (s *Subscription) reopens(o *partition) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return o.next > 0
}

// widen raises prefetches that were lowered, once messages are small.
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

// wider returns the prefetch, up to most, with which messages as large as the largest fit into that many
// bytes; 0: f stays as it is. It changes where nothing is in progress, or after a while all the same.
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

// reopened notes the prefetch with which a partition is opened again; false: its channel ended otherwise.
func (s *Subscription) reopened(o *partition) bool {
	if !s.reopens(o) {
		return false
	}
	s.windows[o.Name] = o.next
	return true
}
