package rabbitbroker

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/broker"
	"github.com/skald-go/skald/broker/internal/feed"
	"github.com/skald-go/skald/broker/internal/perkey"
	"github.com/skald-go/skald/internal/backoff"
)

// publisher implements the contract of Publish: at most one message of a key is unconfirmed at a time, and
// messages of other keys are sent in parallel. RabbitMQ confirms, refuses and returns each message
// separately, so in a pipeline a later message could succeed after its predecessor failed.
type publisher struct {
	perkey.Pump[parcel, topic]
	b    *Broker
	opts Options

	// The fields below are guarded by Mu.
	wire *wire // nil without a connection
	// careful is the number of messages that are sent one by one, to find the one for which RabbitMQ closed
	// the channel.
	careful int
	most    int // the maximum message size, as read at mostAt
	mostAt  time.Time
	denied  map[string]denial // topics that RabbitMQ closed the channel for, by name
	why     error             // why nothing can be sent

	fails int // used only by the sender
}

// wire is one channel in confirm mode.
type wire struct {
	conn    *amqp.Connection
	cut     func()
	ch      *amqp.Channel
	closed  chan *amqp.Error
	blocked chan amqp.Blocking
	returns chan amqp.Return // each return arrives before the confirmation of its message
}

// deniedFor is how long the publisher refuses messages to a topic without sending them, after RabbitMQ closed
// the channel because the right to write to that topic is missing. Each such close interrupts all topics.
const deniedFor = 5 * time.Second

// denial is the missing right to write to a topic.
type denial struct {
	why   error
	until time.Time
}

type item = perkey.Item[parcel]

// parcel is an encoded message, with its route.
type parcel struct {
	msg      amqp.Publishing
	wire     *wire
	route    string
	returned string // why no queue took it
}

func (p *publisher) start(b *Broker) {
	p.b, p.opts, p.why, p.denied = b, b.opts, errSilent, map[string]denial{}
	p.Init("RabbitMQ", b.opts.Patience)
	p.Start(p.flying, p.send, func(it *item) error {
		return fmt.Errorf("publish to %q: %w: no confirmation in %v: %w", it.Topic, broker.ErrUnavailable,
			p.opts.Patience, p.reason())
	}, func(ctx context.Context) bool {
		_, err := b.Incarnation(ctx)
		return err == nil || !errors.Is(err, broker.ErrUnavailable)
	})
}

// flying returns the maximum number of unconfirmed messages. The caller holds the lock.
func (p *publisher) flying() int {
	if p.careful > 0 {
		return 1
	}
	return p.opts.Flying
}

// stop answers all messages with an outage.
func (p *publisher) stop() {
	p.Stop(func() {
		p.Mu.Lock()
		w := p.wire // no other follows
		p.Mu.Unlock()
		if w != nil {
			_ = w.conn.CloseDeadline(time.Now().Add(time.Second))
		}
	})
}

// Publish queues msgs behind earlier ones.
func (b *Broker) Publish(ctx context.Context, msgs []skald.Message, only ...broker.Topics) broker.Pending {
	return b.publisher.Publish(ctx, msgs, only, func(m *skald.Message) (parcel, error) {
		msg, err := encode(b.codec, m)
		return parcel{msg: msg}, err
	})
}

// send connects at the first message, and sends.
func (p *publisher) send(it *item) {
	w, err := p.connected()
	if err == nil {
		err = p.launch(w, it)
	}
	switch {
	case err == nil:
		p.fails = 0
	case p.Overdue(it):
		p.Refuse(it, perkey.Outage, fmt.Errorf("publish to %q: %w: %w", it.Topic, broker.ErrUnavailable, err))
	default: // first in its line again
		p.Mu.Lock()
		p.Lines.First(it)
		p.Mu.Unlock()
		p.fails++
		p.Sleep(min(backoff.After(p.fails, 20*time.Millisecond, time.Second), p.opts.Patience/4))
	}
}

// launch sends a message; its confirmation arrives later. It returns an error if the message must be sent
// again, because RabbitMQ closed the channel for another message, and follow has not handled that yet.
func (p *publisher) launch(w *wire, it *item) error {
	it.Err = cmp.Or(it.Err, p.refusal(it))
	look := func(ctx context.Context, name string) (topic, error) { return p.b.look(ctx, w.conn, name) }
	t, ok := p.Aim(it, look, kindOf, func(t *topic) string { return t.id })
	if !ok {
		return nil
	}
	p.Mu.Lock()
	it.Out.wire, it.Out.route = w, route(it, t)
	token := p.Lines.Launch(it, len(it.Out.msg.Body)+1024, time.Now().Add(p.opts.Patience))
	p.Mu.Unlock()
	sent, err := w.ch.PublishWithDeferredConfirm(it.Topic, it.Out.route, !p.opts.DropUnrouted,
		false, it.Out.msg)
	if err == nil {
		go func() {
			<-sent.Done()
			p.confirmed(token, w, sent.Acked())
		}()
		return nil
	}
	p.Mu.Lock()
	defer p.Mu.Unlock()
	if errors.Is(err, amqp.ErrClosed) && !w.conn.IsClosed() && p.Lines.Aloft(token) != nil {
		p.Lines.Land(it)
		return orUnavailable(err)
	}
	p.Lines.Down(it, perkey.Outage, fmt.Errorf("publish to %q: %w", it.Topic, orUnavailable(err)))
	return nil
}

// route returns the routing key of a message.
func route(it *item, t topic) string {
	switch {
	case t.partitions == 0:
		return it.Type[:min(len(it.Type), maxShort)]
	case it.Key == nil:
		return routingKey(rand.IntN(t.partitions), it.Type)
	}
	return routingKey(feed.PartitionOf(it.Key, t.partitions), it.Type)
}

var errSilent = errors.New("RabbitMQ does not answer")

// reason returns why nothing can be sent. The caller holds the lock.
func (p *publisher) reason() error {
	if p.why != nil {
		return p.why
	}
	return errSilent
}
