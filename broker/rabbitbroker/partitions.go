// This file keeps a member in its group, and registers it for its partitions.

package rabbitbroker

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/broker"
	"github.com/skald-go/skald/broker/internal/cloudevents"
	"github.com/skald-go/skald/broker/internal/feed"
	"github.com/skald-go/skald/internal/backoff"
	"github.com/skald-go/skald/internal/column"
)

// partition is a queue that this member consumes.
type partition struct {
	feed.Holding
	feed.Buffer // at most Prefetch messages, because RabbitMQ then waits for acknowledgements
	flight
	gate *gate // of the connection

	sends   sync.Mutex
	closing bool // after this, sending on ch would make RabbitMQ close the connection

	base int64 // added to the delivery tag to get the position
	ch   *amqp.Channel
	in   <-chan amqp.Delivery
	shut chan *amqp.Error // receives the reason if RabbitMQ closes ch
}

// run joins the group again after each lost connection, until the member leaves or its context ends.
func (s *Subscription) run(l *link) {
	defer close(s.done)
	defer s.kill()
	for fails := 0; ; {
		if l != nil {
			fails = 0
			if s.live(l) {
				return
			}
			for _, o := range s.feed.Owned() {
				s.lose(o, false)
			}
			clear(s.peers)
		}
		fails++
		select {
		case <-time.After(backoff.Soon(fails)):
		case <-s.ctx.Done():
			s.die(broker.ErrClosed)
			return
		case <-s.leave:
			s.mu.Lock()
			s.left = fmt.Errorf("leave group %q: %w: the last acknowledged messages may be redelivered", s.group.name,
				broker.ErrUnavailable)
			s.mu.Unlock()
			s.die(broker.ErrClosed)
			return
		}
		var err error
		if l, err = s.join(s.ctx); err != nil {
			l = nil
			s.reportFault(err)
		}
	}
}

// live handles the events of one connection. It returns true if the member has ended.
func (s *Subscription) live(l *link) (over bool) {
	defer l.cut()
	spoken := cmp.Or(l.helloLink, &helloLink{})
	defer s.closeHellos(l)
	period := min(100*time.Millisecond, s.b.opts.Heartbeat)
	tick := time.NewTicker(period)
	defer tick.Stop()
	s.joined, s.ownerClaim.Settled = time.Now(), false
	if l.shared == "" {
		s.sendHello(l, false)
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
			if !s.reopened(o) {
				s.reportShut(o)
				continue // the next tick registers again
			}
		case d, ok := <-l.hellos:
			if !ok {
				return s.hellosClosed(<-l.refused)
			}
			if s.handleHello(l, d) {
				s.die(fmt.Errorf("member %q of group %q: %w: %w", s.member, s.group.name, errFenced,
					broker.ErrClosed))
				return true
			}
		case err := <-spoken.refused:
			return s.hellosClosed(err)
		case b := <-spoken.blocked:
			s.block(l, b)
		case r := <-spoken.returns:
			s.returned(r)
		case <-tick.C:
			if l.shared == "" {
				s.beat(l)
			}
			s.widen(time.Now())
		}
		if err := s.balance(l); err != nil {
			s.reportFault(err)
			return false
		}
	}
}

// hellosClosed reports that RabbitMQ closed a channel for hellos. The reason is a missing right, or the end
// of the connection. It returns false, so that run joins again.
func (s *Subscription) hellosClosed(err *amqp.Error) (over bool) {
	if err != nil {
		s.reportFault(fmt.Errorf("send a hello to the group: %w", orUnavailable(err)))
	}
	return false
}

