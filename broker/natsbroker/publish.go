package natsbroker

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/broker"
	"github.com/skald-go/skald/internal/perkey"
)

// publisher keeps the contract by itself: of one key at most one message is unanswered at any time, while those of
// other keys fly beside it. No fence of JetStream's does that for a pipeline, for a message would have to name the
// sequence of its predecessor before that has one.
type publisher struct {
	*wire
	opts  Options
	inbox string

	mu     sync.Mutex
	lines  *perkey.Lines[parcel]
	topics map[string]topic
	down   time.Time // since when there is no connection; zero: there is one

	wake chan struct{}
	over chan struct{} // closed by stop
	wg   sync.WaitGroup
}

type item = perkey.Item[parcel]

// A parcel is a message as NATS takes it.
type parcel struct {
	msg   *nats.Msg
	again bool // sent a second time, after nobody listened
}

func (p *publisher) init(opts Options, w *wire) {
	p.opts, p.wire = opts, w
	p.lines, p.topics = perkey.New[parcel]("NATS", &p.mu, p.rouse), map[string]topic{}
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
	first := p.lines.Shut()
	p.mu.Unlock()
	if !first {
		return
	}
	close(p.over)
	p.wg.Wait()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.lines.End()
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
	for it := range p.lines.Flying() {
		p.lines.Down(it, perkey.Outage, fmt.Errorf("%w: the connection was lost before the answer", broker.ErrAway))
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
	return b.publisher.lines.Publish(ctx, msgs, only, func(m *skald.Message) (parcel, error) {
		msg, err := encode(m)
		return parcel{msg: msg}, err
	})
}

// send is the goroutine that sends the first message of each line.
func (p *publisher) send() {
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
		if !p.await(it) {
			p.refuse(it, perkey.Outage, fmt.Errorf("no connection to NATS: %w", p.orAway(p.why())))
			continue
		}
		p.launch(it)
	}
}

// next is a message that may be sent now.
func (p *publisher) next() *item {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.lines.Next(p.opts.Flying)
}

// await waits for a connection, as long as the patience of it lasts.
func (p *publisher) await(it *item) bool {
	for {
		p.mu.Lock()
		down, closed := p.down, p.lines.Closed()
		p.mu.Unlock()
		switch {
		case down.IsZero():
			return true
		case closed, it.Context().Err() != nil:
			return false
		}
		if it.Since.After(down) {
			down = it.Since
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

func (p *publisher) launch(it *item) {
	if err := it.Context().Err(); err != nil {
		p.refuse(it, perkey.Outage, fmt.Errorf("publish: %w", err))
		return
	}
	if it.Err != nil {
		p.refuse(it, perkey.Refused, it.Err)
		return
	}
	t, err := p.topicOf(it.Topic)
	if err != nil {
		p.refuse(it, kindOf(err), err)
		return
	}
	if it.Fenced && t.created != it.Only {
		p.mu.Lock()
		defer p.mu.Unlock()
		delete(p.topics, it.Topic) // another look tells who is right
		p.lines.Fail(it, perkey.Failed, fmt.Errorf("publish to %q: %w", it.Topic, broker.ErrAnew))
		return
	}
	lane := rand.IntN(t.lanes)
	if it.Key != nil {
		lane = laneOf(it.Key, t.lanes)
	}
	msg := it.Out.msg
	if msg.Subject, err = t.target(lane, it); err != nil {
		p.refuse(it, perkey.Refused, err)
		return
	}
	msg.Header[jetstream.ExpectedStreamHeader] = []string{t.stream}
	p.mu.Lock()
	msg.Reply = p.inbox + strconv.FormatUint(p.lines.Launch(it, msg.Size(), time.Now().Add(p.opts.Patience)), 10)
	p.mu.Unlock()
	if err := p.nc.PublishMsg(msg); err != nil {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.lines.Down(it, kindOf(err), fmt.Errorf("publish to %q: %w", it.Topic, p.unsent(err)))
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
			p.lines.Overdue(now, func(it *item) error {
				return fmt.Errorf("publish to %q: no answer in %v: %w: %w", it.Topic, p.opts.Patience, broker.ErrAway, p.why())
			})
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
