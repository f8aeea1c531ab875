package rabbitbroker

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/skald-go/skald/broker"
	"github.com/skald-go/skald/internal/backoff"
)

// lane is a queue that this member is registered for, from one registration to one loss.
type lane struct {
	name  string
	topic string // empty: that of the exchange by which a message came
	index int
	base  int64 // positions are above it
	ch    *amqp.Channel
	in    <-chan amqp.Delivery

	// under the subscription's lock
	buffer []broker.Delivery // never more than Prefetch: RabbitMQ waits for acknowledgements
	paused bool
	told   int64 // the last position that was delivered
	acked  int64
}

// run keeps the member in its group until it leaves or is killed.
func (s *Subscription) run(l *link) {
	defer close(s.done)
	defer s.kill()
	for fails := 0; ; {
		if l != nil {
			fails = 0
			if s.live(l) {
				return
			}
			for _, o := range s.lanes() {
				s.lose(o, false)
			}
			clear(s.peers)
		}
		fails++
		select {
		case <-time.After(backoff.After(fails, 50*time.Millisecond, time.Second)):
		case <-s.ctx.Done():
			s.die(broker.ErrClosed)
			return
		case <-s.leave:
			s.mu.Lock()
			s.left = fmt.Errorf("leave group %q: %w: what was acknowledged last may come again", s.group.name, broker.ErrAway)
			s.mu.Unlock()
			s.die(broker.ErrClosed)
			return
		}
		var err error
		if l, err = s.join(s.ctx); err != nil {
			l = nil
			s.tellFault(err)
		}
	}
}

// live is the time of one connection; it reports whether the member's own time is over with it.
func (s *Subscription) live(l *link) (over bool) {
	defer l.cut()
	period := min(100*time.Millisecond, s.b.opts.Heartbeat)
	tick := time.NewTicker(period)
	defer tick.Stop()
	s.joined = time.Now()
	if l.shared == "" {
		s.greet(l, false)
	}
	s.balance(l)
	for {
		select {
		case <-s.ctx.Done():
			s.die(broker.ErrClosed)
			return true
		case ctx := <-s.leave:
			s.goodbye(ctx, l)
			return true
		case <-l.closed:
			return false
		case o := <-s.ended:
			s.lose(o, false)
			if l.conn.IsClosed() {
				return false
			}
			continue // at the next tick
		case d, ok := <-l.hellos:
			if !ok {
				if err := <-l.refused; err != nil { // a right that is missing, or the end of the connection
					s.tellFault(fmt.Errorf("tell the group's other members that this one lives: %w", orAway(err)))
				}
				return false
			}
			if s.hear(l, d) {
				s.die(fmt.Errorf("member %q of group %q: %w: %w", s.member, s.group.name, errFenced, broker.ErrClosed))
				return true
			}
		case r := <-l.returns:
			s.returned(r)
		case <-tick.C:
			if l.shared == "" {
				s.beat(l)
			}
		}
		if err := s.balance(l); err != nil {
			s.tellFault(err)
			return false
		}
	}
}

// balance releases what belongs to others, and registers for what belongs to this member.
func (s *Subscription) balance(l *link) error {
	defer time.AfterFunc(silence, l.cut).Stop()
	have := map[string]bool{}
	if l.shared != "" {
		if len(s.lanes()) > 0 {
			return nil
		}
		o := &lane{name: l.shared}
		if err := s.register(l, o, l.shared); err != nil {
			return err
		}
		s.gain([]*lane{o})
		return nil
	}
	if time.Since(s.joined) < min(listen, s.b.opts.Heartbeat) {
		return nil
	}
	want := map[string]map[int]bool{}
	for _, t := range l.topics {
		want[t.name] = s.mine(t)
	}
	var freed []*lane
	for _, o := range s.lanes() {
		if want[o.topic][o.index] {
			have[o.name] = true
			continue
		}
		s.lose(o, true)
		freed = append(freed, o)
	}
	release(freed)
	var fresh []*lane
	defer func() { s.gain(fresh) }()
	for _, t := range l.topics {
		for i := range t.lanes {
			name := laneName(t.name, i)
			if !want[t.name][i] || have[name] {
				continue
			}
			o := &lane{name: name, topic: t.name, index: i}
			if err := s.register(l, o, Queue(s.group.name, t.name, i)); err != nil {
				return err
			}
			fresh = append(fresh, o)
		}
	}
	return nil
}

