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
	"github.com/skald-go/skald/broker/kafkabroker/internal/fault"
	"github.com/skald-go/skald/broker/kafkabroker/internal/fence"
	"github.com/skald-go/skald/broker/kafkabroker/internal/metadata"
)

// begin commits where g starts in those topics of which it has committed nothing. Not as the client's own
// reset, which would apply as well to partitions that are added later and to members that die before their
// first commit: both would skip messages.
func (b *Broker) begin(ctx context.Context, g broker.Group) error {
	if b.with.start == (start{}) {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, b.opts.Session)
	defer cancel()
	for {
		err := b.commitStart(ctx, g)
		if !fault.Any(err, kerr.CoordinatorNotAvailable, kerr.CoordinatorLoadInProgress,
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
		fresh, err := b.fresh(ctx, g)
		if err != nil || len(fresh) == 0 {
			return err
		}
		at, err := b.resolve(ctx, fresh)
		if err != nil {
			return err
		}
		stored, err := b.adm.CommitOffsets(ctx, g.Name, at)
		if err == nil {
			err = stored.Error()
		}
		switch {
		case err == nil:
			return nil
		case !fault.Any(err, kerr.UnknownMemberID, kerr.RebalanceInProgress):
			return fmt.Errorf("commit where the group starts: %w", fault.OrAway(err))
		case try > 0: // a rival that came first has committed before it joined
			return fmt.Errorf(
				"the group has members and has committed nothing of %s: end them, or set the start with "+
					"kafka-consumer-groups.sh --reset-offsets, or choose start earliest: %w",
				strings.Join(fresh, ", "), err)
		}
	}
}

// fresh are the topics of g of which it has committed nothing.
func (b *Broker) fresh(ctx context.Context, g broker.Group) (out []string, err error) {
	committed, err := b.adm.FetchOffsets(ctx, g.Name)
	if err != nil && !errors.Is(err, kerr.GroupIDNotFound) {
		return nil, fmt.Errorf("look up what the group has committed: %w",
			fault.Lacking(fault.OrAway(err), "READ", "the group"))
	}
	for _, t := range g.Topics {
		any := false
		for _, p := range committed[t] {
			any = any || p.At >= 0
		}
		if !any {
			out = append(out, t)
		}
	}
	return out, nil
}

func (b *Broker) resolve(ctx context.Context, topics []string) (kadm.Offsets, error) {
	var listed kadm.ListedOffsets
	var err error
	if s := b.with.start; s.latest {
		listed, err = b.adm.ListEndOffsets(ctx, topics...)
	} else {
		listed, err = b.adm.ListOffsetsAfterMilli(ctx, s.at.UnixMilli(), topics...)
	}
	if err == nil {
		err = listed.Error()
	}
	if err != nil {
		return nil, fmt.Errorf("look up where the group starts: %w", fault.OrAway(err))
	}
	return listed.Offsets(), nil
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

// from is where partitions are read from: where they are committed, or earlier if that is wanted.
func (s *Subscription) from(ctx context.Context, at offsets) (offsets, error) {
	<-s.made
	if err := s.b.checkOwner(ctx, s.group); err != nil {
		return nil, err
	}
	ids, err := s.b.Topics(ctx, slices.Sorted(maps.Keys(at))...)
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
	var wanted map[string]int64
	if s.group.Resume != nil && len(partitions) > 0 {
		if wanted, err = s.group.Resume(ctx, partitions); err != nil {
			return nil, fmt.Errorf("look up where partitions begin: %w", err)
		}
	}
	starts, next := map[string]int64{}, map[string]int64{}
	for t, ps := range at {
		for p, committed := range ps {
			name, first := partitionName(t, p), committed.EpochOffset().Offset
			if to, some := wanted[name]; some && to < first {
				ps[p], first = kgo.NewOffset().At(to), to
			}
			if first >= 0 {
				next[name] = first
			}
			starts[name] = max(first, 0) // nothing is committed: from the beginning
		}
	}
	for i := range partitions {
		partitions[i].Start, partitions[i].Started = starts[partitions[i].Name], true
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.assigned.begin(partitions, next)
	s.assigned.Wake()
	return at, nil
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
		if was == ids[t] && was == fence.Known(s.cl, t) && was != "" && was != metadata.TopicID([16]byte{}) {
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
		return nil, fmt.Errorf("find a time in %q: %w", topic, fault.OrAway(err))
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
