package rabbitbroker

import (
	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/skald-go/skald"
)

// Kill ends the member as sudden death would: nothing is stored, nothing handed over.
func (s *Subscription) Kill() {
	s.kill()
	<-s.done
}

// Encode is how m travels.
func Encode(m skald.Message) (amqp.Publishing, error) {
	codec, _ := codec(nil) // nil has no fault
	return encode(codec, &m)
}

// Decode is how it arrives.
func Decode(topic string, d amqp.Delivery) (skald.Message, error) {
	codec, _ := codec(nil)
	return decode(codec, topic, &d)
}

// Held is how many messages the member has that nobody has received.
func (s *Subscription) Held() (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, l := range s.feed.All() {
		n += l.Len()
	}
	return n
}
