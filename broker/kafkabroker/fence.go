// This file keeps records out of a topic that was made anew since they were meant for it.

package kafkabroker

import (
	"context"
	"math"
	"sync"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// A topicFence keeps records out of a topic of another id than they are meant for. A client of franz-go
// takes the id that a topic has when it first has something for it, and no other as long as it lives; what
// it sends goes to that id or nowhere (from Kafka 4.1 on; before, by name). So it is enough to look at that
// id before the first record, which is here: franz-go asks for a partition as soon as it knows the topic.
type topicFence struct {
	kgo.Partitioner
	cl *kgo.Client // of which this is the partitioner; nobody else asks it about topics

	mu sync.Mutex
	up map[string]bool // topics that the client has taken up
}

// newFence is a fence that places records as by does.
func newFence(by kgo.Partitioner) *topicFence {
	return &topicFence{Partitioner: by, up: map[string]bool{}}
}

// On says of which client it is the partitioner: franz-go wants the one before the other.
func (f *topicFence) On(cl *kgo.Client) { f.cl = cl }

// ForTopic is called by franz-go each time that it takes up a topic, when it knows its partitions.
func (f *topicFence) ForTopic(topic string) kgo.TopicPartitioner {
	f.mu.Lock()
	f.up[topic] = true
	f.mu.Unlock()
	return &fenceOf{placeTopic: f.Partitioner.ForTopic(topic).(placeTopic), cl: f.cl}
}

// TookUp reports whether the client puts what it gets for topic on a partition at once.
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

// meant is the id of the topic that a record is for, as its context.
type meant struct {
	context.Context
	id string
}

// fenceFor is the context of records that are for the topic of that id.
func fenceFor(id string) *meant { return &meant{context.Background(), id} }

// astray is the context of a record for a topic that has another id.
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

// known is the id of a topic as its client knows it. It asks nobody.
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
