// This file keeps records out of a topic that was deleted and created again after they were meant for it.

package kafkabroker

import (
	"context"
	"math"
	"sync"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// topicFence keeps records out of a topic with another ID than they are meant for. A client of franz-go
// takes the ID of a topic at its first record, and keeps that ID. It sends by ID from Kafka 4.1 on, and by
// name before. So the fence checks the ID before the first record, when franz-go asks for its partition.
type topicFence struct {
	kgo.Partitioner
	cl *kgo.Client // the client with this partitioner; no other code asks it about topics

	mu sync.Mutex
	up map[string]bool // topics that the client has
}

// newFence returns a fence that places records as by does.
func newFence(by kgo.Partitioner) *topicFence {
	return &topicFence{Partitioner: by, up: map[string]bool{}}
}

// On sets the client, which franz-go creates after its partitioner.
func (f *topicFence) On(cl *kgo.Client) { f.cl = cl }

// ForTopic is called by franz-go each time that it adds a topic, when it knows its partitions.
func (f *topicFence) ForTopic(topic string) kgo.TopicPartitioner {
	f.mu.Lock()
	f.up[topic] = true
	f.mu.Unlock()
	return &fenceOf{placeTopic: f.Partitioner.ForTopic(topic).(placeTopic), cl: f.cl}
}

// TookUp returns true if the client places records of topic immediately.
func (f *topicFence) TookUp(topic string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.up[topic]
}

type fenceOf struct {
	placeTopic
	cl *kgo.Client
	id string // "" before the first record
}

var _ kgo.TopicPartitionerOnNewBatch = (*fenceOf)(nil)

// meant is the context of a record, with the ID of its topic.
type meant struct {
	context.Context
	id string
}

// fenceFor returns the context of records for the topic with that ID.
func fenceFor(id string) *meant { return &meant{context.Background(), id} }

// astray is the context of a record for a topic that has another ID now.
type astray struct{ context.Context }

// Partition is called by franz-go, under a lock.
func (f *fenceOf) Partition(r *kgo.Record, n int) int {
	if m, ok := r.Context.(*meant); ok {
		if f.id == "" {
			f.id = known(f.cl, f.Name)
		}
		if f.id != m.id {
			r.Context = astray{m.Context}
			return -1
		}
	}
	return f.placeTopic.Partition(r, n)
}

// known returns the ID of a topic from the metadata of its client, without a request.
func known(cl *kgo.Client, topic string) string {
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
