package natsbroker

import (
	"github.com/nats-io/nats.go"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/broker"
)

// Kill ends the member as a crash would. It stores nothing and does not leave the group.
func (s *Subscription) Kill() {
	s.kill()
	<-s.done
}

// Encode returns m in the form that the broker transports.
func Encode(m skald.Message) (*nats.Msg, error) {
	codec, _ := codec(nil) // nil has no fault
	return encode(codec, &m)
}

// Decode returns the message that a member would deliver.
func Decode(topic string, m *nats.Msg) (skald.Message, error) {
	codec, _ := codec(nil)
	return decode(codec, topic, m.Header, m.Data, 1)
}

// Cut closes the connection of a client, as a crash would.
func Cut(b *Broker) { b.nc.Close() }

// Held returns the number of messages that the member has fetched and not delivered.
func (s *Subscription) Held() (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, l := range s.feed.All() {
		n += l.Len()
	}
	return n
}

// HeldBytes returns the memory of these messages, in bytes.
func (s *Subscription) HeldBytes() (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, l := range s.feed.All() {
		n += l.Bytes()
	}
	return n
}

// HeldBytes returns the memory of the unacknowledged messages of a durable, in bytes.
func HeldBytes(sub broker.Subscription) (n int) {
	s := sub.(*durable)
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, l := range s.feed.All() {
		n += l.bytes()
	}
	return n
}

// Stale returns true if err means that a row has another revision than the one that was read.
func Stale(err error) bool { return stale(err) }
