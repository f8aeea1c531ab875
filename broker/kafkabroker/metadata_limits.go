package kafkabroker

import (
	"context"
	"fmt"
	"sync"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

// usualLimit is Kafka's default of max.message.bytes, as franz-go has it.
const usualLimit = 1000012

// limits are what is known of topics: whether they are there, how large a batch may be, and how many
// partitions there are.
type limits struct {
	mu    sync.Mutex
	topic map[string]limit
}

// A limit is what is known of one topic.
type limit struct {
	Bytes      int // of a batch, at most
	Partitions int
	Err        error // the topic cannot be published to
}

// Init makes room; nothing is known yet.
func (l *limits) Init() { l.topic = map[string]limit{} }

// Of is the largest batch for topic.
func (l *limits) Of(topic string) int32 {
	l.mu.Lock()
	defer l.mu.Unlock()
	if known := l.topic[topic]; known.Bytes > 0 {
		return int32(known.Bytes)
	}
	return usualLimit
}

// Knows reports whether anything is known of topic.
func (l *limits) Knows(topic string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	_, ok := l.topic[topic]
	return ok
}

// About is what is known of topic.
func (l *limits) About(topic string) limit {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.topic[topic]
}

// Forget makes the next round ask again.
func (l *limits) Forget(topic string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.topic, topic)
}

// Lapse forgets those of topics that could not be used: the next round asks again.
func (l *limits) Lapse(topics []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, t := range topics {
		if l.topic[t].Err != nil {
			delete(l.topic, t)
		}
	}
}

// Learn asks Kafka about topics. An error is an outage.
func (l *limits) Learn(ctx context.Context, cl *kgo.Client, topics []string) error {
	there, err := look(ctx, cl, topics)
	if err != nil {
		return err
	}
	bytes := maxBytes(ctx, cl, topics)
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("look up limits of topics: %w", orAway(err))
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, t := range topics {
		known := limit{Bytes: bytes[t], Partitions: there[t].partitions}
		if known.Bytes == 0 {
			known.Bytes = usualLimit
		}
		if err := there[t].Err; err != nil && !kerr.IsRetriable(err) {
			// else it will be ready when the records are sent
			known.Err = err
		}
		l.topic[t] = known
	}
	return nil
}
