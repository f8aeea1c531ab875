package rabbitbroker

import (
	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/broker/internal/cloudevents"
	"github.com/skald-go/skald/broker/rabbitbroker/internal/record"
)

// Kill ends the member as sudden death would: nothing is stored, nothing handed over.
func (s *Subscription) Kill() {
	s.kill()
	<-s.done
}

// Encode is how m travels.
func Encode(m skald.Message) (amqp.Publishing, error) {
	return record.Encode(cloudevents.New(record.Style()), &m)
}

// Decode is how it arrives.
func Decode(topic string, d amqp.Delivery) (skald.Message, error) {
	return record.Decode(cloudevents.New(record.Style()), topic, &d)
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
