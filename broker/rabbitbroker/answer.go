// This file processes RabbitMQ's answers to published messages.

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

// kindOf classifies an error that prevented the publication of a message. Refused means that a retry would
// fail too. Outage means that the state of the message is unknown.
func kindOf(err error) perkey.Kind {
	if errors.Is(err, broker.ErrNoTopic) || errors.Is(err, ErrSettings) ||
		errors.Is(err, cloudevents.ErrCannotCarry) || code(err) == amqp.AccessRefused {
		return perkey.Refused
	}
	return perkey.Outage
}

// confirmed processes the confirmation of one message. acked is false if RabbitMQ rejected the message.
func (p *publisher) confirmed(token uint64, w *wire, acked bool) {
	p.Mu.Lock()
	defer p.Mu.Unlock()
	p.drain(w)
	it := p.Lines.Aloft(token)
	if it == nil || !acked && w.ch.IsClosed() {
		return // lost reports an outage to its caller
	}
	p.Lines.Land(it)
	p.oneByOne = max(p.oneByOne-1, 0)
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

// drain marks the messages that RabbitMQ returned because no queue is bound. RabbitMQ gives no number for a
// returned message, so drain compares its fields. Equal messages may be exchanged.
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
