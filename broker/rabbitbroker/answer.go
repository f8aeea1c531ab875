package rabbitbroker

import (
	"bytes"
	"errors"
	"fmt"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/skald-go/skald/broker"
	"github.com/skald-go/skald/broker/internal/cloudevents"
	"github.com/skald-go/skald/broker/internal/perkey"
)

var errRejected = errors.New("a queue is full or has no majority, and rejected the message")

// kindOf returns the consequence of an error that is no answer to one message.
func kindOf(err error) perkey.Kind {
	if errors.Is(err, broker.ErrNoTopic) || errors.Is(err, ErrSettings) ||
		errors.Is(err, cloudevents.ErrCannotCarry) || code(err) == amqp.AccessRefused {
		return perkey.Refused
	}
	return perkey.Outage
}

// confirmed processes the confirmation of one message by RabbitMQ.
func (p *publisher) confirmed(token uint64, w *wire, acked bool) {
	p.Mu.Lock()
	defer p.Mu.Unlock()
	p.drain(w)
	it := p.Lines.Aloft(token)
	if it == nil || !acked && w.ch.IsClosed() {
		return // its caller gets an outage
	}
	p.Lines.Land(it)
	p.careful = max(p.careful-1, 0)
	switch {
	case it.Out.returned != "":
		delete(p.Topics, it.Topic)
		p.Lines.Fail(it, perkey.Refused,
			fmt.Errorf("publish under %q: RabbitMQ returned it (%s): %w", it.Out.route, it.Out.returned,
				&broker.NoQueueError{Topic: it.Topic}))
	case !acked:
		p.Lines.Fail(it, perkey.Failed, fmt.Errorf("publish to %q: %w", it.Topic, errRejected))
	default:
		p.Lines.Done(it)
	}
}

// drain processes returned messages. A returned message is matched by its visible fields, so equal messages
// may be exchanged.
func (p *publisher) drain(w *wire) {
	for {
		select {
		case r, ok := <-w.returns:
			if !ok {
				w.returns = nil
				return
			}
			for it := range p.Lines.Flying() {
				if o := &it.Out; o.wire == w && o.returned == "" && it.Topic == r.Exchange &&
					o.route == r.RoutingKey && o.msg.MessageId == r.MessageId &&
					bytes.Equal(o.msg.Body, r.Body) {
					o.returned = r.ReplyText
					break
				}
			}
		default:
			return
		}
	}
}
