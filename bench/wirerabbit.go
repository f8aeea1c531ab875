package main

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"iter"
	"strconv"
	"strings"

	"github.com/ThreeDotsLabs/watermill"
	wamqp "github.com/ThreeDotsLabs/watermill-amqp/v3/pkg/amqp"
	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/broker"
	"github.com/skald-go/skald/broker/rabbitbroker"
)

const (
	rabbitFlying   = 2000 // messages of the raw client that wait for their confirmation
	rabbitPrefetch = 1000 // of each consumer, ours too
)

// newRabbitWire measures the RabbitMQ that was named. It cannot rewind: what a turn consumes is published
// once its group is declared, and a group that had its turn is removed.
func newRabbitWire(_ context.Context, b *bench) (*wire, error) {
	w := &wire{b: b, name: "rabbitmq", addr: strings.TrimPrefix(b.rabbit, "amqp://"), rows: b.rows / 20}
	bus, err := rabbitbroker.New(w.addr, nil)
	if err != nil {
		return nil, err
	}
	b.later(bus.Close)
	conn, err := amqp.Dial(w.url())
	if err != nil {
		return nil, err
	}
	b.later(conn.Close)
	w.open = func() (broker.Broker, error) { return rabbitbroker.New(w.addr, nil) }
	w.topic = func(ctx context.Context, partitions int) (string, error) {
		topic := name()
		if err := bus.MakeTopics(ctx, partitions, topic); err != nil {
			return "", err
		}
		b.later(func() error { return w.removeTopic(conn, topic) })
		return topic, nil
	}
	w.ready = func(ctx context.Context, topic, group string) error {
		if err := bus.Declare(ctx, broker.Group{Name: group, Topics: []string{topic}}); err != nil {
			return err
		}
		if err := all(conn, topic, group); err != nil {
			return err
		}
		return pipelined(bus)(ctx, pages(wireMessages(topic), w.rows))
	}
	w.over = func(ctx context.Context, topic, group string) error {
		return errors.Join(bus.RemoveGroup(ctx, group, topic), channel(conn, func(ch *amqp.Channel) error {
			_, err := ch.QueueDelete(group, false, false, false)
			return err
		}))
	}
	w.send = func(ctx context.Context, topic string) ([]sender, error) {
		if err := bus.Declare(ctx, broker.Group{Name: "kept", Topics: []string{topic}}); err != nil {
			return nil, err
		}
		b.later(func() error { return bus.RemoveGroup(context.WithoutCancel(ctx), "kept", topic) })
		return w.rabbitSenders(conn, topic)
	}
	w.take = func(topic string) []taker { return w.rabbitTakers(conn, topic) }
	return w, nil
}

func (w *wire) url() string { return "amqp://guest:guest@" + w.addr + "/" }

func channel(conn *amqp.Connection, do func(*amqp.Channel) error) error {
	ch, err := conn.Channel()
	if err != nil {
		return err
	}
	defer ch.Close()
	return do(ch)
}

// all makes the one queue that Watermill takes from, of the kind that ours are.
func all(conn *amqp.Connection, topic, queue string) error {
	return channel(conn, func(ch *amqp.Channel) error {
		if _, err := ch.QueueDeclare(queue, true, false, false, false,
			amqp.Table{amqp.QueueTypeArg: amqp.QueueTypeQuorum}); err != nil {
			return err
		}
		return ch.QueueBind(queue, "#", topic, false, nil)
	})
}

func (w *wire) removeTopic(conn *amqp.Connection, topic string) error {
	return channel(conn, func(ch *amqp.Channel) error {
		if _, err := ch.QueueDelete(rabbitbroker.Record(topic), false, false, false); err != nil {
			return err
		}
		return ch.ExchangeDelete(topic, false, false)
	})
}

func (w *wire) rabbitSenders(conn *amqp.Connection, topic string) ([]sender, error) {
	config := wamqp.NewDurablePubSubConfig(w.url(), nil)
	config.Exchange.Type = amqp.ExchangeTopic
	config.Publish.GenerateRoutingKey = func(string) string { return "0.order.placed" }
	config.Publish.ConfirmDelivery, config.Publish.ChannelPoolSize = true, 64
	pub, err := wamqp.NewPublisher(config, watermill.NopLogger{})
	if err != nil {
		return nil, err
	}
	w.b.later(pub.Close)
	return append([]sender{{rawClient, w.rows, rabbitRaw(conn)}}, w.watermill(pub, topic, "cloudEvents_")...),
		nil
}

