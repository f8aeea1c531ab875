package kafkabroker

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/skald-go/skald/broker"
	"github.com/skald-go/skald/broker/internal/feed"
)

// Subscription is one member of a group, with its own client. One goroutine fetches messages in advance,
// another one commits, and a third one checks retention. Rebalances are cooperative: a member continues with
// the partitions that it keeps.
type Subscription struct {
	b     *Broker
	cl    *kgo.Client
	made  chan struct{} // closed when cl is set; the client may call methods before that
	group broker.Group
	room  chan struct{} // signals that there may be room for more records
	dirty chan struct{} // signals that there is an offset to commit

	unpacker *unpacker

	ctx    context.Context // of the goroutines; ended by end
	cancel context.CancelFunc
	wg     sync.WaitGroup

	committing sync.Mutex // held during a commit, and while partitions are lost

	mu       sync.Mutex
	assigned assignment
	lazy     bool              // end must not commit, and must not leave the group
	ids      map[string]string // topic IDs at the last assignment, by topic
	// deletedIDs has the old IDs of topics that Kafka reported as deleted, until from reads their IDs again
	deletedIDs map[string]string
}

var _ broker.Subscription = (*Subscription)(nil)

// Subscribe joins g. It returns a *broker.TopicError if a topic does not exist or cannot be read.
func (b *Broker) Subscribe(ctx context.Context, g broker.Group) (broker.Subscription, error) {
	switch {
	case g.Name == "":
		return nil, errors.New("subscribe: the group has no name")
	case len(g.Topics) == 0:
		return nil, fmt.Errorf("subscribe group %q: no topics", g.Name)
	}
	there, err := look(ctx, b.cl, g.Topics)
	if err != nil {
		return nil, fmt.Errorf("subscribe group %q: %w", g.Name, err)
	}
	for _, t := range g.Topics {
		if err := there[t].reading(t); err != nil {
			b.noteMissing(g.Name, t, err)
			err = fmt.Errorf("subscribe group %q: %w", g.Name, withRight(err, "READ", "the topic"))
			return nil, &broker.TopicError{Topic: t, Err: err}
		}
	}
	if err := b.checkOwner(ctx, g); err != nil {
		return nil, fmt.Errorf("subscribe: %w", err)
	}
	if err := b.begin(ctx, g); err != nil {
		return nil, fmt.Errorf("subscribe group %q: %w", g.Name, err)
	}
	s := &Subscription{b: b, group: g, ids: map[string]string{}, deletedIDs: map[string]string{}}
	if s.unpacker, err = newUnpacker(); err != nil {
		return nil, fmt.Errorf("subscribe group %q: %w", g.Name, err)
	}
	s.room, s.dirty, s.made = make(chan struct{}, 1), make(chan struct{}, 1), make(chan struct{})
	s.assigned = assignment{feed.New[*partition](&s.mu), b.with.codec}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return nil, broker.ErrClosed
	}
	if s.cl, err = kgo.NewClient(b.clientOptions(s.consuming()...)...); err != nil {
		return nil, fmt.Errorf("subscribe group %q: %w", g.Name, err)
	}
	close(s.made)
	b.subs[s] = true
	s.wg.Go(s.fetch)
	s.wg.Go(s.commitLoop)
	s.wg.Go(s.checkLoop)
	return s, nil
}

// consuming returns the options of the client that consumes. With BlockRebalanceOnPoll a rebalance waits
// until put has stored the fetched records. So put never adds records to a later assignment of their
// partition.
func (s *Subscription) consuming() []kgo.Opt {
	o := s.b.opts
	out := []kgo.Opt{
		kgo.ClientID(s.b.clientID(s.group.Owner)),
		kgo.ConsumerGroup(s.group.Name),
		kgo.ConsumeTopics(s.group.Topics...),
		kgo.Balancers(s.b.with.balancers...),
		kgo.ConsumeStartOffset(kgo.NewOffset().AtStart()),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		kgo.KeepControlRecords(), // so that offsets behind them can be committed
		kgo.FetchMaxWait(500 * time.Millisecond),
		kgo.FetchMaxBytes(4 << 20),
		kgo.WithDecompressor(s.unpacker),
		kgo.WithPools(s.unpacker),
		kgo.SessionTimeout(o.Session),
		kgo.HeartbeatInterval(o.Heartbeat),
		kgo.DisableAutoCommit(),
		kgo.AdjustFetchOffsetsFn(s.firstOffsets),
		kgo.BlockRebalanceOnPoll(),
		kgo.OnPartitionsAssigned(
			func(_ context.Context, _ *kgo.Client, ps map[string][]int32) { s.gain(ps) }),
		kgo.OnPartitionsRevoked(
			func(ctx context.Context, _ *kgo.Client, ps map[string][]int32) { s.handOver(ctx, ps) }),
		kgo.OnPartitionsLost(
			func(_ context.Context, _ *kgo.Client, ps map[string][]int32) { s.lose(ps, false) }),
		kgo.WithHooks(onGroupError(s.groupFailed)),
	}
	if s.group.Member != "" {
		out = append(out, kgo.InstanceID(s.group.Member))
	}
	return out
}

