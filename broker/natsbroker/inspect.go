package natsbroker

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/skald-go/skald/broker"
	"github.com/skald-go/skald/broker/internal/feed"
)

var errRecreated = errors.New("its stream was made anew")

// inspect looks whether the stream of a partition is the one that the partition was claimed of, and holds
// what is to be read next. A stream of another birth has other messages at the same positions, so the
// partition is lost, uncleanly: whoever claims it begins where that stream does. What was removed unread is
// told once.
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
	if born(info) != l.topic.created {
		err := fmt.Errorf("partition %s: stream %s: %w: its partitions begin anew", l.Name, l.topic.stream,
			errRecreated)
		s.lose(l, false)
		s.feed.Fail(err)
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if first := info.State.FirstSeq; l.topic.dense() && first > l.read {
		s.misses(l, first, int64(first-l.read))
	}
	return nil
}

// dense says whether every message of the stream is one of its only partition.
func (t *topic) dense() bool { return t.partitions == 1 && (t.shape == nil || t.shape.Filter == "") }

// misses notes what was removed unread, from what was to be read next on; the lock is held.
func (s *Subscription) misses(l *partition, to uint64, count int64) {
	s.feed.Miss(broker.Missed{Partition: l.Name, From: int64(l.read), To: int64(to), Count: count})
	l.read = to
}

// reached notes what has come of a partition. The partitions of a stream share its positions, so a gap tells
// nothing by itself; but behind each message the server tells how many of the partition are left, and what is
// left can only become more, unless some are removed.
func (s *Subscription) reached(l *partition, meta *jetstream.MsgMetadata) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if gone := int64(l.behind) - int64(meta.NumPending) - 1; !l.topic.dense() && gone > 0 {
		s.misses(l, meta.Sequence.Stream, gone)
	}
	l.read, l.behind = max(l.read, meta.Sequence.Stream+1), meta.NumPending
}

// removed is what a stream of several partitions removed before this one is claimed. Its partitions share
// positions, so certain is only what lies behind the farthest of the group. The partition that has come
// farthest tells, and is moved up to the first message, so that nobody tells again.
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

// stopped tells of a partition that shares its stream that all it had left was removed: then no message
// follows that would tell. It needs two turns of the patrol, so that nothing is on its way.
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
	left, err := s.b.behind(ctx, now, l.Index, read-1)
	if err != nil || left > 0 {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if l.read == read && l.behind == behind {
		s.misses(l, now.last+1, int64(behind))
		l.behind = 0
	}
}

// patrol inspects the streams of all partitions now and then: one that was made anew, or purged, sends
// nothing by itself.
func (s *Subscription) patrol() {
	tick := time.NewTicker(s.b.opts.Session / 2)
	defer tick.Stop()
	for {
		select {
		case <-s.ctx.Done():
			return
		case <-tick.C:
		}
		known := map[string]*jetstream.StreamInfo{}
		for _, l := range s.feed.Owned() {
			info := known[l.topic.stream]
			if info == nil {
				ctx, cancel := context.WithTimeout(s.ctx, patience)
				stream, err := s.b.js.Stream(ctx, l.topic.stream)
				cancel()
				if err != nil {
					continue // who reads it says so
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