// rabbitRaw is one channel with confirmations, many messages under way. Of one key, too: behind one that
// fails later ones may be stored.
func rabbitRaw(conn *amqp.Connection) func(context.Context, iter.Seq[[]skald.Message]) error {
	return func(ctx context.Context, pages iter.Seq[[]skald.Message]) error {
		ch, err := conn.Channel()
		if err != nil {
			return err
		}
		defer ch.Close()
		if err := ch.Confirm(false); err != nil {
			return err
		}
		var under []*amqp.DeferredConfirmation
		confirmed := func(n int) error {
			for _, c := range under[:n] {
				if ok, err := c.WaitContext(ctx); err != nil || !ok {
					return errors.Join(errors.New("not confirmed"), err)
				}
			}
			under = under[n:]
			return nil
		}
		for page := range pages {
			if over := len(under) - rabbitFlying; over > 0 {
				if err := confirmed(over); err != nil {
					return err
				}
			}
			for i := range page {
				c, err := ch.PublishWithDeferredConfirmWithContext(ctx, page[i].Topic, rabbitRoute(&page[i]),
					true, false, rabbitRecord(&page[i]))
				if err != nil {
					return err
				}
				under = append(under, c)
			}
		}
		return confirmed(len(under))
	}
}

func rabbitRoute(m *skald.Message) string {
	h := fnv.New32a()
	_, _ = h.Write(m.Key)
	return strconv.Itoa(int(h.Sum32()%wirePartitions)) + "." + m.Type
}

// rabbitRecord is m with the headers that Skald's driver writes.
func rabbitRecord(m *skald.Message) amqp.Publishing {
	p := amqp.Publishing{
		DeliveryMode: amqp.Persistent, ContentType: m.ContentType, MessageId: m.ID,
		CorrelationId: m.CorrelationID, Type: m.Type,
		Timestamp: m.Time, Headers: amqp.Table{}, Body: m.Data,
	}
	for _, h := range wireHeaders("cloudEvents_", m) {
		p.Headers[h.Name] = string(h.Value)
	}
	return p
}

func (w *wire) rabbitTakers(conn *amqp.Connection, topic string) []taker {
	taken := func(name string, each int) taker {
		return taker{name: name, rows: w.rows, take: rabbitConsume(conn, topic, each)}
	}
	return []taker{taken(rawClient, 1), taken(rawAckAll, 500),
		{watermillSub, w.rows, func(ctx context.Context, group string, rows int, first func()) error {
			config := wamqp.NewDurablePubSubConfig(w.url(), wamqp.GenerateQueueNameConstant(group))
			config.Consume.Qos.PrefetchCount = rabbitPrefetch
			config.TopologyBuilder = there{}
			sub, err := wamqp.NewSubscriber(config, watermill.NopLogger{})
			if err != nil {
				return err
			}
			return drainWatermill(ctx, sub, topic, rows, first)
		}}}
}

// there: the queue exists, and is bound.
type there struct{}

func (there) BuildTopology(*amqp.Channel, wamqp.BuildTopologyParams, wamqp.Config,
	watermill.LoggerAdapter) error {
	return nil
}

func (there) ExchangeDeclare(*amqp.Channel, string, wamqp.Config) error { return nil }

// rabbitConsume takes from a group's queues on one channel, and acknowledges each so many messages.
func rabbitConsume(conn *amqp.Connection, topic string,
	each int) func(context.Context, string, int, func()) error {
	return func(ctx context.Context, group string, rows int, first func()) error {
		ch, err := conn.Channel()
		if err != nil {
			return err
		}
		defer ch.Close()
		if err := ch.Qos(rabbitPrefetch, 0, false); err != nil {
			return err
		}
		in := make(chan amqp.Delivery)
		for partition := range wirePartitions {
			from, err := ch.ConsumeWithContext(ctx, rabbitbroker.Queue(group, topic, partition), "", false,
				false, false, false, nil)
			if err != nil {
				return err
			}
			go func() {
				for d := range from {
					select {
					case in <- d:
					case <-ctx.Done():
					}
				}
			}()
		}
		var done tags
		last := uint64(0)
		for n := 1; n <= rows; n++ {
			select {
			case d := <-in:
				first()
				up := done.add(d.DeliveryTag)
				if n%each != 0 && n != rows {
					continue
				}
				if each == 1 {
					up = d.DeliveryTag
				}
				if up == last {
					continue
				}
				last = up
				if err := ch.Ack(up, each > 1); err != nil {
					return err
				}
			case <-ctx.Done():
				return fmt.Errorf("%d of %d came: %w", n-1, rows, ctx.Err())
			}
		}
		return nil
	}
}

// tags are how far a channel's deliveries are done: those of several queues come in no order.
type tags struct {
	upTo  uint64
	ahead map[uint64]bool
}

// add notes one as done and tells up to which one all are.
func (p *tags) add(tag uint64) uint64 {
	if p.ahead == nil {
		p.ahead = map[uint64]bool{}
	}
	p.ahead[tag] = true
	for p.ahead[p.upTo+1] {
		p.upTo++
		delete(p.ahead, p.upTo)
	}
	return p.upTo
}
