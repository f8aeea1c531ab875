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

// begin commits start= for a group that neither its database nor Kafka knows. Not as the client's own reset,
// which would apply as well to partitions that are added later and to members that die before their first
// commit: both would skip messages.
func (b *Broker) begin(ctx context.Context, g broker.Group) error {
	if b.with.start == (start{}) {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, b.opts.Session)
	defer cancel()
	if g.Resume != nil {
		told, err := g.Resume(ctx, nil)
		if err != nil {
			return fmt.Errorf("look up where the group starts: %w", err)
		}
		if told.Known {
			return nil
		}
	}
	for {
		err := b.commitStart(ctx, g)
		if !faultAny(err, kerr.CoordinatorNotAvailable, kerr.CoordinatorLoadInProgress,
			kerr.NotCoordinator) {
			return err // nil, too
		}
		select { // the first group of a cluster waits for the topic that holds offsets
		case <-ctx.Done():
			return err
		case <-time.After(50 * time.Millisecond):
		}
	}
}

func (b *Broker) commitStart(ctx context.Context, g broker.Group) error {
	for try := 0; ; try++ {
		committed, err := b.standing(ctx, g.Name)
		if err != nil || committed.known() {
			return err
		}
		ids, err := b.Topics(ctx, g.Topics...)
		if err != nil {
			return fmt.Errorf("look up where the group starts: %w", err)
		}
		at, err := b.resolve(ctx, g)
		if err != nil {
			return err
		}
		at.Each(func(o kadm.Offset) {
			o.Metadata = note{feed.Of(&g), ids[o.Topic], o.At}.text()
			at[o.Topic][o.Partition] = o
		})
		stored, err := b.adm.CommitOffsets(ctx, g.Name, at)
		if err == nil {
			err = stored.Error()
		}
		switch {
		case err == nil:
			return nil
		case !faultAny(err, kerr.UnknownMemberID, kerr.RebalanceInProgress):
			return fmt.Errorf("commit where the group starts: %w", orAway(err))
		case try > 0: // a rival that came first has committed before it joined
			return fmt.Errorf(
				"the group has members and has committed nothing: end them, or set the start with "+
					"kafka-consumer-groups.sh --reset-offsets, or choose start earliest: %w", err)
		}
	}
}

// resolve returns the offsets of start=. With start=latest, a topic that a member of g waited for begins at
// its oldest message: all of its messages came after the group.
func (b *Broker) resolve(ctx context.Context, g broker.Group) (kadm.Offsets, error) {
	var listed kadm.ListedOffsets
	var err error
	if s := b.with.start; s.latest {
		listed, err = b.adm.ListEndOffsets(ctx, g.Topics...)
	} else {
		listed, err = b.adm.ListOffsetsAfterMilli(ctx, s.at.UnixMilli(), g.Topics...)
	}
	if err == nil {
		err = listed.Error()
	}
	if late := b.came(&g); err == nil && b.with.start.latest && len(late) > 0 {
		var starts kadm.ListedOffsets
		if starts, err = b.adm.ListStartOffsets(ctx, late...); err == nil {
			err = starts.Error()
		}
		for _, t := range late {
			listed[t] = starts[t]
		}
	}
	if err != nil {
		return nil, fmt.Errorf("look up where the group starts: %w", orAway(err))
	}
	return listed.Offsets(), nil
}

// await remembers that group subscribed to a topic before it existed, if err says so.
func (b *Broker) await(group, topic string, err error) {
	if errors.Is(err, broker.ErrNoTopic) {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.awaited[[2]string{group, topic}] = true
	}
}

// came returns the topics of g that exist now and did not when g subscribed first.
func (b *Broker) came(g *broker.Group) (topics []string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, t := range g.Topics {
		if b.awaited[[2]string{g.Name, t}] {
			topics = append(topics, t)
		}
	}
	return topics
}

// renew goes on with topics that were deleted, and are or will be made anew: their partitions are gone, with
// all that was acknowledged there, and franz-go looks for the topics again. A broker that lags says the same
// of a topic that is there: see forget.
func (s *Subscription) renew(topics []string) {
	if len(topics) == 0 {
		return
	}
	ps := map[string][]int32{}
	s.committing.Lock() // no commit of the old one reaches the new one
	s.mu.Lock()
	for _, t := range topics {
		ps[t] = s.assigned.partitions(t)
		s.anew[t] = s.ids[t]
	}
	s.assigned.lose(ps, false)
	s.mu.Unlock()
	s.committing.Unlock()
	s.cl.PurgeTopicsFromConsuming(topics...)
	s.cl.AddConsumeTopics(topics...)
}

