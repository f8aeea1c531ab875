package main

import (
	"context"
	"errors"
	"iter"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/IBM/sarama"
	"github.com/ThreeDotsLabs/watermill"
	wkafka "github.com/ThreeDotsLabs/watermill-kafka/v3/pkg/kafka"
	wmessage "github.com/ThreeDotsLabs/watermill/message"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/broker"
	"github.com/skald-go/skald/broker/kafkabroker"
)

func newKafkaWire(b *bench) *wire {
	w := &wire{b: b, name: "kafka", addr: b.kafka, rows: b.rows}
	w.open = func() (broker.Broker, error) { return kafkabroker.New(b.kafka, nil) }
	w.topic = func(ctx context.Context, partitions int) (string, error) {
		return b.topic(ctx, int32(partitions))
	}
	w.send, w.take = w.kafkaSenders, w.kafkaTakers
	return w
}

func (w *wire) kafkaSenders(_ context.Context, topic string) ([]sender, error) {
	cl, err := w.b.producer(kgo.ProducerLinger(5*time.Millisecond),
		kgo.MaxBufferedRecords(wirePage*wireCalls))
	if err != nil {
		return nil, err
	}
	pub, err := wkafka.NewPublisher(wkafka.PublisherConfig{
		Brokers: strings.Split(w.b.kafka, ","),
		Marshaler: wkafka.NewWithPartitioningMarshaler(
			func(_ string, m *wmessage.Message) (string,
				error) {
				return m.Metadata["ce_partitionkey"], nil
			}),
		OverwriteSaramaConfig: allReplicas(),
	}, watermill.NopLogger{})
	if err != nil {
		return nil, err
	}
	w.b.later(pub.Close)
	return append([]sender{{rawClient, w.rows, kafkaRaw(cl)}}, w.watermill(pub, topic, "ce_")...), nil
}

// allReplicas is Watermill's own setting with the acknowledgement that Skald waits for.
func allReplicas() *sarama.Config {
	c := wkafka.DefaultSaramaSyncPublisherConfig()
	c.Producer.RequiredAcks = sarama.WaitForAll
	return c
}

// kafkaRaw hands over record by record, with the headers that Skald's driver writes.
func kafkaRaw(cl *kgo.Client) func(context.Context, iter.Seq[[]skald.Message]) error {
	return func(ctx context.Context, pages iter.Seq[[]skald.Message]) error {
		var bad atomic.Pointer[error]
		var wg sync.WaitGroup
		for page := range pages {
			records := make([]kgo.Record, len(page))
			wg.Add(len(page))
			for i := range page {
				m := &page[i]
				records[i] = kgo.Record{Topic: m.Topic, Key: m.Key, Value: m.Data}
				for _, h := range wireHeaders("ce_", m) {
					records[i].Headers = append(records[i].Headers,
						kgo.RecordHeader{Key: h.Name, Value: h.Value})
				}
				cl.Produce(ctx, &records[i], func(_ *kgo.Record, err error) {
					if err != nil {
						bad.Store(&err)
					}
					wg.Done()
				})
			}
		}
		wg.Wait()
		if err := bad.Load(); err != nil {
			return *err
		}
		return nil
	}
}

func (w *wire) kafkaTakers(topic string) []taker {
	seeds := strings.Split(w.b.kafka, ",")
	return []taker{
		{rawClient, w.rows, func(ctx context.Context, group string, rows int, first func()) error {
			cl, err := kgo.NewClient(kgo.SeedBrokers(seeds...), kgo.ConsumerGroup(group),
				kgo.ConsumeTopics(topic),
				kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.FetchMaxBytes(16<<20),
				kgo.AutoCommitInterval(100*time.Millisecond))
			if err != nil {
				return err
			}
			defer cl.Close()
			for n := 0; n < rows; {
				f := cl.PollRecords(ctx, 500)
				if err := errors.Join(f.Err0(), ctx.Err()); err != nil {
					return err
				}
				if f.NumRecords() > 0 {
					first()
				}
				n += f.NumRecords()
			}
			return cl.CommitUncommittedOffsets(ctx)
		}},
		{watermillSub, min(w.rows, 5*w.b.peerRows),
			func(ctx context.Context, group string, rows int, first func()) error {
				c := wkafka.DefaultSaramaSubscriberConfig()
				c.Consumer.Offsets.Initial = sarama.OffsetOldest
				sub, err := wkafka.NewSubscriber(wkafka.SubscriberConfig{
					Brokers: seeds, Unmarshaler: wkafka.DefaultMarshaler{}, ConsumerGroup: group,
					OverwriteSaramaConfig: c,
				}, watermill.NopLogger{})
				if err != nil {
					return err
				}
				return drainWatermill(ctx, sub, topic, rows, first)
			}},
	}
}
