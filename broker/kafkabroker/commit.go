package kafkabroker

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/skald-go/skald/broker"
	"github.com/skald-go/skald/broker/internal/feed"
)

// Ack records acknowledgements. A background goroutine commits them together, after Options.Commit at the
// earliest. They are also committed when their partition moves and when the subscription closes. If the
// process dies before a commit, Kafka delivers the messages again.
func (s *Subscription) Ack(_ context.Context, ds []broker.Delivery) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	moved, err := s.assigned.Ack(ds)
	if len(moved) > 0 {
		feed.Signal(s.dirty)
	}
	return err
}

// commitLoop commits acknowledgements. It waits Options.Commit before each commit, to commit many
// acknowledgements together.
func (s *Subscription) commitLoop() {
	for {
		select {
		case <-s.dirty:
		case <-s.ctx.Done():
			return
		}
		select {
		case <-time.After(s.b.opts.Commit):
		case <-s.ctx.Done():
			return
		}
		s.committing.Lock()
		err := s.commit(s.ctx, nil, true)
		s.committing.Unlock()
		if err != nil { // during a rebalance or an outage; the loop retries
			feed.Signal(s.dirty)
		}
	}
}

// commitLast commits before the member leaves its group. It retries during a rebalance.
func (s *Subscription) commitLast(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, s.b.opts.Session)
	defer cancel()
	for {
		s.committing.Lock()
		err := s.commit(ctx, nil, false)
		s.committing.Unlock()
		if !isAny(err, kerr.RebalanceInProgress) {
			return err
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// commit commits the acknowledgements of the partitions ps, or of all partitions if ps is nil. With sign it
// also writes the notes that Kafka does not have yet. The caller holds s.committing, so that no partition
// moves meanwhile. Otherwise this commit could overwrite a higher offset of the next owner.
func (s *Subscription) commit(ctx context.Context, ps map[string][]int32, sign bool) (err error) {
	s.mu.Lock()
	offsets, notes := s.assigned.offsets(ps, sign), s.assigned.commitNotes()
	if s.lazy {
		offsets = nil
	}
	s.mu.Unlock()
	if len(offsets) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, s.b.opts.Session)
	defer cancel()
	noting := kgo.PreCommitFnContext(ctx, func(req *kmsg.OffsetCommitRequest) error {
		for _, t := range req.Topics {
			for i := range t.Partitions {
				note := notes[partitionName(t.Topic, t.Partitions[i].Partition)]
				t.Partitions[i].Metadata = &note
			}
		}
		return nil
	})
	s.cl.CommitOffsetsSync(noting, offsets,
		func(_ *kgo.Client, req *kmsg.OffsetCommitRequest, resp *kmsg.OffsetCommitResponse, failed error) {
			if err = failed; err == nil {
				err = s.stored(offsets, req, resp)
			}
		})
	if err != nil {
		return fmt.Errorf("commit offsets of group %q: %w", s.group.Name, err)
	}
	return nil
}

// stored records the offsets that Kafka has committed. From version 10 of the request on, the response has
// topic IDs instead of names.
func (s *Subscription) stored(offsets map[string]map[int32]kgo.EpochOffset, req *kmsg.OffsetCommitRequest,
	resp *kmsg.OffsetCommitResponse) error {
	names := map[[16]byte]string{}
	for _, t := range req.Topics {
		names[t.TopicID] = t.Topic
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	var errs []error
	for _, t := range resp.Topics {
		if t.Topic == "" {
			t.Topic = names[t.TopicID]
		}
		for _, p := range t.Partitions {
			if err := kerr.ErrorForCode(p.ErrorCode); err != nil {
				errs = append(errs, fmt.Errorf("%s: %w", partitionName(t.Topic, p.Partition), err))
				continue
			}
			s.assigned.stored(t.Topic, p.Partition, offsets[t.Topic][p.Partition].Offset)
		}
	}
	return errors.Join(errs...)
}
