package natsbroker

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/skald-go/skald/broker"
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
			_ = s.compare(l, info)
		}
	}
}
