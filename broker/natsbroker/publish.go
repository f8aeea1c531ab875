package natsbroker

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/broker"
)

const maxBytesFlying = 16 << 20

// publisher keeps the contract by itself: of one key at most one message is unanswered at any time, while those of
// other keys fly beside it. No fence of JetStream's does that for a pipeline, for a message would have to name the
// sequence of its predecessor before that has one.
type publisher struct {
	*wire
	opts  Options
	inbox string

	mu     sync.Mutex
	lines  map[lineKey]*line
	ready  []*line            // whose first message is to be sent
	flying map[string]*flight // by token
	bytes  int                // of what flies
	token  uint64
	topics map[string]topic
	down   time.Time // since when there is no connection; zero: there is one
	closed bool

	wake chan struct{}
	over chan struct{} // closed by stop
	wg   sync.WaitGroup
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
	kind   string // its type
	only   string // the id that the topic must have, if it is fenced
	fenced bool
	key    []byte
	msg    *nats.Msg
	err    error // it cannot travel
	again  bool  // sent a second time, after nobody listened
}

// flight is an item that waits for its answer.
type flight struct {
	*item
	line     *line
	size     int
	deadline time.Time
}

func (p *publisher) init(opts Options, w *wire) {
	p.opts, p.wire = opts, w
	p.lines, p.flying, p.topics = map[lineKey]*line{}, map[string]*flight{}, map[string]topic{}
	p.wake, p.over = make(chan struct{}, 1), make(chan struct{})
	p.down = time.Now()
}

func (p *publisher) start() error {
	p.inbox = nats.NewInbox() + "."
	if _, err := p.nc.Subscribe(p.inbox+"*", p.answer); err != nil {
		return fmt.Errorf("listen for answers: %w", err)
	}
	p.wg.Go(p.send)
	p.wg.Go(p.watch)
	return nil
}

// stop answers everything with an outage.
func (p *publisher) stop() {
	p.mu.Lock()
	if p.closed {
		p.mu.Unlock()
		return
	}
	p.closed = true
	close(p.over)
	p.mu.Unlock()
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

func (p *publisher) connected() {
	p.mu.Lock()
	p.down = time.Time{}
	p.mu.Unlock()
	p.rouse()
}

// disconnected: of what flies nothing will be heard.
func (p *publisher) disconnected() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.down.IsZero() {
		p.down = time.Now()
	}
	for token, f := range p.flying {
		p.land(token, f)
		p.fail(f.line, f.item, outage, fmt.Errorf("%w: the connection was lost before the answer", broker.ErrAway))
	}
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

// send is the goroutine that sends the first message of each line.
func (p *publisher) send() {
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
		if !p.await(it) {
			p.refuse(l, it, outage, fmt.Errorf("no connection to NATS: %w", p.orAway(p.why())))
			continue
		}
		p.launch(l, it)
	}
}

// next is a line whose first message may be sent now.
func (p *publisher) next() (*line, *item) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.ready) == 0 || p.closed || len(p.flying) >= p.opts.Flying || p.bytes >= maxBytesFlying {
		return nil, nil
	}
	l := p.ready[0]
	p.ready = p.ready[1:]
	return l, l.queue[0]
}

// await waits for a connection, as long as the patience of it lasts.
func (p *publisher) await(it *item) bool {
	for {
		p.mu.Lock()
		down, closed := p.down, p.closed
		p.mu.Unlock()
		switch {
		case down.IsZero():
			return true
		case closed, it.p.ctx.Err() != nil:
			return false
		}
		if it.since.After(down) {
			down = it.since
		}
		left := time.Until(down.Add(p.opts.Patience))
		if left <= 0 {
			return false
		}
		select {
		case <-time.After(min(left, 50*time.Millisecond)):
		case <-p.wake:
		case <-p.over:
			return false
		}
	}
}

func (p *publisher) launch(l *line, it *item) {
	if err := errors.Join(it.p.ctx.Err()); err != nil {
		p.refuse(l, it, outage, fmt.Errorf("publish: %w", err))
		return
	}
	if it.err != nil {
		p.refuse(l, it, refused, it.err)
		return
	}
	t, err := p.topicOf(it.topic)
	if err != nil {
		p.refuse(l, it, kindOf(err), err)
		return
	}
	if it.fenced && t.created != it.only {
		p.mu.Lock()
		defer p.mu.Unlock()
		delete(p.topics, it.topic) // another look tells who is right
		p.fail(l, it, failed, fmt.Errorf("publish to %q: %w", it.topic, broker.ErrAnew))
		return
	}
	lane := rand.IntN(t.lanes)
	if it.key != nil {
		lane = laneOf(it.key, t.lanes)
	}
	if it.msg.Subject, err = t.target(lane, it); err != nil {
		p.refuse(l, it, refused, err)
		return
	}
	it.msg.Header[jetstream.ExpectedStreamHeader] = []string{t.stream}
	p.mu.Lock()
	p.token++
	token := fmt.Sprint(p.token)
	it.msg.Reply = p.inbox + token
	f := &flight{item: it, line: l, size: it.msg.Size(), deadline: time.Now().Add(p.opts.Patience)}
	p.flying[token] = f
	p.bytes += f.size
	p.mu.Unlock()
	if err := p.nc.PublishMsg(it.msg); err != nil {
		p.mu.Lock()
		defer p.mu.Unlock()
		if p.flying[token] == f { // else it was answered by the loss of the connection
			p.land(token, f)
			p.fail(l, it, kindOf(err), fmt.Errorf("publish to %q: %w", it.topic, p.unsent(err)))
		}
	}
}

// topicOf looks a topic up, and remembers it until nobody listens on its subjects.
func (p *publisher) topicOf(name string) (topic, error) {
	p.mu.Lock()
	t, known := p.topics[name]
	p.mu.Unlock()
	if known {
		return t, nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), p.opts.Patience)
	defer cancel()
	t, err := p.look(ctx, name)
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
					p.fail(f.line, f.item, outage, fmt.Errorf("publish to %q: no answer in %v: %w: %w", f.topic, p.opts.Patience, broker.ErrAway, p.why()))
				}
			}
			p.mu.Unlock()
		}
	}
}

var errSilent = errors.New("it says nothing")

func (p *publisher) why() error {
	if err := cmp.Or(p.said(), p.nc.LastError()); err != nil {
		return err
	}
	return errSilent
}
