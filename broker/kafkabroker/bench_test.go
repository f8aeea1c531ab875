package kafkabroker_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/broker"
	"github.com/skald-go/skald/broker/kafkabroker"
	"github.com/skald-go/skald/internal/need"
)

// BenchmarkPublish compares the driver with a loop around franz-go that writes the same headers: messages of
// 250 bytes, eight topics' worth of keys, calls of 1,000 with 20 of them under way.
func BenchmarkPublish(bench *testing.B) {
	seeds := need.Kafka(bench)
	b, err := kafkabroker.New(seeds, nil)
	if err != nil {
		bench.Fatal(err)
	}
	defer b.Close()
	topic := fmt.Sprintf("bench.%x", time.Now().UnixNano())
	if err := b.MakeTopics(bench.Context(), 8, topic); err != nil {
		bench.Fatal(err)
	}
	const size = 1000
	msgs := make([]skald.Message, size)
	for i := range msgs {
		msgs[i] = skald.Message{ID: fmt.Sprintf("0198c0de-0000-7000-8000-%012d", i), Source: "/bench/public",
			Type: "order.placed", Topic: topic,
			Key: fmt.Appendf(nil, "order-%d", i), Time: time.Now(), ContentType: "application/json",
			CorrelationID: "0198c0de-0000-7000-8000-000000000000",
			Sequence:      fmt.Sprintf("%020d", i), Data: make([]byte, 250)}
	}
	publish := func(n int) {
		var under []broker.Pending
		wait := func() {
			if err := under[0].Wait(bench.Context()); err != nil {
				bench.Fatal(err)
			}
			under = under[1:]
		}
		for ; n > 0; n -= size {
			if under = append(under, b.Publish(bench.Context(), msgs)); len(under) > 20 {
				wait()
			}
		}
		for len(under) > 0 {
			wait()
		}
	}
	publish(20 * size) // connections, metadata
	bench.Run("driver", func(bench *testing.B) {
		publish(bench.N)
		bench.ReportMetric(float64(bench.N)/bench.Elapsed().Seconds(), "msgs/s")
	})
	bench.Run("franz-go", func(bench *testing.B) { raw(bench, seeds, msgs) })
}

func raw(bench *testing.B, seeds string, msgs []skald.Message) {
	cl, err := kgo.NewClient(kgo.SeedBrokers(seeds), kgo.RecordPartitioner(kgo.StickyKeyPartitioner(nil)),
		kgo.ProducerLinger(0))
	if err != nil {
		bench.Fatal(err)
	}
	defer cl.Close()
	if err := cl.ProduceSync(bench.Context(), kafkabroker.Encode(msgs[0])).FirstErr(); err != nil {
		bench.Fatal(err)
	}
	bench.ResetTimer()
	var wg sync.WaitGroup
	done := func(_ *kgo.Record, err error) {
		if err != nil {
			bench.Error(err)
		}
		wg.Done()
	}
	for n := 0; n < bench.N; n++ {
		m := &msgs[n%len(msgs)]
		wg.Add(1)
		text := func(name, value string) kgo.RecordHeader {
			return kgo.RecordHeader{Key: name, Value: []byte(value)}
		}
		cl.Produce(context.Background(), &kgo.Record{Topic: m.Topic, Key: m.Key, Value: m.Data,
			Headers: []kgo.RecordHeader{
				text("ce_specversion", "1.0"), text("ce_id", m.ID), text("ce_source", m.Source),
				text("ce_type", m.Type),
				text("ce_time", m.Time.UTC().Format(time.RFC3339Nano)),
				{Key: "ce_partitionkey", Value: m.Key}, text("ce_sequence", m.Sequence),
				text("content-type", m.ContentType), text("ce_correlationid", m.CorrelationID),
			}}, done)
	}
	wg.Wait()
	bench.ReportMetric(float64(bench.N)/bench.Elapsed().Seconds(), "msgs/s")
}

// BenchmarkReceive takes and acknowledges messages of 250 bytes.
func BenchmarkReceive(bench *testing.B) {
	b, err := kafkabroker.New(need.Kafka(bench), nil)
	if err != nil {
		bench.Fatal(err)
	}
	defer b.Close()
	topic := fmt.Sprintf("bench.%x", time.Now().UnixNano())
	if err := b.MakeTopics(bench.Context(), 8, topic); err != nil {
		bench.Fatal(err)
	}
	msgs := make([]skald.Message, 1000)
	for i := range msgs {
		msgs[i] = skald.Message{ID: fmt.Sprintf("0198c0de-0000-7000-8000-%012d", i), Source: "/bench/public",
			Type: "order.placed", Topic: topic,
			Key: fmt.Appendf(nil, "order-%d", i), Time: time.Now(), ContentType: "application/json",
			Data: make([]byte, 250)}
	}
	var under []broker.Pending
	for n := 0; n < bench.N; n += len(msgs) {
		under = append(under, b.Publish(bench.Context(), msgs))
	}
	for _, p := range under {
		if err := p.Wait(bench.Context()); err != nil {
			bench.Fatal(err)
		}
	}
	sub, err := b.Subscribe(bench.Context(), broker.Group{Name: topic, Topics: []string{topic}})
	if err != nil {
		bench.Fatal(err)
	}
	bench.ResetTimer()
	for n := 0; n < bench.N; {
		<-sub.Ready()
		got, err := sub.Receive(bench.Context(), 500)
		if err != nil {
			bench.Fatal(err)
		}
		n += len(got.Deliveries)
		if err := sub.Ack(bench.Context(), got.Deliveries); err != nil {
			bench.Fatal(err)
		}
	}
	bench.ReportMetric(float64(bench.N)/bench.Elapsed().Seconds(), "msgs/s")
}
