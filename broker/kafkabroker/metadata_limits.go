package kafkabroker

import (
	"context"
	"fmt"
	"sync"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

// usualLimit is the default of max.message.bytes in Kafka and franz-go, in bytes.
const usualLimit = 1000012

// limits caches metadata of topics: their existence, their maximum batch size and their number of partitions.
type limits struct {
	mu    sync.Mutex
	topic map[string]limit
}

// limit has the metadata of one topic.
type limit struct {
	Bytes      int // the maximum size of a batch; 0 if unknown
	Partitions int
	Err        error // the reason why the topic accepts no messages, or nil
}

// Init creates the empty cache.
func (l *limits) Init() { l.topic = map[string]limit{} }

// Of returns the maximum batch size of topic, in bytes.
func (l *limits) Of(topic string) int32 {
	l.mu.Lock()
	defer l.mu.Unlock()
	if known := l.topic[topic]; known.Bytes > 0 {
		return int32(known.Bytes)
	}
	return usualLimit
}

// Knows returns true if topic is in the cache.
func (l *limits) Knows(topic string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	_, ok := l.topic[topic]
	return ok
}

// About returns the cached metadata of topic.
func (l *limits) About(topic string) limit {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.topic[topic]
}

// Forget removes topic from the cache, so that the next round requests its metadata.
func (l *limits) Forget(topic string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.topic, topic)
}

// Lapse removes those of topics that accept no messages, so that the next round requests their metadata.
func (l *limits) Lapse(topics []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, t := range topics {
		if l.topic[t].Err != nil {
			delete(l.topic, t)
		}
	}
}

// Learn requests the metadata of topics and caches it. An error is an outage.
func (l *limits) Learn(ctx context.Context, cl *kgo.Client, topics []string) error {
	there, err := look(ctx, cl, topics)
	if err != nil {
		return err
	}
	bytes := maxBytes(ctx, cl, topics)
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("read limits of topics: %w", orUnavailable(err))
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, t := range topics {
		known := limit{Bytes: bytes[t], Partitions: there[t].partitions}
		if known.Bytes == 0 {
			known.Bytes = usualLimit
		}
		if err := there[t].Err; err != nil && !kerr.IsRetriable(err) {
			// a retriable error is ignored: it may be over when the records are sent
			known.Err = err
		}
		l.topic[t] = known
	}
	return nil
}
