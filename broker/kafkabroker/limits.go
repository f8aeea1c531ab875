package kafkabroker

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/skald-go/skald/broker"
)

// usualLimit is Kafka's default of max.message.bytes, as franz-go has it.
const usualLimit = 1000012

// limits are what is known of topics: whether they are there, and how large a batch may be.
type limits struct {
	mu    sync.Mutex
	topic map[string]limit
	stale []string // forgotten, and to be forgotten by the client too
}

type limit struct {
	bytes int
	err   error // the topic cannot be published to: good for one round only
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

// knows reports whether topic is known to be there.
func (l *limits) knows(topic string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	known, ok := l.topic[topic]
	return ok && known.err == nil
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
	if !slices.Contains(l.stale, topic) {
		l.stale = append(l.stale, topic)
	}
}

// purge makes the client forget, too. It is called between rounds, when nothing is buffered.
func (l *limits) purge(cl *kgo.Client) {
	l.mu.Lock()
	stale := l.stale
	l.stale = nil
	l.mu.Unlock()
	cl.PurgeTopicsFromProducing(stale...)
}

// learn asks Kafka about topics. An error is an outage.
func (l *limits) learn(ctx context.Context, cl *kgo.Client, topics []string) error {
	adm := kadm.NewClient(cl)
	md, err := adm.Metadata(ctx, topics...)
	if err != nil {
		return fmt.Errorf("look up topics: %w", orAway(err))
	}
	configs, err := adm.DescribeTopicConfigs(ctx, topics...)
	if err != nil && ctx.Err() != nil {
		return fmt.Errorf("look up limits of topics: %w", orAway(err))
	} // else there may be no right to ask: the usual limit holds
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, t := range topics {
		d, ok := md.Topics[t]
		known := limit{bytes: maxBytes(configs, t)}
		switch {
		case !ok, errors.Is(d.Err, kerr.UnknownTopicOrPartition), errors.Is(d.Err, kerr.InvalidTopicException):
			known.err = fmt.Errorf("topic %q: %w", t, broker.ErrNoTopic)
		case d.Err != nil && !kerr.IsRetriable(d.Err):
			known.err = fmt.Errorf("topic %q: %w", t, d.Err)
		}
		l.topic[t] = known
	}
	return nil
}

func maxBytes(configs kadm.ResourceConfigs, topic string) int {
	for _, rc := range configs {
		if rc.Name != topic || rc.Err != nil {
			continue
		}
		for _, c := range rc.Configs {
			if c.Key == "max.message.bytes" && c.Value != nil {
				if n, err := strconv.Atoi(*c.Value); err == nil && n > 0 {
					return min(n, usualLimit*16)
				}
			}
		}
	}
	return usualLimit
}
