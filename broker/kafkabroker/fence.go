package kafkabroker

import (
	"context"
	"math"
	"sync"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/skald-go/skald/broker"
	"github.com/skald-go/skald/broker/kafkabroker/internal/metadata"
	"github.com/skald-go/skald/broker/kafkabroker/internal/place"
)

// A fence keeps records out of a topic of another id than they are meant for. A client of franz-go takes the
// id that a topic has when it first has something for it, and no other as long as it lives; what it sends
// goes to that id or nowhere (from Kafka 4.1 on; before, by name). So it is enough to look at that id before
// the first record, which is here: franz-go asks for a partition as soon as it knows the topic.
type fence struct {
	kgo.Partitioner
	cl *kgo.Client // of which this is the partitioner; nobody else asks it about topics

	mu sync.Mutex
	up map[string]bool // topics that the client has taken up
}

// ForTopic is called by franz-go each time that it takes up a topic, when it knows its partitions.
func (f *fence) ForTopic(topic string) kgo.TopicPartitioner {
	f.mu.Lock()
	f.up[topic] = true
	f.mu.Unlock()
	return &fenceOf{Topic: f.Partitioner.ForTopic(topic).(place.Topic), cl: f.cl}
}

// tookUp reports whether the client puts what it gets for topic on a partition at once.
func (f *fence) tookUp(topic string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.up[topic]
}

type fenceOf struct {
	place.Topic
	cl *kgo.Client
	id string // "" before the first record
}

var _ kgo.TopicPartitionerOnNewBatch = (*fenceOf)(nil)

// meant is the id of the topic that a record is for, as its context.
type meant struct {
	context.Context
	id string
}

// astray is the context of a record for a topic that has another id.
type astray struct{ context.Context }

// Partition is called by franz-go, under a lock.
func (f *fenceOf) Partition(r *kgo.Record, n int) int {
	if m, ok := r.Context.(*meant); ok {
		if f.id == "" {
			f.id = taken(f.cl, f.Name)
		}
		if f.id != m.id {
			r.Context = astray{m.Context}
			return -1
		}
	}
	return f.Topic.Partition(r, n)
}

// taken is the id of a topic as its client knows it. It asks nobody.
func taken(cl *kgo.Client, topic string) string {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	one := kmsg.NewMetadataRequestTopic()
	one.Topic = &topic
	req := kmsg.NewPtrMetadataRequest()
	req.Topics = append(req.Topics, one)
	resp, err := cl.RequestCachedMetadata(ctx, req, math.MaxInt64)
	if err != nil || len(resp.Topics) != 1 {
		return ""
	}
	return metadata.TopicID(resp.Topics[0].TopicID)
}

// Topics tells the ids of topics. Kafka before 2.8 has none: all are the same there.
func (b *Broker) Topics(ctx context.Context, names ...string) (broker.Topics, error) {
	there, err := metadata.Look(ctx, b.cl, names)
	if err != nil {
		return nil, err
	}
	ids := broker.Topics{}
	for name, t := range there {
		if t.Err == nil {
			ids[name] = t.ID
		}
	}
	return ids, nil
}
