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
func Encode(m skald.Message) (amqp.Publishing, error) { return encode(&m) }

// Decode is how it arrives.
func Decode(topic string, d amqp.Delivery) (skald.Message, error) { return decode(topic, &d) }