// balance releases partitions that other members must own, and registers this member for its own partitions.
func (s *Subscription) balance(l *link) error {
	defer time.AfterFunc(silence, l.cut).Stop()
	have := map[string]bool{}
	if l.shared != "" {
		if len(s.feed.Owned()) > 0 {
			return nil
		}
		o := &partition{Holding: feed.Holding{Partition: broker.Partition{Name: l.shared, Shared: true}}}
		if err := s.register(l, o, l.shared); err != nil {
			return err
		}
		s.gain([]*partition{o})
		return nil
	}
	if time.Since(s.joined) < min(listen, s.b.opts.Heartbeat) {
		return nil
	}
	want := map[string]map[int]bool{}
	if s.mayTake(l) {
		for _, t := range l.topics {
			want[t.name] = s.ownPartitions(t)
		}
	}
	var freed []*partition
	for _, o := range s.feed.Owned() {
		if want[o.Topic][o.Index] {
			have[o.Name] = true
			continue
		}
		s.lose(o, true)
		freed = append(freed, o)
	}
	release(freed)
	var fresh []*partition
	defer func() { s.gain(fresh) }()
	for _, t := range l.topics {
		for i := range t.partitions {
			name := feed.Partition(t.name, i)
			if !want[t.name][i] || have[name] || time.Now().Before(s.refused[name].until) {
				continue
			}
			o := &partition{Holding: feed.Holding{Partition: broker.Partition{Name: name},
				Topic: t.name, Index: i}}
			err := s.register(l, o, Queue(s.group.name, t.name, i))
			if code(err) == amqp.AccessRefused && !l.conn.IsClosed() {
				s.refuse(name, err)
				continue
			}
			if err != nil {
				return err
			}
			delete(s.refused, name)
			fresh = append(fresh, o)
		}
	}
	return nil
}

// refuse handles a partition that RabbitMQ refuses. The next attempt follows after 1 s, and later after up to
// 1 min. The other partitions continue.
func (s *Subscription) refuse(partition string, err error) {
	r := s.refused[partition]
	r.times++
	r.until = time.Now().Add(backoff.After(r.times, time.Second, time.Minute))
	s.refused[partition] = r
	s.reportFault(fmt.Errorf("partition %s: %w", partition, err))
}

// release closes the channels of partitions. RabbitMQ then puts unacknowledged messages back in order, before
// later messages. If the member only cancelled the consumer, the next consumer would start after the
// unacknowledged messages.
func release(partitions []*partition) {
	var wg sync.WaitGroup
	for _, o := range partitions {
		wg.Go(o.close)
	}
	wg.Wait()
}

// close closes the channel of o. Nothing is sent on it any more.
func (o *partition) close() {
	o.sends.Lock()
	o.closing = true
	o.sends.Unlock()
	_ = o.ch.Close()
}

// ack acknowledges all messages up to a delivery tag. It ignores an error, because the partition is then
// lost, and RabbitMQ delivers the messages again.
func (o *partition) ack(tag uint64) {
	o.sends.Lock()
	defer o.sends.Unlock()
	if !o.closing {
		_ = o.ch.Ack(tag, true)
	}
}

// register starts a consumer of a queue. RabbitMQ delivers messages to it when all earlier consumers are
// gone.
func (s *Subscription) register(l *link, o *partition, queue string) error {
	ch, err := l.conn.Channel()
	if err == nil {
		o.gate = l.gate
		o.ch, o.shut = ch, ch.NotifyClose(make(chan *amqp.Error, 1))
		o.prefetch = cmp.Or(s.prefetch[o.Name], s.b.opts.Prefetch)
		o.prefetch, o.since = min(o.prefetch, cmp.Or(s.windows[o.Name], o.prefetch)), time.Now()
		err = ch.Qos(o.prefetch, 0, false)
	}
	if err == nil {
		o.in, err = ch.Consume(queue, "", false, false, false, false, nil)
	}
	if notFound(err) {
		return fmt.Errorf("read queue %q: %w: it was deleted, with its messages: %w", queue,
			errMissing, err)
	}
	if err != nil {
		return fmt.Errorf("read queue %q: %w", queue, orUnavailable(err))
	}
	o.base = time.Now().UnixMicro()
	o.Told, o.Acked = o.base, o.base
	return nil
}

