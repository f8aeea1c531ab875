package rabbitbroker

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/broker"
	"github.com/skald-go/skald/internal/backoff"
)

const maxBytesFlying = 16 << 20

// publisher keeps the contract by itself: of one key at most one message is unconfirmed at any time, while those of other
// keys fly beside it. RabbitMQ confirms, refuses and returns each message for itself, so that in a pipeline a
// successor would get in where its predecessor did not.
type publisher struct {
	b    *Broker
	opts Options

	mu      sync.Mutex
	wire    *wire // nil: there is no connection
	lines   map[lineKey]*line
	ready   []*line // whose first message is to be sent
	flying  map[uint64]*flight
	bytes   int // of what flies
	token   uint64
	careful int // so many messages go one by one, to learn which it was that RabbitMQ closed the channel for
	topics  map[string]topic
	most    int // how large a message may be, by an answer of mostAt
	mostAt  time.Time
	down    time.Time // since when nothing can be sent; zero: it can
	why     error
	closed  bool

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

type lineKey struct{ topic, key string }

// line is the messages of one key that are not answered yet. The first is sent, the others wait.
type line struct {
	key   lineKey
	loose bool // a message without a key: a line of its own, which nothing stands behind
	queue []*item
	held  []*pending // calls that failed, whose caller has not heard of it
}

// item is one message of one call.
type item struct {
	p      *pending
	at     int
	since  time.Time
	topic  string
	only   string // the id that the topic must have, if it is fenced
	fenced bool
	kind   string // its type
	key    []byte
	msg    amqp.Publishing
	err    error // it cannot travel
}

// flight is an item that waits for its confirmation.
type flight struct {
	*item
	line     *line
	wire     *wire
	route    string
	size     int
	returned string // why no queue took it
	deadline time.Time
}

func (p *publisher) start(b *Broker) {
	p.b, p.opts = b, b.opts
	p.lines, p.flying, p.topics = map[lineKey]*line{}, map[uint64]*flight{}, map[string]topic{}
	p.wake, p.over = make(chan struct{}, 1), make(chan struct{})
	p.down, p.why = time.Now(), errSilent
	p.wg.Go(p.send)
	p.wg.Go(p.watch)
}

// stop answers everything with an outage.
func (p *publisher) stop() {
	p.mu.Lock()
	if p.closed {
		p.mu.Unlock()
		return
	}
	p.closed = true
	w := p.wire
	close(p.over)
	p.mu.Unlock()
	if w != nil {
		_ = w.conn.CloseDeadline(time.Now().Add(time.Second))
	}
	p.wg.Wait()
	p.mu.Lock()
	defer p.mu.Unlock()
	for token, f := range p.flying {
		p.land(token, f)
		p.fail(f.line, f.item, outage, broker.ErrClosed)
	}
	for _, l := range p.ready {
		if len(l.queue) > 0 {
			p.fail(l, l.queue[0], outage, broker.ErrClosed)
		}
	}
	p.ready = nil
}

func (p *publisher) rouse() {
	select {
	case p.wake <- struct{}{}:
	default:
	}
}

// Publish queues msgs behind what was published before.
func (b *Broker) Publish(ctx context.Context, msgs []skald.Message, only ...broker.Topics) broker.Pending {
	p := &b.publisher
	call := &pending{pub: p, ctx: ctx, done: make(chan struct{}), left: len(msgs)}
	items, now := make([]*item, len(msgs)), time.Now()
	for i := range msgs {
		m := &msgs[i]
		msg, err := encode(m)
		items[i] = &item{p: call, at: i, since: now, topic: m.Topic, kind: m.Type, key: slices.Clone(m.Key), msg: msg, err: err}
		if len(only) > 0 {
			items[i].only, items[i].fenced = only[0][m.Topic], true
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := ctx.Err(); p.closed || err != nil || len(msgs) == 0 {
		if p.closed {
			err = broker.ErrClosed
		}
		call.fatal, call.left = err, 0
		call.finish()
		return call
	}
	for _, it := range items {
		p.queue(it)
	}
	p.rouse()
	return call
}

func (p *publisher) queue(it *item) {
	l := &line{loose: true}
	if it.key != nil {
		k := lineKey{it.topic, string(it.key)}
		if l = p.lines[k]; l == nil {
			l = &line{key: k}
			p.lines[k] = l
		}
	}
	if len(l.held) > 0 {
		p.settle(l, it, failed, errHeldBack)
		return
	}
	l.queue = append(l.queue, it)
	if len(l.queue) == 1 {
		p.ready = append(p.ready, l)
	}
}

// send is the goroutine that connects, on the first message, and sends the first of each line.
func (p *publisher) send() {
	fails := 0
	for {
		l, it := p.next()
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
			p.launch(w, l, it)
		case p.late(it):
			p.refuse(l, it, outage, fmt.Errorf("publish to %q: %w: %w", it.topic, broker.ErrAway, err))
		default: // the same line, first again
			p.again(l)
			fails++
			select {
			case <-time.After(min(backoff.After(fails, 20*time.Millisecond, time.Second), p.opts.Patience/4)):
			case <-p.over:
				return
			}
		}
	}
}

// next is a line whose first message may be sent now.
func (p *publisher) next() (*line, *item) {
	p.mu.Lock()
	defer p.mu.Unlock()
	most := p.opts.Flying
	if p.careful > 0 {
		most = 1
	}
	if len(p.ready) == 0 || p.closed || len(p.flying) >= most || p.bytes >= maxBytesFlying {
		return nil, nil
	}
	l := p.ready[0]
	p.ready = p.ready[1:]
	return l, l.queue[0]
}

func (p *publisher) again(l *line) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ready = slices.Insert(p.ready, 0, l)
}

// late says whether the patience for a message is over, which begins when nothing can be sent any longer.
func (p *publisher) late(it *item) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed || it.p.ctx.Err() != nil {
		return true
	}
	since := p.down
	if it.since.After(since) {
		since = it.since
	}
	return time.Since(since) > p.opts.Patience
}

