package natsbroker

import (
	"github.com/nats-io/nats.go"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/broker"
)

// Kill ends the member as sudden death would: nothing is stored, nothing handed over.
func (s *Subscription) Kill() {
	s.kill()
	<-s.done
}

// Encode is how m travels.
func Encode(m skald.Message) (*nats.Msg, error) {
	codec, _ := codec(nil) // nil has no fault
	return encode(codec, &m)
}

// Decode is how it arrives.
func Decode(topic string, m *nats.Msg) (skald.Message, error) {
	codec, _ := codec(nil)
	return decode(codec, topic, m.Header, m.Data, 1)
}

// Cut ends a client as sudden death would.
func Cut(b *Broker) { b.nc.Close() }

// Held is how many messages the member has that nobody has received.
func (s *Subscription) Held() (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, l := range s.feed.All() {
		n += l.Len()
	}
	return n
}

// HeldBytes is how many bytes of memory they take.
func (s *Subscription) HeldBytes() (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, l := range s.feed.All() {
		n += l.Bytes()
	}
	return n
}

// HeldBytes is how many bytes of memory its unacknowledged messages take.
func HeldBytes(sub broker.Subscription) (n int) {
	s := sub.(*durable)
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, l := range s.feed.All() {
		n += l.bytes()
	}
	return n
}

// Stale reports whether a row was not at the revision that was read.
func Stale(err error) bool { return stale(err) }