// reportShut reports the reason why RabbitMQ closed the channel of a partition. After a consumer_timeout it
// halves the prefetch, so that each message waits half as long for its acknowledgement.
func (s *Subscription) reportShut(o *partition) {
	err := <-o.shut
	if err == nil || !err.Server || err.Code == amqp.ConnectionForced {
		return // the connection has ended, and live handles that
	}
	more := ""
	if err.Code == amqp.PreconditionFailed && strings.Contains(err.Reason, "timed out") {
		n := max(1, cmp.Or(s.prefetch[o.Name], s.b.opts.Prefetch)/2)
		s.prefetch[o.Name] = n
		more = fmt.Sprintf(": consumer_timeout: from now on at most %d messages of it are in progress: "+
			"raise consumer_timeout at RabbitMQ, or make handlers faster", n)
	}
	s.feed.Fail(fmt.Errorf("partition %s: RabbitMQ closed the channel, and redelivers unacknowledged messages%s: %w",
		o.Name, more, err))
}

// gain adds partitions to the owned ones, and starts to read them. Receive reports them together.
func (s *Subscription) gain(partitions []*partition) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.feed.Gain(partitions...)
	for _, o := range partitions {
		go s.read(o)
	}
}

// read receives the deliveries of a partition until its channel is closed.
func (s *Subscription) read(o *partition) {
	for d := range o.in {
		o.gate.take(len(d.Body))
		if s.reopens(o) {
			continue // RabbitMQ delivers it again
		}
		topic := o.Topic // empty for a shared queue
		if topic == "" {
			topic = s.topicOf(d.Exchange)
		}
		msg, fault := decode(s.b.codec, topic, &d)
		if fault == nil {
			s.routed(&msg, o.Topic != "", d.RoutingKey)
		}
		attempt := attempts(d.Headers)
		if d.Redelivered {
			attempt = max(attempt, 1)
		}
		s.mu.Lock()
		if s.deliver(o, column.Weight(&msg)) {
			o.Put(broker.Delivery{Message: msg, Partition: o.Name, Position: o.base + int64(d.DeliveryTag),
				Attempt: attempt, Fault: fault})
		}
		s.mu.Unlock()
		s.feed.Wake()
	}
	o.close() // if the queue was deleted, RabbitMQ cancels the consumer and keeps the channel open
	select {
	case s.ended <- o:
	case <-s.ctx.Done():
	}
}

// routed sets the missing type of a message from its routing key: PARTITION.TYPE or, with ByType, TYPE. In a
// shared queue it adds broker.RouteHeader if the routing key differs from the type.
func (s *Subscription) routed(m *skald.Message, partitioned bool, key string) {
	if partitioned {
		_, typ, _ := strings.Cut(key, ".")
		cloudevents.TypeFromRoute(m, typ)
		return
	}
	if s.b.opts.ByType {
		cloudevents.TypeFromRoute(m, key)
	}
	if key == m.Type {
		key = ""
	}
	cloudevents.NoteRoute(m, key)
}

// topicOf returns the topic of a message in a shared queue. It returns the first topic if the exchange is
// none of the topics.
func (s *Subscription) topicOf(exchange string) string {
	for _, t := range s.topicNames {
		if t == exchange {
			return t
		}
	}
	return s.topicNames[0]
}

// goodbye releases all partitions and leaves the group. When ctx ends, it stops waiting. RabbitMQ confirms
// the end of a channel after it has processed the acknowledgements.
func (s *Subscription) goodbye(ctx context.Context, l *link) {
	all := s.feed.Owned()
	s.die(broker.ErrClosed)
	finished := make(chan error, 1)
	go func() {
		release(all)
		if l.shared == "" {
			s.sendHello(l, true)
			l.helloLink.end()
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
		s.left = fmt.Errorf("leave group %q: %w", s.group.name, orUnavailable(err))
		s.mu.Unlock()
	}
}
