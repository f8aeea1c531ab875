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
