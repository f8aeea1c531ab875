package rabbitbroker

import (
	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/skald-go/skald"
)

// Kill ends the member as a crash would. It stores nothing and does not leave the group.
func (s *Subscription) Kill() {
	s.kill()
	<-s.done
}

// Encode returns m in the form that the broker transports.
func Encode(m skald.Message) (amqp.Publishing, error) {
	codec, _ := codec(nil) // nil has no fault
	return encode(codec, &m)
}

// Decode returns the message that a member would deliver.
func Decode(topic string, d amqp.Delivery) (skald.Message, error) {
	codec, _ := codec(nil)
	return decode(codec, topic, &d)
}

// Held returns the number of messages that the member has fetched and not delivered.
func (s *Subscription) Held() (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, l := range s.feed.All() {
		n += l.Len()
	}
	return n
}