// launch sends a message, and hears of it later.
func (p *publisher) launch(w *wire, l *line, it *item) {
	if err := it.p.ctx.Err(); err != nil {
		p.refuse(l, it, outage, fmt.Errorf("publish: %w", err))
		return
	}
	if it.err != nil {
		p.refuse(l, it, refused, it.err)
		return
	}
	err := p.tooLong(it)
	var t topic
	if err == nil {
		t, err = p.topicOf(w, it.topic)
	}
	if err != nil {
		p.refuse(l, it, kindOf(err), err)
		return
	}
	if it.fenced && t.id != it.only {
		p.mu.Lock()
		defer p.mu.Unlock()
		delete(p.topics, it.topic) // another look tells who is right
		p.fail(l, it, failed, fmt.Errorf("publish to %q: %w", it.topic, broker.ErrAnew))
		return
	}
	f := &flight{item: it, line: l, wire: w, route: it.route(t), size: len(it.msg.Body) + 1024, deadline: time.Now().Add(p.opts.Patience)}
	p.mu.Lock()
	p.token++
	token := p.token
	p.flying[token] = f
	p.bytes += f.size
	p.mu.Unlock()
	sent, err := w.ch.PublishWithDeferredConfirm(it.topic, f.route, !p.opts.DropUnrouted, false, it.msg)
	if err == nil {
		go func() {
			<-sent.Done()
			p.confirmed(token, f, sent.Acked())
		}()
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.flying[token] == f { // else it was answered by the loss of the channel
		p.land(token, f)
		p.fail(l, it, outage, fmt.Errorf("publish to %q: %w", it.topic, orAway(err)))
	}
}

// route is the routing key of a message.
func (it *item) route(t topic) string {
	switch {
	case t.lanes == 0:
		return it.kind[:min(len(it.kind), maxShort)]
	case it.key == nil:
		return routingKey(rand.IntN(t.lanes), it.kind)
	}
	return routingKey(laneOf(it.key, t.lanes), it.kind)
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
			for token, f := range p.flying {
				if now.After(f.deadline) {
					p.land(token, f)
					p.fail(f.line, f.item, outage, fmt.Errorf("publish to %q: %w: no confirmation in %v: %w", f.topic, broker.ErrAway, p.opts.Patience, p.reason()))
				}
			}
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
