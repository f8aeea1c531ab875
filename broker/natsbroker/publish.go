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

// publisher keeps the contract by itself: of one key at most one message is unanswered at any time, while
// those of other keys fly beside it. No fence of JetStream's does that for a pipeline, for a message would
// have to name the sequence of its predecessor before that has one.
type publisher struct {
	*wire
	perkey.Pump[parcel, topic]
	opts  Options
	inbox string
}

type item = perkey.Item[parcel]

// A parcel is a message as NATS takes it.
type parcel struct {
	msg   *nats.Msg
	again bool // sent a second time, after nobody listened
}

func (p *publisher) init(opts Options, w *wire) {
	p.opts, p.wire = opts, w
	p.Init("NATS", opts.Patience)
}

func (p *publisher) start() error {
	p.inbox = nats.NewInbox() + "."
	if _, err := p.nc.Subscribe(p.inbox+"*", p.answer); err != nil {
		return fmt.Errorf("listen for answers: %w", err)
	}
	p.Start(func() int { return p.opts.Flying }, p.send, func(it *item) error {
		return fmt.Errorf("publish to %q: no answer in %v: %w: %w", it.Topic, p.opts.Patience,
			broker.ErrAway, p.why())
	})
	return nil
}

func (p *publisher) connected() {
	p.Mu.Lock()
	p.Down = time.Time{}
	p.Mu.Unlock()
	p.Rouse()
}

// disconnected: of what flies nothing will be heard.
func (p *publisher) disconnected() {
	p.Mu.Lock()
	defer p.Mu.Unlock()
	if p.Down.IsZero() {
		p.Down = time.Now()
	}
	for it := range p.Lines.Flying() {
		p.Lines.Down(it, perkey.Outage, fmt.Errorf("%w: the connection was lost before the answer",
			broker.ErrAway))
	}
}

// Publish queues msgs behind what was published before.
func (b *Broker) Publish(ctx context.Context, msgs []skald.Message, only ...broker.Topics) broker.Pending {
	return b.publisher.Publish(ctx, msgs, only, func(m *skald.Message) (parcel, error) {
		msg, err := encode(b.codec, m)
		return parcel{msg: msg}, err
	})
}

// send waits for a connection, as long as the patience lasts, and sends.
func (p *publisher) send(it *item) {
	for !p.up() {
		if p.Late(it) || !p.Pause(50*time.Millisecond) {
			p.Refuse(it, perkey.Outage, fmt.Errorf("no connection to NATS: %w", p.orAway(p.why())))
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

var errSilent = errors.New("it says nothing")

func (p *publisher) why() error {
	if err := cmp.Or(p.said(), p.nc.LastError()); err != nil {
		return err
	}
	return errSilent
}