// onGroupError is a hook of franz-go. It receives the reason why a session of the group ended.
type onGroupError func(error)

func (f onGroupError) OnGroupManageError(err error) { f(err) }

// groupFailed reports err to Receive. If another process uses the same member name, the subscription ends,
// because rejoining would remove the other process.
func (s *Subscription) groupFailed(err error) {
	<-s.made
	if errors.Is(err, kerr.FencedInstanceID) {
		fenced := fmt.Errorf("member %q of group %q: another process with this member name took over: %w: %w",
			s.group.Member, s.group.Name, err, broker.ErrClosed)
		s.mu.Lock()
		s.lazy = true
		s.mu.Unlock()
		go s.end(s.ctx, fenced)
		return
	}
	s.assigned.Fail(fmt.Errorf("group %q: %w", s.group.Name, withRight(err, "READ", "the group")))
}

func (s *Subscription) gain(ps map[string][]int32) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.assigned.gain(ps)
}

// handOver commits the acknowledgements of ps before another member gets these partitions.
func (s *Subscription) handOver(ctx context.Context, ps map[string][]int32) {
	<-s.made
	s.committing.Lock()
	defer s.committing.Unlock()
	_ = s.commit(ctx, ps, false) // if it fails, the next owner receives the messages again
	s.lose(ps, true)
}

func (s *Subscription) lose(ps map[string][]int32, clean bool) {
	if len(ps) == 0 {
		return
	}
	<-s.made
	s.mu.Lock()
	s.assigned.lose(ps, clean)
	s.mu.Unlock()
	s.cl.ResumeFetchPartitions(ps) // so that a later assignment is not paused
	feed.Signal(s.room)
}

// fetch moves records into their partitions while there is room.
func (s *Subscription) fetch() {
	defer s.cl.AllowRebalance()
	for s.ctx.Err() == nil {
		if !s.hasRoom() {
			select {
			case <-s.room:
			case <-s.ctx.Done():
			}
			continue
		}
		fetched := s.cl.PollRecords(s.ctx, s.b.opts.Prefetch)
		deleted, past := s.put(fetched)
		s.skip(past)
		s.cl.AllowRebalance()
		s.resubscribe(deleted)
		if slices.ContainsFunc(fetched.Errors(), delayed) {
			s.unpacker.collectGarbage(s.ctx)
		}
	}
}

func (s *Subscription) hasRoom() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	records, bytes := s.assigned.heldRecords()
	return records < s.b.opts.Prefetch && bytes < maxBytesHeld
}

// put adds fetched records to their partitions. It returns deleted topics, and offsets at which fetching must
// continue.
func (s *Subscription) put(fetched kgo.Fetches) (deleted []string, past skips) {
	past = skips{}
	s.mu.Lock()
	defer s.mu.Unlock()
	fetched.EachPartition(func(p kgo.FetchTopicPartition) {
		s.assigned.setFirst(p.Topic, p.Partition, p.LogStartOffset)
		if s.assigned.put(p.Topic, p.Partition, p.Records) {
			feed.Signal(s.dirty)
		}
		var session *kgo.ErrGroupSession
		switch err := p.Err; {
		case s.tooLarge(err, past):
		case isAny(err, kerr.UnknownTopicID, kerr.UnknownTopicOrPartition):
			if !slices.Contains(deleted, p.Topic) {
				deleted = append(deleted, p.Topic)
			}
			s.assigned.SetFault(fmt.Errorf("fetch %s: the topic was deleted: %w: %w",
				partitionName(p.Topic, p.Partition), broker.ErrNoTopic, err))
		case isAny(err, kerr.TopicAuthorizationFailed):
			s.assigned.SetFault(&broker.TopicError{Topic: p.Topic, Err: fmt.Errorf("fetch %s: %w",
				partitionName(p.Topic, p.Partition), withRight(err, "READ", "the topic"))})
		case err == nil, isAny(err, context.Canceled, kgo.ErrClientClosed, errBudget),
			errors.As(err, &session):
			// groupFailed reports errors of a group session
		default:
			s.assigned.SetFault(fmt.Errorf("fetch %s: %w", partitionName(p.Topic, p.Partition),
				withRight(err, "READ", "the topic")))
		}
	})
	s.assigned.dropPaused(past)
	s.assigned.Wake()
	return deleted, past
}

