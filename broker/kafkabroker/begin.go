// This file determines the first offset of each partition that a member gains.

package kafkabroker

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/skald-go/skald/broker"
	"github.com/skald-go/skald/broker/internal/feed"
)

// begin commits the offsets of Options.Start for a group that has no position in its database or in Kafka.
// The reset policy of the client cannot do this, because it would skip messages in two cases: in partitions
// that are added later, and after a member died before its first commit.
func (b *Broker) begin(ctx context.Context, g broker.Group) error {
	if b.with.start == (start{}) {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, b.opts.Session)
	defer cancel()
	if g.Resume != nil {
		stored, err := g.Resume(ctx, nil)
		if err != nil {
			return fmt.Errorf("read the start of the group: %w", err)
		}
		if stored.Known {
			return nil
		}
	}
	for {
		err := b.commitStart(ctx, g)
		if !isAny(err, kerr.CoordinatorNotAvailable, kerr.CoordinatorLoadInProgress,
			kerr.NotCoordinator) {
			return err // nil, too
		}
		select { // Kafka creates its topic of offsets for the first group of a cluster
		case <-ctx.Done():
			return err
		case <-time.After(50 * time.Millisecond):
		}
	}
}

func (b *Broker) commitStart(ctx context.Context, g broker.Group) error {
	for try := 0; ; try++ {
		committed, err := b.committedOffsets(ctx, g.Name)
		if err != nil || committed.hasAny() {
			return err
		}
		ids, err := b.Topics(ctx, g.Topics...)
		if err != nil {
			return fmt.Errorf("read the start of the group: %w", err)
		}
		at, err := b.resolve(ctx, g)
		if err != nil {
			return err
		}
		at.Each(func(o kadm.Offset) {
			o.Metadata = note{feed.StoredOwner(&g), ids[o.Topic], o.At}.text()
			at[o.Topic][o.Partition] = o
		})
		stored, err := within(ctx, func() (kadm.OffsetResponses, error) {
			return b.adm.CommitOffsets(ctx, g.Name, at)
		})
		if err == nil {
			err = stored.Error()
		}
		switch {
		case err == nil:
			return nil
		case !isAny(err, kerr.UnknownMemberID, kerr.RebalanceInProgress):
			return fmt.Errorf("commit the start of the group: %w", orUnavailable(err))
		case try > 0: // the first try may fail because another new member has committed and joined
			return fmt.Errorf(
				"the group has members and no committed offsets: stop the members, or set the start with "+
					"kafka-consumer-groups.sh --reset-offsets, or use start=earliest: %w", err)
		}
	}
}

// resolve returns the offsets of Options.Start. With "latest", a topic starts at its oldest message if it did
// not exist when g subscribed first, because all of its messages are newer than the group.
func (b *Broker) resolve(ctx context.Context, g broker.Group) (kadm.Offsets, error) {
	var listed kadm.ListedOffsets
	var err error
	if s := b.with.start; s.latest {
		listed, err = within(ctx, func() (kadm.ListedOffsets, error) {
			return b.adm.ListEndOffsets(ctx, g.Topics...)
		})
	} else {
		listed, err = within(ctx, func() (kadm.ListedOffsets, error) {
			return b.adm.ListOffsetsAfterMilli(ctx, s.at.UnixMilli(), g.Topics...)
		})
	}
	if err == nil {
		err = listed.Error()
	}
	if late := b.createdLater(&g); err == nil && b.with.start.latest && len(late) > 0 {
		var starts kadm.ListedOffsets
		if starts, err = within(ctx, func() (kadm.ListedOffsets, error) {
			return b.adm.ListStartOffsets(ctx, late...)
		}); err == nil {
			err = starts.Error()
		}
		for _, t := range late {
			listed[t] = starts[t]
		}
	}
	if err != nil {
		return nil, fmt.Errorf("read the start of the group: %w", orUnavailable(err))
	}
	return listed.Offsets(), nil
}

// noteMissing records that group subscribed to topic before the topic existed, if err wraps
// broker.ErrNoTopic.
func (b *Broker) noteMissing(group, topic string, err error) {
	if errors.Is(err, broker.ErrNoTopic) {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.awaited[[2]string{group, topic}] = true
	}
}

// createdLater returns the topics of g that did not exist when g subscribed first.
func (b *Broker) createdLater(g *broker.Group) (topics []string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, t := range g.Topics {
		if b.awaited[[2]string{g.Name, t}] {
			topics = append(topics, t)
		}
	}
	return topics
}

// resubscribe subscribes again to topics that Kafka reported as deleted, because they may be recreated. The
// member loses their partitions, with the acknowledgements that are not committed. franz-go then looks for
// the topics again. A broker with old metadata may report an existing topic as deleted; see forget.
func (s *Subscription) resubscribe(topics []string) {
	if len(topics) == 0 {
		return
	}
	ps := map[string][]int32{}
	s.committing.Lock() // so that no commit of the old topic reaches the new topic
	s.mu.Lock()
	for _, t := range topics {
		ps[t] = s.assigned.partitions(t)
		s.deletedIDs[t] = s.ids[t]
	}
	s.assigned.lose(ps, false)
	s.mu.Unlock()
	s.committing.Unlock()
	s.cl.PurgeTopicsFromConsuming(topics...)
	s.cl.AddConsumeTopics(topics...)
}

// offsets maps topics and partitions to offsets.
type offsets = map[string]map[int32]kgo.Offset