// release hands queues back: closing the channel returns what is not acknowledged, in order, in front of what came later;
// cancelling the consumer would let the next one start behind it.
func release(lanes []*lane) {
	var wg sync.WaitGroup
	for _, o := range lanes {
		wg.Go(func() { _ = o.ch.Close() }) // where that fails, so does the connection
	}
	wg.Wait()
}

// register asks for a queue. Messages come once nobody who registered before is left.
func (s *Subscription) register(l *link, o *lane, queue string) error {
	ch, err := l.conn.Channel()
	if err == nil {
		o.ch = ch
		err = ch.Qos(s.b.opts.Prefetch, 0, false)
	}
	if err == nil {
		o.in, err = ch.Consume(queue, "", false, false, false, false, nil)
	}
	if notFound(err) {
		return fmt.Errorf("read queue %q: %w: it was deleted, with what was in it: %w", queue, errMissing, err)
	}
	if err != nil {
		return fmt.Errorf("read queue %q: %w", queue, orAway(err))
	}
	o.base = time.Now().UnixMicro()
	o.told, o.acked = o.base, o.base
	return nil
}

// gain takes lanes into what is owned, and reads them. They are told of together.
func (s *Subscription) gain(lanes []*lane) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, o := range lanes {
		s.owned = append(s.owned, o)
		s.changed(o.name).gained = true
		go s.read(o)
		s.wake()
	}
}

// read takes in what RabbitMQ delivers, until it or this member closes the channel.
func (s *Subscription) read(o *lane) {
	for d := range o.in {
		topic := o.topic
		if topic == "" {
			topic = s.topicOf(d.Exchange)
		}
		msg, fault := decode(topic, &d)
		attempt := attempts(d.Headers)
		if d.Redelivered {
			attempt = max(attempt, 1)
		}
		s.mu.Lock()
		o.buffer = append(o.buffer, broker.Delivery{Message: msg, Lane: o.name, Position: o.base + int64(d.DeliveryTag), Attempt: attempt, Fault: fault})
		s.mu.Unlock()
		s.wake()
	}
	_ = o.ch.Close() // where RabbitMQ has only cancelled: the queue was deleted
	select {
	case s.ended <- o:
	case <-s.ctx.Done():
	}
}

// topicOf is what a message of a shared queue belongs to.
func (s *Subscription) topicOf(exchange string) string {
	for _, t := range s.topicNames {
		if t == exchange {
			return t
		}
	}
	return s.topicNames[0]
}

func (l *lane) take(out []broker.Delivery, max int) []broker.Delivery {
	n := min(max-len(out), len(l.buffer))
	if n <= 0 {
		return out
	}
	out = append(out, l.buffer[:n]...)
	l.told = l.buffer[n-1].Position
	clear(l.buffer[:n])
	if l.buffer = l.buffer[n:]; len(l.buffer) == 0 {
		l.buffer = nil
	}
	return out
}

// goodbye hands all lanes over and leaves the group. RabbitMQ answers the end of a channel behind its acknowledgements.
func (s *Subscription) goodbye(ctx context.Context, l *link) {
	all := s.lanes()
	s.die(broker.ErrClosed)
	finished := make(chan error, 1)
	go func() {
		release(all)
		if l.shared == "" {
			s.greet(l, true)
		}
		finished <- l.conn.Close()
	}()
	var err error
	select {
	case err = <-finished:
	case <-ctx.Done():
		err = ctx.Err()
	}
	if err != nil && !errors.Is(err, amqp.ErrClosed) {
		s.mu.Lock()
		s.left = fmt.Errorf("leave group %q: %w", s.group.name, orAway(err))
		s.mu.Unlock()
	}
}