// Ready returns a channel that receives a value after changes and new messages.
func (s *Subscription) Ready() <-chan struct{} { return s.assigned.Ready() }

// Receive returns messages that are already fetched.
func (s *Subscription) Receive(_ context.Context, max int) (broker.Batch, error) {
	defer feed.Signal(s.room)
	return s.assigned.Receive(max)
}

// Alarm returns "", because Kafka does not report that it accepts no messages.
func (*Subscription) Alarm() string { return "" }

// Pause stops deliveries from partitions. It ignores partitions that are not owned.
func (s *Subscription) Pause(partitions ...string) {
	if paused := s.assigned.Pause(partitions...); len(paused) > 0 {
		s.cl.PauseFetchPartitions(byTopic(paused))
	}
	feed.Signal(s.room)
}

// Resume ends a pause.
func (s *Subscription) Resume(partitions ...string) {
	if resumed := s.assigned.Resume(partitions...); len(resumed) > 0 {
		s.cl.ResumeFetchPartitions(byTopic(resumed))
	}
	feed.Signal(s.room)
}

// Close commits acknowledgements, leaves the group and ends the subscription. It leaves the group even with a
// stable member name, so that the partitions move immediately.
func (s *Subscription) Close(ctx context.Context) error { return s.end(ctx, broker.ErrClosed) }

// end ends the subscription. Later calls of Receive return the error cause.
func (s *Subscription) end(ctx context.Context, cause error) error {
	s.mu.Lock()
	first, lazy := s.assigned.End(cause), s.lazy
	s.mu.Unlock()
	if !first {
		return nil
	}
	s.cancel()
	s.wg.Wait()
	var err error
	if !lazy {
		err = s.commitLast(ctx)
	}
	member, _ := s.cl.GroupMetadata()
	s.close(ctx)
	if s.group.Member != "" && !lazy {
		err = errors.Join(err, s.leave(ctx, member))
	}
	s.b.mu.Lock()
	delete(s.b.subs, s)
	s.b.mu.Unlock()
	return err
}

// close closes the client. When ctx ends, it returns, and the client closes in the background.
func (s *Subscription) close(ctx context.Context) {
	_ = s.cl.LeaveGroupContext(ctx)
	closed := make(chan struct{})
	go func() {
		s.cl.CloseAllowingRebalance()
		close(closed)
	}()
	select {
	case <-closed:
	case <-ctx.Done():
	}
}

// leave removes a member with a stable name from the group. franz-go does not do this.
func (s *Subscription) leave(ctx context.Context, member string) error {
	req := kmsg.NewPtrLeaveGroupRequest()
	req.Group = s.group.Name
	m := kmsg.NewLeaveGroupRequestMember()
	m.MemberID, m.InstanceID = member, &s.group.Member
	req.Members = append(req.Members, m)
	resp, err := within(ctx, func() (*kmsg.LeaveGroupResponse, error) { return req.RequestWith(ctx, s.b.cl) })
	if err == nil {
		err = kerr.ErrorForCode(resp.ErrorCode)
	}
	for i := 0; err == nil && i < len(resp.Members); i++ {
		e := kerr.ErrorForCode(resp.Members[i].ErrorCode)
		if e != nil && !isAny(e, kerr.UnknownMemberID, kerr.FencedInstanceID) {
			err = e
		}
	}
	if err != nil {
		return fmt.Errorf("leave group %q: %w", s.group.Name, err)
	}
	return nil
}
