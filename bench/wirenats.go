package main

import (
	"context"
	"fmt"
	"hash/fnv"
	"iter"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/ThreeDotsLabs/watermill"
	wnats "github.com/ThreeDotsLabs/watermill-nats/v2/pkg/nats"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/broker"
	"github.com/skald-go/skald/broker/natsbroker"
)

// newNATSWire measures the NATS that was named, or starts one.
func newNATSWire(ctx context.Context, b *bench) (*wire, error) {
	w := &wire{b: b, name: "nats", addr: b.nats, rows: b.rows / 5}
	if w.addr == "" {
		var err error
		if w.addr, err = b.server(ctx); err != nil {
			return nil, err
		}
	}
	bus, err := natsbroker.New(w.addr, nil)
	if err != nil {
		return nil, err
	}
	b.later(bus.Close)
	nc, err := nats.Connect("nats://" + w.addr)
	if err != nil {
		return nil, err
	}
	b.later(func() error { nc.Close(); return nil })
	js, err := jetstream.New(nc, jetstream.WithPublishAsyncMaxPending(4000))
	if err != nil {
		return nil, err
	}
	w.open = func() (broker.Broker, error) { return natsbroker.New(w.addr, nil) }
	w.topic = func(ctx context.Context, partitions int) (string, error) {
		topic := name()
		if err := bus.MakeTopics(ctx, partitions, topic); err != nil {
			return "", err
		}
		b.later(func() error { return js.DeleteStream(context.WithoutCancel(ctx), topic) })
		return topic, nil
	}
	w.send = func(_ context.Context, topic string) ([]sender, error) { return w.natsSenders(js, topic) }
	w.take = func(topic string) []taker { return w.natsTakers(js, topic) }
	return w, nil
}

func (w *wire) natsSenders(js jetstream.JetStream, topic string) ([]sender, error) {
	pub, err := wnats.NewPublisher(wnats.PublisherConfig{URL: "nats://" + w.addr}, watermill.NopLogger{})
	if err != nil {
		return nil, err
	}
	w.b.later(pub.Close)
	return append([]sender{{rawClient, w.rows, natsRaw(js)}}, w.watermill(pub, topic+".0", "ce-")...), nil
}

// natsRaw is nats.go's own pipeline. Of one key, too, many are under way: behind one that fails later ones
// may be stored.
func natsRaw(js jetstream.JetStream) func(context.Context, iter.Seq[[]skald.Message]) error {
	return func(ctx context.Context, pages iter.Seq[[]skald.Message]) error {
		var answers []jetstream.PubAckFuture
		for page := range pages {
			for i := range page {
				m := &page[i]
				h := nats.Header{}
				for _, a := range wireHeaders("ce-", m) {
					h[a.Name] = []string{string(a.Value)}
				}
				key := fnv.New32a()
				_, _ = key.Write(m.Key)
				subject := m.Topic + "." + strconv.Itoa(int(key.Sum32()%wirePartitions))
				f, err := js.PublishMsgAsync(&nats.Msg{Subject: subject, Header: h, Data: m.Data},
					jetstream.WithStallWait(10*time.Second))
				if err != nil {
					return err
				}
				answers = append(answers, f)
			}
		}
		for _, f := range answers {
			select {
			case <-f.Ok():
			case err := <-f.Err():
				return err
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		return nil
	}
}

func (w *wire) natsTakers(js jetstream.JetStream, topic string) []taker {
	return []taker{
		{rawClient, w.rows, natsPull(js, topic, jetstream.AckExplicitPolicy, 1)},
		{rawAckAll, w.rows, natsPull(js, topic, jetstream.AckAllPolicy, 500)},
		{watermillSub, w.b.peerRows, func(ctx context.Context, group string, rows int, first func()) error {
			sub, err := wnats.NewSubscriber(wnats.SubscriberConfig{
				URL: "nats://" + w.addr, QueueGroupPrefix: group,
				JetStream: wnats.JetStreamConfig{AckAsync: true, DurablePrefix: group,
					SubscribeOptions: []nats.SubOpt{nats.DeliverAll(), nats.AckExplicit(),
						nats.BindStream(topic)}},
				SubjectCalculator: func(group, topic string) *wnats.SubjectDetail {
					return &wnats.SubjectDetail{Primary: topic + ".*", QueueGroup: group}
				},
			}, watermill.NopLogger{})
			if err != nil {
				return err
			}
			return drainWatermill(ctx, sub, topic, rows, first)
		}},
	}
}

// natsPull is a durable pull consumer, which acknowledges each so many messages.
func natsPull(js jetstream.JetStream, topic string, policy jetstream.AckPolicy,
	each int) func(context.Context, string, int, func()) error {
	return func(ctx context.Context, group string, rows int, first func()) error {
		c, err := js.CreateConsumer(ctx, topic, jetstream.ConsumerConfig{Durable: group, AckPolicy: policy,
			DeliverPolicy: jetstream.DeliverAllPolicy})
		if err != nil {
			return err
		}
		done, bad := make(chan struct{}), atomic.Pointer[error]{}
		n := 0
		run, err := c.Consume(func(m jetstream.Msg) {
			if n++; n > rows {
				return
			}
			first()
			var err error
			switch {
			case n == rows:
				err = m.DoubleAck(ctx)
				defer close(done)
			case n%each == 0:
				err = m.Ack()
			}
			if err != nil {
				bad.Store(&err)
			}
		}, jetstream.PullMaxMessages(500))
		if err != nil {
			return err
		}
		defer run.Stop()
		select {
		case <-done:
		case <-ctx.Done():
			return fmt.Errorf("not all of %d came: %w", rows, ctx.Err())
		}
		if err := bad.Load(); err != nil {
			return *err
		}
		return nil
	}
}
