// This file prevents a record from reaching a recreated topic: the caller published the record for the old
// topic.

package kafkabroker

import (
	"context"
	"math"
	"sync"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// topicFence is a partitioner that refuses a record if its topic does not have the expected ID. A franz-go
// client takes the ID of a topic at the first record, and never changes it. From Kafka 4.1 on the client
// sends records by ID, so Kafka refuses them after a recreation. Before, it sends them by name. So the fence
// compares the IDs when franz-go requests the partition of the first record.
type topicFence struct {
	kgo.Partitioner
	cl *kgo.Client // the client with this partitioner; no other code requests metadata with it

	mu sync.Mutex
	up map[string]bool // topics with metadata in the client
}

// newFence returns a fence that selects partitions with this partitioner.
func newFence(partitioner kgo.Partitioner) *topicFence {
	return &topicFence{Partitioner: partitioner, up: map[string]bool{}}
}

// On sets the client. It is separate from newFence because franz-go needs the partitioner to create the
// client.
func (f *topicFence) On(cl *kgo.Client) { f.cl = cl }

// ForTopic returns the partitioner of a topic. franz-go calls it when it adds a topic and has its partitions.
func (f *topicFence) ForTopic(topic string) kgo.TopicPartitioner {
	f.mu.Lock()
	f.up[topic] = true
	f.mu.Unlock()
	return &fencedTopic{placeTopic: f.Partitioner.ForTopic(topic).(placeTopic), cl: f.cl}
}

// TookUp returns true if the client has the partitions of topic, so that it can send records immediately.
func (f *topicFence) TookUp(topic string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.up[topic]
}

// fencedTopic is the fence of one topic.
type fencedTopic struct {
	placeTopic
	cl *kgo.Client
	id string // the topic's ID at the first record; "" before
}

var _ kgo.TopicPartitionerOnNewBatch = (*fencedTopic)(nil)

// expectedContext is the context of a record. It has the ID that the topic of the record must have.
type expectedContext struct {
	context.Context
	id string
}

// expectID returns a context for records of the topic with that ID.
func expectID(id string) *expectedContext { return &expectedContext{context.Background(), id} }

// recreatedContext is the context of a record that the fence refused. Its topic has another ID now.
type recreatedContext struct{ context.Context }

// Partition returns the partition of r, or -1 to refuse it. franz-go calls it under a lock.
func (f *fencedTopic) Partition(r *kgo.Record, n int) int {
	if m, ok := r.Context.(*expectedContext); ok {
		if f.id == "" {
			f.id = cachedID(f.cl, f.Name)
		}
		if f.id != m.id {
			r.Context = recreatedContext{m.Context}
			return -1
		}
	}
	return f.placeTopic.Partition(r, n)
}

// cachedID returns the ID of a topic from the cached metadata of cl, or "". It sends no request.
func cachedID(cl *kgo.Client, topic string) string {
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
	return topicID(resp.Topics[0].TopicID)
}
