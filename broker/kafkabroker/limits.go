package kafkabroker

import (
	"context"
	"fmt"
	"sync"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/skald-go/skald/broker/kafkabroker/internal/fault"
)

// usualLimit is Kafka's default of max.message.bytes, as franz-go has it.
const usualLimit = 1000012

// limits are what is known of topics: whether they are there, how large a batch may be, and how many
// partitions there are.
type limits struct {
	mu    sync.Mutex
	topic map[string]limit
}

type limit struct {
	bytes      int
	partitions int
	err        error // the topic cannot be published to
}

func (l *limits) init() { l.topic = map[string]limit{} }

// of is the largest batch for topic.
func (l *limits) of(topic string) int32 {
	l.mu.Lock()
	defer l.mu.Unlock()
	if known := l.topic[topic]; known.bytes > 0 {
		return int32(known.bytes)
	}
	return usualLimit
}

// knows reports whether anything is known of topic.
func (l *limits) knows(topic string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	_, ok := l.topic[topic]
	return ok
}

// about is what is known of topic.
func (l *limits) about(topic string) limit {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.topic[topic]
}

// forget makes the next round ask again.
func (l *limits) forget(topic string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.topic, topic)
}

// lapse forgets those of topics that could not be used: the next round asks again.
func (l *limits) lapse(topics []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, t := range topics {
		if l.topic[t].err != nil {
			delete(l.topic, t)
		}
	}
}

// learn asks Kafka about topics. An error is an outage.
func (l *limits) learn(ctx context.Context, cl *kgo.Client, topics []string) error {
	there, err := look(ctx, cl, topics)
	if err != nil {
		return err
	}
	bytes := maxBytes(ctx, cl, topics)
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("look up limits of topics: %w", fault.OrAway(err))
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, t := range topics {
		known := limit{bytes: bytes[t], partitions: there[t].partitions}
		if known.bytes == 0 {
			known.bytes = usualLimit
		}
		if err := there[t].err; err != nil && !kerr.IsRetriable(err) {
			// else it will be ready when the records are sent
			known.err = err
		}
		l.topic[t] = known
	}
	return nil
}
