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

// publisher implements the contract of Publish. At most one message of a key is unconfirmed at a time;
// messages of other keys are sent in parallel. RabbitMQ confirms, rejects and returns each message
// separately. If several messages of a key were in flight, a later message could succeed after its
// predecessor failed.
type publisher struct {
	perkey.Pump[parcel, topic]
	b    *Broker
	opts Options

	// The fields below are guarded by Mu.
	wire *wire // nil without a connection
	// oneByOne is the number of messages that are sent one by one. It is above 0 after RabbitMQ closed the
	// channel, until the message that caused this is found
	oneByOne int
	most     int // the maximum message size, learned from an error at mostAt
	mostAt   time.Time
	denied   map[string]denial // by topic: the right to write is missing
	why      error             // the reason why no message can be sent, or nil

	fails int // failed attempts in a row; used only by the sender
}

// wire is a channel in confirm mode, with its connection.
type wire struct {
	conn    *amqp.Connection
	cut     func()
	ch      *amqp.Channel
	closed  chan *amqp.Error
	blocked chan amqp.Blocking
	returns chan amqp.Return // each return arrives before the confirmation of its message
}

// deniedFor is the time for which the publisher refuses messages to a topic after RabbitMQ closed the channel
// because the right to write is missing. Without it, each such message would close the channel, and interrupt
// all topics.
const deniedFor = 5 * time.Second

// denial records that the right to write to a topic is missing.
type denial struct {
	why   error
	until time.Time
}

type item = perkey.Item[parcel]

// parcel is an encoded message with its routing key.
type parcel struct {
	msg      amqp.Publishing
	wire     *wire
	route    string
	returned string // the reason why RabbitMQ returned it, or ""
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

// flying returns the maximum number of unconfirmed messages. The caller holds Mu.
func (p *publisher) flying() int {
	if p.oneByOne > 0 {
		return 1
	}
	return p.opts.Flying
}

// stop answers all messages with an outage, and closes the connection.
func (p *publisher) stop() {
	p.Stop(func() {
		p.Mu.Lock()
		w := p.wire // after Stop no other wire is opened
		p.Mu.Unlock()
		if w != nil {
			_ = w.conn.CloseDeadline(time.Now().Add(time.Second))
		}
	})
}

// Publish queues msgs behind the messages of earlier calls.
func (b *Broker) Publish(ctx context.Context, msgs []skald.Message, only ...broker.Topics) broker.Pending {
	return b.publisher.Publish(ctx, msgs, only, func(m *skald.Message) (parcel, error) {
		msg, err := encode(b.codec, m)
		return parcel{msg: msg}, err
	})
}

// send sends one message. It connects if there is no connection. If sending fails before Patience is over,
// the message returns to the front of its queue.
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
	default:
		p.Mu.Lock()
		p.Lines.First(it)
		p.Mu.Unlock()
		p.fails++
		p.Sleep(min(backoff.After(p.fails, 20*time.Millisecond, time.Second), p.opts.Patience/4))
	}
}

// launch sends a message; its confirmation arrives later. It returns an error if the message must be sent
// again. This happens if RabbitMQ has closed the channel because of another message, and lost has not handled
// this yet.
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

// route returns the routing key of a message. A message without a key gets a random partition.
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

// reason returns the reason why no message can be sent. The caller holds Mu.
func (p *publisher) reason() error {
	if p.why != nil {
		return p.why
	}
	return errSilent
}
