package kafkabroker_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/skald-go/skald/broker"
	"github.com/skald-go/skald/broker/kafkabroker"
	"github.com/skald-go/skald/internal/need"
)

// A batch that is a little compressed and much unpacked is one delivery with its range of offsets, and
// consumption goes on after it. Once that is acknowledged, it does not come again.
func TestBatchThatUnpacksTooLargeIsOneDelivery(t *testing.T) {
	seeds := need.Kafka(t)
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	b, err := kafkabroker.New(seeds, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	topic := fmt.Sprintf("unpack-%d", time.Now().UnixNano())
	if err := b.MakeTopics(ctx, 1, topic); err != nil {
		t.Fatal(err)
	}
	cl, err := kgo.NewClient(kgo.SeedBrokers(seeds), kgo.DefaultProduceTopic(topic),
		kgo.ProducerBatchCompression(kgo.ZstdCompression()),
		kgo.ProducerBatchMaxBytes(90<<20), kgo.MaxBufferedBytes(90<<20))
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	zeros := make([]byte, 18<<20)
	for _, batch := range [][]*kgo.Record{{{Value: []byte("a")}}, {{Value: zeros}, {Value: zeros}},
		{{Value: []byte("b")}}} {
		if err := cl.ProduceSync(ctx, batch...).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
	read := func(want int) (got []broker.Delivery) {
		sub, err := b.Subscribe(ctx, broker.Group{Name: topic, Topics: []string{topic}})
		if err != nil {
			t.Fatal(err)
		}
		for len(got) < want || want == 0 {
			select {
			case <-sub.Ready():
			case <-ctx.Done():
				t.Fatalf("%d deliveries came: %v", len(got), ctx.Err())
			}
			batch, err := sub.Receive(ctx, 100)
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, batch.Deliveries...)
			if i := slices.IndexFunc(batch.Gained,
				func(l broker.Partition) bool { return l.Started }); want == 0 && i >= 0 {
				if batch.Gained[i].Start != 4 {
					t.Errorf("the group goes on at %d", batch.Gained[i].Start)
				}
				break
			}
		}
		if len(got) > 0 {
			if err := sub.Ack(ctx, got); err != nil {
				t.Fatal(err)
			}
		}
		if err := sub.Close(ctx); err != nil {
			t.Fatal(err)
		}
		return got
	}
	got := read(3)
	var large *broker.TooLargeError
	if !errors.As(got[1].Fault, &large) || large.First != 1 || large.Last != 2 || got[1].Position != 2 ||
		got[1].Data != nil ||
		string(got[0].Data) != "a" || string(got[2].Data) != "b" || got[2].Position != 3 {
		t.Errorf("%+v came, with %v", got, got[1].Fault)
	}
	read(0)
}

// What was fetched of paused partitions is freed above 16 MiB, and comes after the pause, each message once
// and in order.
func TestPausedPartitionsHoldLittle(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	b, err := kafkabroker.New(need.Kafka(t), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	topic := fmt.Sprintf("paused-%d", time.Now().UnixNano())
	if err := b.MakeTopics(ctx, 3, topic); err != nil {
		t.Fatal(err)
	}
	cl, err := kgo.NewClient(kgo.SeedBrokers(need.Kafka(t)), kgo.DefaultProduceTopic(topic),
		kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.ProducerBatchCompression(kgo.NoCompression()))
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	publish := func(partition int32, bytes int) {
		r := &kgo.Record{Partition: partition, Value: make([]byte, bytes)}
		if err := cl.ProduceSync(ctx, r).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
	const each, enough = 20, 16<<20/900_000 + 1
	for n := range int32(2 * each) {
		publish(n%2, 900_000)
	}
	sub, err := b.Subscribe(ctx, broker.Group{Name: topic, Topics: []string{topic}})
	if err != nil {
		t.Fatal(err)
	}
	defer sub.Close(ctx)
	got := map[string][]int64{}
	receive := func(max int) {
		batch, err := sub.Receive(ctx, max)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range batch.Deliveries {
			got[d.Partition] = append(got[d.Partition], d.Position)
		}
	}
	large := []string{topic + "/0", topic + "/1"}
	held := func() (n int) {
		for _, name := range large {
			n += sub.(*kafkabroker.Subscription).Fetched(name)
		}
		return n
	}
	until := func(what string, done func() bool) {
		t.Helper()
		for ; !done(); time.Sleep(5 * time.Millisecond) {
			if ctx.Err() != nil {
				t.Fatal(what, got)
			}
		}
	}
	until("a delivery of each", func() bool { receive(2); return len(got) == 2 })
	until("enough is fetched", func() bool { return held() >= enough })
	sub.Pause(large...)
	publish(2, 1)
	until("what is paused is freed", func() bool { receive(1); return len(got) == 3 && held() < enough })
	sub.Resume(large...)
	until("all come", func() bool { receive(100); return len(got[large[0]])+len(got[large[1]]) >= 2*each })
	for _, name := range large {
		for i, at := range got[name] {
			if at != int64(i) {
				t.Fatalf("%s: %v", name, got[name])
			}
		}
	}
}
