package rabbitbroker

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/broker"
	"github.com/skald-go/skald/internal/backoff"
	"github.com/skald-go/skald/internal/perkey"
)

// publisher keeps the contract by itself: of one key at most one message is unconfirmed at any time, while those of other
// keys fly beside it. RabbitMQ confirms, refuses and returns each message for itself, so that in a pipeline a
// successor would get in where its predecessor did not.
type publisher struct {
	b    *Broker
	opts Options

	mu      sync.Mutex
	wire    *wire // nil: there is no connection
	lines   *perkey.Lines[parcel]
	careful int // so many messages go one by one, to learn which it was that RabbitMQ closed the channel for
	topics  map[string]topic
	most    int // how large a message may be, by an answer of mostAt
	mostAt  time.Time
	down    time.Time // since when nothing can be sent; zero: it can
	why     error

	wake chan struct{}
	over chan struct{} // closed by stop
	wg   sync.WaitGroup
}

// wire is one channel in confirm mode.
type wire struct {
	conn    *amqp.Connection
	cut     func()
	ch      *amqp.Channel
	closed  chan *amqp.Error
	blocked chan amqp.Blocking
	returns chan amqp.Return // each has come before the confirmation of its message does
}

type item = perkey.Item[parcel]

// A parcel is a message as RabbitMQ takes it, and where it was sent.
type parcel struct {
	msg      amqp.Publishing
	wire     *wire
	route    string
	returned string // why no queue took it
}

func (p *publisher) start(b *Broker) {
	p.b, p.opts = b, b.opts
	p.lines, p.topics = perkey.New[parcel]("RabbitMQ", &p.mu, p.rouse), map[string]topic{}
	p.wake, p.over = make(chan struct{}, 1), make(chan struct{})
	p.down, p.why = time.Now(), errSilent
	p.wg.Go(p.send)
	p.wg.Go(p.watch)
}

// stop answers everything with an outage.
func (p *publisher) stop() {
	p.mu.Lock()
	first, w := p.lines.Shut(), p.wire
	p.mu.Unlock()
	if !first {
		return
	}
	close(p.over)
	if w != nil {
		_ = w.conn.CloseDeadline(time.Now().Add(time.Second))
	}
	p.wg.Wait()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.lines.End()
}

func (p *publisher) rouse() {
	select {
	case p.wake <- struct{}{}:
	default:
	}
}

// Publish queues msgs behind what was published before.
func (b *Broker) Publish(ctx context.Context, msgs []skald.Message, only ...broker.Topics) broker.Pending {
	return b.publisher.lines.Publish(ctx, msgs, only, func(m *skald.Message) (parcel, error) {
		msg, err := encode(m)
		return parcel{msg: msg}, err
	})
}

// send is the goroutine that connects, on the first message, and sends the first of each line.
func (p *publisher) send() {
	fails := 0
	for {
		it := p.next()
		if it == nil {
			select {
			case <-p.wake:
			case <-p.over:
				return
			}
			continue
		}
		w, err := p.connected()
		switch {
		case err == nil:
			fails = 0
			p.launch(w, it)
		case p.late(it):
			p.refuse(it, perkey.Outage, fmt.Errorf("publish to %q: %w: %w", it.Topic, broker.ErrAway, err))
		default: // the same line, first again
			p.again(it)
			fails++
			select {
			case <-time.After(min(backoff.After(fails, 20*time.Millisecond, time.Second), p.opts.Patience/4)):
			case <-p.over:
				return
			}
		}
	}
}

// next is a message that may be sent now.
func (p *publisher) next() *item {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.careful > 0 {
		return p.lines.Next(1)
	}
	return p.lines.Next(p.opts.Flying)
}

func (p *publisher) again(it *item) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.lines.First(it)
}

// late says whether the patience for a message is over, which begins when nothing can be sent any longer.
func (p *publisher) late(it *item) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.lines.Closed() || it.Context().Err() != nil {
		return true
	}
	since := p.down
	if it.Since.After(since) {
		since = it.Since
	}
	return time.Since(since) > p.opts.Patience
}

// launch sends a message, and hears of it later.
func (p *publisher) launch(w *wire, it *item) {
	if err := it.Context().Err(); err != nil {
		p.refuse(it, perkey.Outage, fmt.Errorf("publish: %w", err))
		return
	}
	if it.Err != nil {
		p.refuse(it, perkey.Refused, it.Err)
		return
	}
	err := p.tooLong(it)
	var t topic
	if err == nil {
		t, err = p.topicOf(w, it.Topic)
	}
	if err != nil {
		p.refuse(it, kindOf(err), err)
		return
	}
	if it.Fenced && t.id != it.Only {
		p.mu.Lock()
		defer p.mu.Unlock()
		delete(p.topics, it.Topic) // another look tells who is right
		p.lines.Fail(it, perkey.Failed, fmt.Errorf("publish to %q: %w", it.Topic, broker.ErrAnew))
		return
	}
	p.mu.Lock()
	it.Out.wire, it.Out.route = w, route(it, t)
	token := p.lines.Launch(it, len(it.Out.msg.Body)+1024, time.Now().Add(p.opts.Patience))
	p.mu.Unlock()
	sent, err := w.ch.PublishWithDeferredConfirm(it.Topic, it.Out.route, !p.opts.DropUnrouted, false, it.Out.msg)
	if err == nil {
		go func() {
			<-sent.Done()
			p.confirmed(token, w, sent.Acked())
		}()
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.lines.Down(it, perkey.Outage, fmt.Errorf("publish to %q: %w", it.Topic, orAway(err)))
}

// route is the routing key of a message.
func route(it *item, t topic) string {
	switch {
	case t.lanes == 0:
		return it.Type[:min(len(it.Type), maxShort)]
	case it.Key == nil:
		return routingKey(rand.IntN(t.lanes), it.Type)
	}
	return routingKey(laneOf(it.Key, t.lanes), it.Type)
}

// topicOf looks a topic up, and remembers it until RabbitMQ closes the channel.
func (p *publisher) topicOf(w *wire, name string) (topic, error) {
	p.mu.Lock()
	t, known := p.topics[name]
	p.mu.Unlock()
	if known {
		return t, nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), p.opts.Patience)
	defer cancel()
	t, err := p.b.look(ctx, w.conn, name)
	if err != nil {
		return t, fmt.Errorf("publish: %w", err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.topics[name] = t
	return t, nil
}

// watch ends the wait for answers that do not come.
func (p *publisher) watch() {
	tick := time.NewTicker(min(p.opts.Patience/4, 100*time.Millisecond))
	defer tick.Stop()
	for {
		select {
		case <-p.over:
			return
		case now := <-tick.C:
			p.mu.Lock()
			p.lines.Overdue(now, func(it *item) error {
				return fmt.Errorf("publish to %q: %w: no confirmation in %v: %w", it.Topic, broker.ErrAway, p.opts.Patience, p.reason())
			})
			p.mu.Unlock()
		}
	}
}

var errSilent = errors.New("it says nothing")

// reason is why nothing can be sent, as far as RabbitMQ said; the lock is held.
func (p *publisher) reason() error {
	if p.why != nil {
		return p.why
	}
	return errSilent
}
