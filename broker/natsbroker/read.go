package natsbroker

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/skald-go/skald/broker"
	"github.com/skald-go/skald/internal/backoff"
)

// read reads a partition from the position start, until ctx ends. It retries after errors.
func (s *Subscription) read(ctx context.Context, l *partition, start uint64) {
	for fails := 1; ctx.Err() == nil; fails++ {
		from := start
		err := s.follow(ctx, l, &start)
		if start > from {
			fails = 1
		}
		if errors.Is(err, jetstream.ErrStreamNotFound) {
			s.feed.Fail(fmt.Errorf("read partition %s: stream %s: %w", l.Name, l.topic.stream,
				broker.ErrNoTopic))
		}
		select {
		case <-ctx.Done():
		case <-time.After(backoff.Soon(fails)):
		}
	}
}

// follow reads from *position until an error. It uses a temporary consumer. After a gap, nats.go recreates
// the consumer behind the last message.
func (s *Subscription) follow(ctx context.Context, l *partition, position *uint64) error {
	c, err := s.b.js.OrderedConsumer(ctx, l.topic.stream, jetstream.OrderedConsumerConfig{
		FilterSubjects: l.topic.readSubjects(l.Index), DeliverPolicy: jetstream.DeliverByStartSequencePolicy,
		OptStartSeq: *position, InactiveThreshold: 30 * time.Second,
	})
	if err != nil {
		return err
	}
	it, err := c.Messages(jetstream.PullMaxMessagesWithBytesLimit(s.b.opts.Prefetch, fetchBytes),
		jetstream.PullExpiry(10*time.Second))
	if err != nil {
		return err
	}
	defer it.Stop()
	defer context.AfterFunc(ctx, it.Stop)()
	for name := ""; ; {
		m, err := it.Next()
		if err != nil {
			return err
		}
		meta, err := m.Metadata()
		if err != nil {
			return err
		}
		if meta.Consumer != name {
			// nats.go has created a consumer at this position, and the stream may have been recreated
			if err := s.inspect(ctx, l); err != nil {
				return err
			}
			name = meta.Consumer
		}
		msg, fault := decode(s.b.codec, l.topic.name, m.Headers(), m.Data(), meta.Sequence.Stream)
		if fault == nil {
			l.topic.routed(&msg, m.Subject())
		}
		d := broker.Delivery{Message: msg, Partition: l.Name, Position: int64(meta.Sequence.Stream),
			Fault: fault}
		if !s.put(ctx, l, d) {
			return ctx.Err()
		}
		*position = meta.Sequence.Stream + 1
		s.reached(l, meta)
	}
}

const (
	// aheadBytes limits the buffered messages of all partitions of a member. fetchBytes limits those of one
	// partition.
	aheadBytes = 32 << 20
	fetchBytes = 4 << 20
)

// room returns true if l may buffer one more message. The caller holds the lock.
func (s *Subscription) room(l *partition) bool {
	most := min(fetchBytes, aheadBytes/max(1, len(s.feed.All())))
	return l.Len() == 0 || l.Len() < s.b.opts.Prefetch && l.Bytes() < most
}

// put buffers a message. It waits while there is no room for l, so that a slow caller limits the reader. It
// returns false when ctx ends.
func (s *Subscription) put(ctx context.Context, l *partition, d broker.Delivery) bool {
	for {
		s.mu.Lock()
		if ctx.Err() != nil {
			s.mu.Unlock()
			return false
		}
		if s.room(l) {
			l.Put(d)
			s.mu.Unlock()
			s.feed.Wake()
			return true
		}
		s.mu.Unlock()
		select {
		case <-l.room:
		case <-ctx.Done():
			return false
		}
	}
}
