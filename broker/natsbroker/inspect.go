// This file detects streams that were deleted or recreated, and messages that were removed before the group
// read them.

package natsbroker

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/skald-go/skald/broker"
	"github.com/skald-go/skald/broker/internal/feed"
	"github.com/skald-go/skald/broker/internal/perkey"
)

var errRecreated = errors.New("its stream was deleted and created again")

// inspect checks that the stream of a partition was not recreated since the claim, and that it has the next
// message. A recreated stream has other messages at the same positions, so the member loses the partition.
// The next owner starts at the beginning of the new stream. inspect reports removed messages once.
func (s *Subscription) inspect(ctx context.Context, l *partition) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	stream, err := s.b.js.Stream(ctx, l.topic.stream)
	if err != nil {
		return err
	}
	return s.compare(l, stream.CachedInfo())
}

func (s *Subscription) compare(l *partition, info *jetstream.StreamInfo) error {
	if createdAt(info) != l.topic.created {
		err := fmt.Errorf("partition %s: stream %s: %w: its partitions start again", l.Name, l.topic.stream,
			errRecreated)
		s.lose(l, false)
		s.feed.Fail(err)
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if first := info.State.FirstSeq; l.topic.dense() && first > l.read {
		s.reportMissed(l, first, int64(first-l.read))
	}
	return nil
}

// dense returns true if the topic has one partition with all messages of the stream.
func (t *topic) dense() bool { return t.partitions == 1 && (t.shape == nil || t.shape.Filter == "") }

// reportMissed reports messages that were removed, from the next position to read up to the position end.
// The caller holds the lock.
func (s *Subscription) reportMissed(l *partition, end uint64, count int64) {
	s.feed.Miss(broker.Missed{Partition: l.Name, From: int64(l.read), To: int64(end), Count: count})
	l.read = end
}

// reached records the progress of a partition, and reports messages that were removed. The partitions of a
// stream share its positions, so a gap does not prove that messages were removed. But with each message the
// server sends the number of remaining messages of the partition. If this number falls by more than the
// messages that were read, messages were removed.
func (s *Subscription) reached(l *partition, meta *jetstream.MsgMetadata) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if gone := int64(l.behind) - int64(meta.NumPending) - 1; !l.topic.dense() && gone > 0 {
		s.reportMissed(l, meta.Sequence.Stream, gone)
	}
	l.read, l.behind = max(l.read, meta.Sequence.Stream+1), meta.NumPending
}

// removed finds messages that were removed before this partition was claimed, in a stream with several
// partitions. The partitions share positions, so a position may belong to any of them. Only the positions
// after the highest stored position of the group are certainly unread. The partition with that position
// reports them, so that they are reported once.
func (s *Subscription) removed(t topic, index int) (m broker.Missed) {
	if t.partitions == 1 || t.shape != nil && t.shape.Filter != "" {
		return m
	}
	most, at := uint64(0), -1
	for i := range t.partitions {
		if r := s.rows[s.partitionKey(t, i)]; r.Stream == t.created && r.Position > most {
			most, at = r.Position, i
		}
	}
	if at != index || t.first <= most+1 {
		return m
	}
	return broker.Missed{Partition: feed.Partition(t.name, index), From: int64(most) + 1, To: int64(t.first),
		Count: int64(t.first - most - 1)}
}

// stopped reports that all remaining messages of a partition in a shared stream were removed. No later
// message would show this. It needs two checks without progress, so that a message that is on its way does
// not count as removed.
func (s *Subscription) stopped(l *partition, info *jetstream.StreamInfo) {
	s.mu.Lock()
	read, behind, was := l.read, l.behind, l.stuck
	if l.stuck = read; l.Len() > 0 {
		l.stuck = 0
	}
	s.mu.Unlock()
	if l.topic.dense() || behind == 0 || was != read || was == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(s.ctx, patience)
	defer cancel()
	now := l.topic
	now.last = info.State.LastSeq
	left, err := s.b.countBehind(ctx, now, l.Index, read-1)
	if err != nil || left > 0 {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if l.read == read && l.behind == behind {
		s.reportMissed(l, now.last+1, int64(behind))
		l.behind = 0
	}
}

// missingTopics returns the topics that do not exist, and the topics with a stream that does not answer
// while NATS does. If a topic was also missing in the previous check, missingTopics reports an error to
// Receive, because reading from such a stream may end without an error.
func (s *Subscription) missingTopics(before map[string]bool) map[string]bool {
	now := map[string]bool{}
	for _, t := range s.topics {
		ctx, cancel := context.WithTimeout(s.ctx, 2*patience)
		_, err := s.b.lookSoon(ctx, t.name)
		cancel()
		if errors.Is(err, broker.ErrNoTopic) || errors.Is(err, perkey.ErrSilent) {
			if now[t.name] = true; before[t.name] {
				s.feed.Fail(&broker.TopicError{Topic: t.name, Err: err})
			}
		}
	}
	return now
}

// checkLoop checks the streams of all partitions at intervals, because NATS does not notify clients of a
// recreated or purged stream.
func (s *Subscription) checkLoop() {
	tick := time.NewTicker(s.b.opts.Session / 2)
	defer tick.Stop()
	missing := map[string]bool{} // by the last check
	for {
		select {
		case <-s.ctx.Done():
			return
		case <-tick.C:
		}
		missing = s.missingTopics(missing)
		known := map[string]*jetstream.StreamInfo{}
		for _, l := range s.feed.Owned() {
			info := known[l.topic.stream]
			if missing[l.topic.name] {
				continue
			}
			if info == nil {
				ctx, cancel := context.WithTimeout(s.ctx, patience)
				stream, err := s.b.js.Stream(ctx, l.topic.stream)
				cancel()
				if err != nil {
					continue // read reports the error
				}
				info = stream.CachedInfo()
				known[l.topic.stream] = info
			}
			if s.compare(l, info) == nil {
				s.stopped(l, info)
			}
		}
	}
}
