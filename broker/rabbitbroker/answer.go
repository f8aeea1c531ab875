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

var errRejected = errors.New("a queue of it is full, or has no majority, and rejected it")

// kindOf says what an error means that was not an answer to the message itself.
func kindOf(err error) perkey.Kind {
	if errors.Is(err, broker.ErrNoTopic) || errors.Is(err, ErrSettings) ||
		errors.Is(err, cloudevents.ErrCannotCarry) || code(err) == amqp.AccessRefused {
		return perkey.Refused
	}
	return perkey.Outage
}

// confirmed hears from RabbitMQ about one message.
func (p *publisher) confirmed(token uint64, w *wire, acked bool) {
	p.Mu.Lock()
	defer p.Mu.Unlock()
	p.drain(w)
	it := p.Lines.Aloft(token)
	if it == nil || !acked && w.ch.IsClosed() {
		return // its caller was told that nothing is known, or will be
	}
	p.Lines.Land(it)
	p.careful = max(p.careful-1, 0)
	switch {
	case it.Out.returned != "":
		delete(p.Topics, it.Topic)
		p.Lines.Fail(it, perkey.Refused,
			fmt.Errorf("publish to %q under %q: no queue is bound to it, for no group has joined yet (RabbitMQ says %s): %w", it.Topic, it.Out.route, it.Out.returned, broker.ErrNoTopic))
	case !acked:
		p.Lines.Fail(it, perkey.Failed, fmt.Errorf("publish to %q: %w", it.Topic, errRejected))
	default:
		p.Lines.Done(it)
	}
}

// drain takes up what was returned. Whatever is alike in all that can be seen may stand for the other.
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
