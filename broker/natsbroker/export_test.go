package natsbroker

import (
	"github.com/nats-io/nats.go"

	"github.com/skald-go/skald"
)

// Kill ends the member as sudden death would: nothing is stored, nothing handed over.
func (s *Subscription) Kill() {
	s.kill()
	<-s.done
}

// Encode is how m travels.
func Encode(m skald.Message) (*nats.Msg, error) { return encode(&m) }

// Decode is how it arrives.
func Decode(topic string, m *nats.Msg) (skald.Message, error) { return decode(topic, m.Header, m.Data) }

// Stale is how a member hears that it was overtaken.
func Stale(err error) bool { return stale(err) }

// Cut ends a client as sudden death would.
func Cut(b *Broker) { b.nc.Close() }