// firstOffsets returns the offsets at which the member starts to read its new partitions. franz-go calls
// this function. feed.Facts has the rule.
func (s *Subscription) firstOffsets(ctx context.Context, at offsets) (offsets, error) {
	<-s.made
	if err := s.b.checkOwner(ctx, s.group); err != nil {
		return nil, err
	}
	topics := slices.Sorted(maps.Keys(at))
	ids, err := s.b.Topics(ctx, topics...)
	if err != nil {
		return nil, fmt.Errorf("read the first offsets of partitions: %w", err)
	}
	s.forget(at, ids)
	var partitions []broker.Partition
	for t, ps := range at {
		for p := range ps {
			partitions = append(partitions, broker.Partition{Name: partitionName(t, p), Clean: true,
				Origin: ids[t]})
		}
	}
	var stored broker.Resumed
	if s.group.Resume != nil && len(partitions) > 0 {
		if stored, err = s.group.Resume(ctx, partitions); err != nil {
			return nil, fmt.Errorf("read the first offsets of partitions: %w", err)
		}
	}
	committed, err := s.b.committedOffsets(ctx, s.group.Name)
	if err != nil {
		return nil, err
	}
	held, err := s.b.retained(ctx, topics)
	if err != nil {
		return nil, err
	}
	begun := make([]beginning, 0, len(partitions))
	for t, ps := range at {
		for p, offset := range ps {
			name := partitionName(t, p)
			f := feed.FactsOf(s.group.Resume != nil, stored, name)
			is := committed.note(t, p)
			f.Group, f.Position = committed.hasAny(), offset.EpochOffset().Offset
			f.Oldest, f.End = held.offsetRange(t, p)
			f.First, f.Own = feed.None, is.ours
			switch {
			case is.ours && is.Topic != ids[t]: // the offset of a deleted topic
				f.Position = feed.None
			case is.ours:
				f.First = is.First
			}
			one := s.beginning(&f, broker.Partition{Name: name, Clean: true, Origin: ids[t]})
			one.unsigned = !is.ours || is.note != one.says
			if begun = append(begun, one); one.Start <= f.End { // otherwise Kafka resets it to the oldest
				ps[p] = kgo.NewOffset().At(one.Start)
			}
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.assigned.begin(begun)
	s.assigned.Wake()
	feed.Signal(s.dirty)
	return at, nil
}

// beginning is the start of a partition, and the note that is committed with its offsets.
type beginning struct {
	broker.Partition
	says     note
	unsigned bool  // Kafka does not have that note yet
	missed   int64 // the number of offsets that retention removed before the group read them
}

// beginning applies the rule of feed.Facts to one partition. It moves the start past messages that retention
// has removed.
func (s *Subscription) beginning(f *feed.Facts, of broker.Partition) beginning {
	out := beginning{Partition: of, says: note{feed.StoredOwner(&s.group), of.Origin, f.First}}
	start, again := f.Begin()
	out.Redelivered, out.Started = again, true
	switch o, _ := f.Origin(); {
	case start < 0: // Options.Start is "earliest"; begin has committed any other start
		start = f.Oldest
		out.says.First = start
	case o == feed.Oldest, o == feed.Position && !f.Own:
		out.says.First = start
	}
	out.missed = max(0, f.Oldest-start)
	out.Start = start + out.missed
	return out
}

// forget ignores the committed offsets of a topic that was recreated, because they may belong to the old
// topic. If the ID of the topic is unchanged, the topic was not recreated: a broker with old metadata
// reported it as deleted. forget then keeps the offsets, but only if this client also fetches by that ID.
// Otherwise it could use offsets of one topic for another topic.
func (s *Subscription) forget(at offsets, ids broker.Topics) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for t, ps := range at {
		was, deleted := s.deletedIDs[t]
		s.ids[t] = ids[t]
		if !deleted {
			continue
		}
		delete(s.deletedIDs, t)
		if was == ids[t] && was == cachedID(s.cl, t) && was != "" && was != topicID([16]byte{}) {
			continue
		}
		for p := range ps {
			ps[p] = kgo.NewOffset().AtStart()
		}
	}
}

// Find returns, for each partition of topic, the offset of the first message that is not older than at.
func (b *Broker) Find(ctx context.Context, topic string, at time.Time) ([]broker.Place, error) {
	listed, err := within(ctx, func() (kadm.ListedOffsets, error) {
		return b.adm.ListOffsetsAfterMilli(ctx, at.UnixMilli(), topic)
	})
	if err == nil {
		err = listed.Error()
	}
	if errors.Is(err, kerr.UnknownTopicOrPartition) {
		return nil, fmt.Errorf("find a time in %q: %w", topic, broker.ErrNoTopic)
	}
	if err != nil {
		return nil, fmt.Errorf("find a time in %q: %w", topic, orUnavailable(err))
	}
	ids, err := b.Topics(ctx, topic)
	if err != nil {
		return nil, fmt.Errorf("find a time in %q: %w", topic, err)
	}
	var out []broker.Place
	listed.Each(func(o kadm.ListedOffset) {
		out = append(out, broker.Place{Partition: broker.Partition{Name: partitionName(o.Topic, o.Partition),
			Clean: true, Origin: ids[topic]}, Position: o.Offset})
	})
	slices.SortFunc(out,
		func(a, b broker.Place) int { return strings.Compare(a.Partition.Name, b.Partition.Name) })
	return out, nil
}
