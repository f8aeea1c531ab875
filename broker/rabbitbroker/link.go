package rabbitbroker

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/skald-go/skald/broker"
)

// link is the connection of a subscription that consumes. ctl is the channel for hellos; each partition has
// its own channel.
type link struct {
	gate   *gate
	conn   *amqp.Connection
	cut    func() // closes the socket immediately
	ctl    *amqp.Channel
	closed chan *amqp.Error

	topics    []topic
	shared    string // the queue that all members share; "" if the group has partitions
	queue     string // the queue for hellos to this member
	hellos    <-chan amqp.Delivery
	refused   chan *amqp.Error // receives the reason if RabbitMQ closes ctl
	helloLink *helloLink       // sends hellos; nil if members share a queue
}

// helloLink is a separate connection that sends hellos. If RabbitMQ is short of memory or disk, it stops
// reading from connections that publish. If the consumer's connection published, RabbitMQ would not read its
// acknowledgements, and could never free memory.
type helloLink struct {
	conn       *amqp.Connection
	cut        func()
	ch         *amqp.Channel
	refused    chan *amqp.Error // receives the reason if RabbitMQ closes ch
	blocked    chan amqp.Blocking
	returns    chan amqp.Return
	blockedWhy string // the reason why RabbitMQ blocks it, or ""; used only by run
}

// openHelloLink opens the connection for hellos.
func (b *Broker) openHelloLink(name string) (v *helloLink, err error) {
	v = &helloLink{}
	if v.conn, v.cut, err = b.connect(name+" greets", nil); err != nil {
		return nil, err
	}
	v.blocked = v.conn.NotifyBlocked(make(chan amqp.Blocking, 8))
	defer time.AfterFunc(silence, v.cut).Stop()
	if v.ch, err = v.conn.Channel(); err != nil {
		v.cut()
		return nil, orUnavailable(err)
	}
	v.refused = v.ch.NotifyClose(make(chan *amqp.Error, 1))
	v.returns = v.ch.NotifyReturn(make(chan amqp.Return, 256))
	return v, nil
}

// end closes the connection after the last hello is sent. A blocked connection cannot send, so end closes it
// immediately.
func (v *helloLink) end() {
	if v == nil {
		return
	}
	if v.blockedWhy == "" {
		_ = v.conn.CloseDeadline(time.Now().Add(time.Second))
	}
	v.cut()
}

// join opens a link, and declares or checks the queues of the group. When ctx ends, it returns an error.
func (s *Subscription) join(ctx context.Context) (*link, error) {
	type made struct {
		l   *link
		err error
	}
	got := make(chan made, 1)
	go func() {
		l, err := s.dial(ctx)
		got <- made{l, err}
	}()
	select {
	case m := <-got:
		return m.l, m.err
	case <-ctx.Done():
		go func() {
			if m := <-got; m.err == nil {
				m.l.cut()
			}
		}()
		return nil, fmt.Errorf("%w: %w", broker.ErrUnavailable, ctx.Err())
	}
}

func (s *Subscription) dial(ctx context.Context) (*link, error) {
	l := &link{gate: newGate()}
	conn, cut, err := s.b.connect("group "+s.group.name+" member "+s.member, l.gate)
	if err != nil {
		return nil, err
	}
	l.conn, l.cut, l.closed = conn, cut, conn.NotifyClose(make(chan *amqp.Error, 1))
	if err := s.prepare(ctx, l); err != nil {
		l.cut()
		return nil, err
	}
	return l, nil
}

func (s *Subscription) prepare(ctx context.Context, l *link) (err error) {
	g := broker.Group{Name: s.group.name, Topics: s.topicNames}
	if l.topics, l.shared, err = s.b.provide(ctx, l.conn, g, !s.b.opts.CheckOnly); err != nil {
		return err
	}
	if l.shared != "" {
		return nil
	}
	defer time.AfterFunc(silence, l.cut).Stop()
	if l.ctl, err = l.conn.Channel(); err == nil {
		err = l.consumeHellos(s.group.name)
	}
	if err == nil {
		l.helloLink, err = s.b.openHelloLink("group " + s.group.name + " member " + s.member)
	}
	if err != nil {
		return fmt.Errorf("receive hellos of the group: %w", orUnavailable(err))
	}
	return nil
}

// consumeHellos declares and consumes the queue for hellos to this member. RabbitMQ deletes the queue when
// the connection ends.
func (l *link) consumeHellos(group string) error {
	// x-max-length drops the oldest hellos while this process is suspended
	q, err := l.ctl.QueueDeclare("", false, true, true, false, amqp.Table{"x-max-length": int64(1000)})
	if err == nil {
		err = l.ctl.QueueBind(q.Name, group, membersName, false, nil)
	}
	if err != nil {
		return err
	}
	l.queue = q.Name
	l.refused = l.ctl.NotifyClose(make(chan *amqp.Error, 1))
	l.hellos, err = l.ctl.Consume(q.Name, "", true, true, false, false, nil)
	return err
}

// provide declares the queues of a group, or only checks them. It returns the topics of the group, or the
// queue that its members share.
func (b *Broker) provide(ctx context.Context, conn *amqp.Connection, g broker.Group,
	declare bool) (topics []topic, shared string, err error) {
	if b.opts.Queue != "" {
		return nil, b.opts.Queue, b.checkQueueExists(ctx, conn, b.opts.Queue)
	}
	for _, name := range g.Topics {
		t, err := b.look(ctx, conn, name)
		if err != nil {
			return nil, "", aboutTopic(name, err)
		}
		topics = append(topics, t)
	}
	if b.opts.ByType {
		return topics, g.Name, b.provideShared(ctx, conn, g, declare)
	}
	if declare {
		return topics, "", b.declarePartitions(ctx, conn, g.Name, topics)
	}
	return topics, "", b.checkPartitions(ctx, conn, g.Name, topics)
}