// offsets are those of partitions, by topic and partition.
type offsets = map[string]map[int32]kgo.Offset

// from is where partitions are read from: feed.Facts has the rule.
func (s *Subscription) from(ctx context.Context, at offsets) (offsets, error) {
	<-s.made
	if err := s.b.checkOwner(ctx, s.group); err != nil {
		return nil, err
	}
	topics := slices.Sorted(maps.Keys(at))
	ids, err := s.b.Topics(ctx, topics...)
	if err != nil {
		return nil, fmt.Errorf("look up where partitions begin: %w", err)
	}
	s.forget(at, ids)
	var partitions []broker.Partition
	for t, ps := range at {
		for p := range ps {
			partitions = append(partitions, broker.Partition{Name: partitionName(t, p), Clean: true,
				Origin: ids[t]})
		}
	}
	var told broker.Resumed
	if s.group.Resume != nil && len(partitions) > 0 {
		if told, err = s.group.Resume(ctx, partitions); err != nil {
			return nil, fmt.Errorf("look up where partitions begin: %w", err)
		}
	}
	committed, err := s.b.standing(ctx, s.group.Name)
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
			f := feed.FactsOf(s.group.Resume != nil, told, name)
			is := committed.note(t, p)
			f.Group, f.Position = committed.known(), offset.EpochOffset().Offset
			f.Oldest, f.End = held.of(t, p)
			f.First, f.Own = feed.None, is.ours
			switch {
			case is.ours && is.Topic != ids[t]: // of a topic that was deleted
				f.Position = feed.None
			case is.ours:
				f.First = is.First
			}
			one := s.beginning(&f, broker.Partition{Name: name, Clean: true, Origin: ids[t]})
			one.unsigned = !is.ours || is.note != one.says
			if begun = append(begun, one); one.Start <= f.End { // else Kafka resets it to the oldest
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

// A beginning is where a partition begins, with what its commits note.
type beginning struct {
	broker.Partition
	says     note
	unsigned bool // Kafka does not have that note
	missed   int64
}

// beginning goes by the rule. Retention may have removed what comes first.
func (s *Subscription) beginning(f *feed.Facts, of broker.Partition) beginning {
	out := beginning{Partition: of, says: note{feed.Of(&s.group), of.Origin, f.First}}
	start, again := f.Begin()
	out.Again, out.Started = again, true
	switch o, _ := f.Origin(); {
	case start < 0: // earliest: another start was committed before the group was joined
		start = f.Oldest
		out.says.First = start
	case o == feed.Oldest, o == feed.Position && !f.Own:
		out.says.First = start
	}
	out.missed = max(0, f.Oldest-start)
	out.Start = start + out.missed
	return out
}

// forget drops what is committed of a topic that was made anew: it may be of the old one. A topic that has
// the id that it had is the one that was read: a broker that did not know it yet had answered. The id has to
// be that by which this client fetches, too: so what is committed of one topic is never read of another.
func (s *Subscription) forget(at offsets, ids broker.Topics) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for t, ps := range at {
		was, anew := s.anew[t]
		s.ids[t] = ids[t]
		if !anew {
			continue
		}
		delete(s.anew, t)
		if was == ids[t] && was == known(s.cl, t) && was != "" && was != topicID([16]byte{}) {
			continue
		}
		for p := range ps {
			ps[p] = kgo.NewOffset().AtStart()
		}
	}
}

// Find asks Kafka where partitions are from a time on.
func (b *Broker) Find(ctx context.Context, topic string, at time.Time) ([]broker.Place, error) {
	listed, err := b.adm.ListOffsetsAfterMilli(ctx, at.UnixMilli(), topic)
	if err == nil {
		err = listed.Error()
	}
	if errors.Is(err, kerr.UnknownTopicOrPartition) {
		return nil, fmt.Errorf("find a time in %q: %w", topic, broker.ErrNoTopic)
	}
	if err != nil {
		return nil, fmt.Errorf("find a time in %q: %w", topic, orAway(err))
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
