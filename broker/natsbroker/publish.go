package natsbroker

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/broker"
	"github.com/skald-go/skald/broker/internal/feed"
	"github.com/skald-go/skald/broker/internal/perkey"
)

// publisher implements the contract of Publish. At most one message of a key is unanswered at a time;
// messages of other keys are sent in parallel. JetStream cannot keep the order of several unanswered messages
// of a key: each would need the sequence number of its predecessor, which is not known yet.
type publisher struct {
	*wire
	perkey.Pump[parcel, topic]
	opts  Options
	inbox string
}

type item = perkey.Item[parcel]

// parcel is an encoded message.
type parcel struct {
	msg   *nats.Msg
	again bool // sent a second time, because there was no responder
}

func (p *publisher) init(opts Options, w *wire) {
	p.opts, p.wire = opts, w
	p.Init("NATS", opts.Patience)
}

func (p *publisher) start() error {
	p.inbox = nats.NewInbox() + "."
	if _, err := p.nc.Subscribe(p.inbox+"*", p.handleAnswer); err != nil {
		return fmt.Errorf("listen for answers: %w", err)
	}
	p.Start(func() int { return p.opts.Flying }, p.send, func(it *item) error {
		return fmt.Errorf("publish to %q: no answer in %v: %w: %w", it.Topic, p.opts.Patience,
			broker.ErrUnavailable, p.why())
	}, p.answers)
	return nil
}

func (p *publisher) connected() {
	p.Mu.Lock()
	p.Down = time.Time{}
	p.Mu.Unlock()
	p.Rouse()
}

// disconnected fails the unanswered messages, because their answers are lost.
func (p *publisher) disconnected() {
	p.Mu.Lock()
	defer p.Mu.Unlock()
	if p.Down.IsZero() {
		p.Down = time.Now()
	}
	for it := range p.Lines.Flying() {
		p.Lines.Down(it, perkey.Outage, fmt.Errorf("%w: the connection was lost before the answer",
			broker.ErrUnavailable))
	}
}

// Publish queues msgs behind the messages of earlier calls.
func (b *Broker) Publish(ctx context.Context, msgs []skald.Message, only ...broker.Topics) broker.Pending {
	return b.publisher.Publish(ctx, msgs, only, func(m *skald.Message) (parcel, error) {
		msg, err := encode(b.codec, m)
		return parcel{msg: msg}, err
	})
}

// send waits for a connection, at most for Patience, and sends the message.
func (p *publisher) send(it *item) {
	for !p.up() {
		if p.Overdue(it) || !p.Pause(50*time.Millisecond) {
			p.Refuse(it, perkey.Outage, fmt.Errorf("no connection to NATS: %w", p.orUnavailable(p.why())))
			return
		}
	}
	if t, ok := p.Aim(it, p.look, kindOf, func(t *topic) string { return t.created }); ok {
		p.launch(it, t)
	}
}

func (p *publisher) up() bool {
	p.Mu.Lock()
	defer p.Mu.Unlock()
	return p.Down.IsZero()
}

func (p *publisher) launch(it *item, t topic) {
	partition := rand.IntN(t.partitions)
	if it.Key != nil {
		partition = feed.PartitionOf(it.Key, t.partitions)
	}
	msg, err := it.Out.msg, error(nil)
	if msg.Subject, err = t.target(partition, it.Type, it.Key); err != nil {
		p.Refuse(it, perkey.Refused, err)
		return
	}
	msg.Header[jetstream.ExpectedStreamHeader] = []string{t.stream}
	p.Mu.Lock()
	msg.Reply = p.inbox + strconv.FormatUint(p.Lines.Launch(it, msg.Size(), time.Now().Add(p.opts.Patience)),
		10)
	p.Mu.Unlock()
	if err := p.nc.PublishMsg(msg); err != nil {
		p.Mu.Lock()
		defer p.Mu.Unlock()
		p.Lines.Down(it, kindOf(err), fmt.Errorf("publish to %q: %w", it.Topic, p.unsent(err)))
	}
}

var errSilent = errors.New("NATS does not answer")

func (p *publisher) why() error {
	if err := cmp.Or(p.said(), p.nc.LastError()); err != nil {
		return err
	}
	return errSilent
}