// aboutTopic wraps err in a *broker.TopicError, unless err is an outage.
func aboutTopic(name string, err error) error {
	for _, outage := range []error{broker.ErrUnavailable, broker.ErrClosed, context.Canceled} {
		if errors.Is(err, outage) {
			return err
		}
	}
	return &broker.TopicError{Topic: name, Err: err}
}

// checkQueueExists returns an error if a queue does not exist.
func (b *Broker) checkQueueExists(ctx context.Context, conn *amqp.Connection, queue string) error {
	err := ask(ctx, conn, func(ch *amqp.Channel) error {
		_, err := ch.QueueDeclarePassive(queue, true, false, false, false, nil)
		return err
	})
	if notFound(err) {
		return fmt.Errorf("queue %q in %q: %w", queue, b.opts.VHost, errMissing)
	}
	if err != nil {
		return fmt.Errorf("read queue %q: %w", queue, orUnavailable(err))
	}
	return nil
}

// provideShared declares the queue of a group with Options.ByType, unless it exists, and binds it.
func (b *Broker) provideShared(ctx context.Context, conn *amqp.Connection, g broker.Group,
	declare bool) error {
	err := b.checkQueueExists(ctx, conn, g.Name)
	if !declare || err != nil && !errors.Is(err, errMissing) {
		return err
	}
	err = ask(ctx, conn, func(ch *amqp.Channel) error {
		if err != nil {
			args := partitionArgs()
			delete(args, "x-single-active-consumer")
			delete(args, "x-dead-letter-exchange")
			if _, err := ch.QueueDeclare(g.Name, true, false, false, false, args); err != nil {
				return err
			}
		}
		for _, topic := range g.Topics {
			for _, pattern := range b.opts.Bind {
				if err := ch.QueueBind(g.Name, pattern, topic, false, nil); err != nil {
					return err
				}
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("declare queue %q and bind it by %s: %w", g.Name, strings.Join(b.opts.Bind, ", "),
			orUnavailable(err))
	}
	return nil
}

// declarePartitions declares and binds the queues of a group's partitions.
func (b *Broker) declarePartitions(ctx context.Context, conn *amqp.Connection, group string,
	topics []topic) error {
	if err := ask(ctx, conn, lookMembers); err != nil {
		return fmt.Errorf("read exchange %q, which MakeTopics creates with the topics: %w",
			membersName, orUnavailable(err))
	}
	for _, t := range topics {
		for i := range t.partitions {
			queue := Queue(group, t.name, i)
			if len(queue) > maxShort {
				return aboutTopic(t.name, fmt.Errorf("queue %q: %w", queue, errName))
			}
			err := declarePartition(ctx, conn, queue)
			if err == nil {
				err = ask(ctx, conn, func(ch *amqp.Channel) error {
					return ch.QueueBind(queue, fmt.Sprintf("%d.#", i), t.name, false, nil)
				})
			}
			if err != nil {
				return aboutTopic(t.name, fmt.Errorf("declare queue %q: %w", queue, orUnavailable(err)))
			}
		}
	}
	return nil
}

// declarePartition declares the queue of a partition. If the queue exists with other settings, the error
// names the setting.
func declarePartition(ctx context.Context, conn *amqp.Connection, queue string) error {
	err := ask(ctx, conn, func(ch *amqp.Channel) error {
		_, err := ch.QueueDeclare(queue, true, false, false, false, partitionArgs())
		return err
	})
	if code(err) == amqp.PreconditionFailed {
		return fmt.Errorf("queue %q exists, with other settings: %w: %w", queue, ErrSettings, err)
	}
	return orUnavailable(err)
}

// checkPartitions returns one error with all missing objects of a group.
func (b *Broker) checkPartitions(ctx context.Context, conn *amqp.Connection, group string,
	topics []topic) error {
	var missing []string
	first := "" // the first topic without a queue
	err := ask(ctx, conn, lookMembers)
	shared := notFound(err)
	if shared {
		missing = append(missing, "exchange "+membersName)
	} else if err != nil {
		return fmt.Errorf("read exchange %q: %w", membersName, orUnavailable(err))
	}
	for _, t := range topics {
		for i := range t.partitions {
			queue := Queue(group, t.name, i)
			if err := b.checkQueueExists(ctx, conn, queue); errors.Is(err, errMissing) {
				missing, first = append(missing, "queue "+queue), cmp.Or(first, t.name)
			} else if err != nil {
				return aboutTopic(t.name, err)
			}
		}
	}
	if len(missing) > 0 {
		slices.Sort(missing)
		err := fmt.Errorf(
			"group %q in %q has no %s: %w: let it be declared, or run skald migrate --broker with --group",
			group, b.opts.VHost, strings.Join(missing, ", "), errMissing)
		if shared {
			return err
		}
		return aboutTopic(first, err)
	}
	return nil
}

// Declare creates the queues of a group before its first member joins, so that the group receives messages
// from then on. Subscribe does the same.
func (b *Broker) Declare(ctx context.Context, g broker.Group) error {
	return b.settleGroup(ctx, g, true)
}

// Check returns an error if queues of a group are missing. It creates nothing.
func (b *Broker) Check(ctx context.Context, g broker.Group) error {
	return b.settleGroup(ctx, g, false)
}

func (b *Broker) settleGroup(ctx context.Context, g broker.Group, declare bool) error {
	if err := checkGroup(g); err != nil {
		return err
	}
	return b.withConn(ctx, func(conn *amqp.Connection) error {
		_, _, err := b.provide(ctx, conn, g, declare)
		return err
	})
}
