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
)

// Subscription is one member of a group: a consumer of its own, with a goroutine that fetches ahead and one that
// commits. Rebalances are cooperative: lanes that stay flow on.
type Subscription struct {
	b     *Broker
	cl    *kgo.Client
	group broker.Group
	ready chan struct{}
	room  chan struct{} // something was taken out, or resumed
	dirty chan struct{} // something was acknowledged

	ctx    context.Context // of the goroutines; ended by end
	cancel context.CancelFunc
	wg     sync.WaitGroup

	committing sync.Mutex // at most one commit at a time, and none of a lane that is gone

	mu       sync.Mutex
	assigned assignment
	err      error           // an outage that Receive has not told yet
	gone     error           // what all calls answer since the end
	lazy     bool            // died: the end stores nothing and tells nobody
	anew     map[string]bool // topics that were deleted, until they are read again
}

var _ broker.Subscription = (*Subscription)(nil)

// Subscribe joins g. All of its topics must exist.
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
		if err := there[t].err; err != nil {
			return nil, fmt.Errorf("subscribe group %q: %w", g.Name, lacking(err, "READ", "the topic"))
		}
	}
	if err := b.begin(ctx, g); err != nil {
		return nil, fmt.Errorf("subscribe group %q: %w", g.Name, err)
	}
	s := &Subscription{b: b, group: g, anew: map[string]bool{}}
	s.ready, s.room, s.dirty = make(chan struct{}, 1), make(chan struct{}, 1), make(chan struct{}, 1)
	s.assigned.init()
	s.assigned.envelope = b.with.envelope
	s.ctx, s.cancel = context.WithCancel(context.Background())
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return nil, broker.ErrClosed
	}
	if s.cl, err = kgo.NewClient(b.client(s.consuming()...)...); err != nil {
		return nil, fmt.Errorf("subscribe group %q: %w", g.Name, err)
	}
	b.subs[s] = true
	s.wg.Go(s.fetch)
	s.wg.Go(s.commitLoop)
	return s, nil
}

// consuming are the options of the client that consumes. Rebalances wait only while fetched records are put into
// their lanes, so that what was fetched in one ownership of a lane is never taken for another's.
func (s *Subscription) consuming() []kgo.Opt {
	o := s.b.opts
	out := []kgo.Opt{
		kgo.ConsumerGroup(s.group.Name),
		kgo.ConsumeTopics(s.group.Topics...),
		kgo.Balancers(s.b.with.balancers...),
		kgo.ConsumeStartOffset(kgo.NewOffset().AtStart()),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		kgo.FetchMaxWait(500 * time.Millisecond),
		kgo.FetchMaxBytes(16 << 20),
		kgo.SessionTimeout(o.Session),
		kgo.HeartbeatInterval(o.Heartbeat),
		kgo.DisableAutoCommit(),
		kgo.AdjustFetchOffsetsFn(s.from),
		kgo.BlockRebalanceOnPoll(),
		kgo.OnPartitionsAssigned(func(_ context.Context, _ *kgo.Client, ps map[string][]int32) { s.gain(ps) }),
		kgo.OnPartitionsRevoked(func(ctx context.Context, _ *kgo.Client, ps map[string][]int32) { s.handOver(ctx, ps) }),
		kgo.OnPartitionsLost(func(_ context.Context, _ *kgo.Client, ps map[string][]int32) { s.lose(ps, false) }),
		kgo.WithHooks(onGroupError(s.trouble)),
	}
	if s.group.Member != "" {
		out = append(out, kgo.InstanceID(s.group.Member))
	}
	return out
}

// onGroupError hears why a session of the group ended.
type onGroupError func(error)

func (f onGroupError) OnGroupManageError(err error) { f(err) }

// trouble keeps err for Receive. A member whose name has a new life ends: rejoining would throw that one out.
func (s *Subscription) trouble(err error) {
	if errors.Is(err, kerr.FencedInstanceID) {
		fenced := fmt.Errorf("member %q of group %q: a new life of the same member took over: %w: %w", s.group.Member, s.group.Name, err, broker.ErrClosed)
		s.mu.Lock()
		s.lazy = true
		s.mu.Unlock()
		go s.end(s.ctx, fenced)
		return
	}
	s.mu.Lock()
	s.err = fmt.Errorf("group %q: %w", s.group.Name, lacking(err, "READ", "the group"))
	s.mu.Unlock()
	signal(s.ready)
}

func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

func (s *Subscription) gain(ps map[string][]int32) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.assigned.gain(ps)
	signal(s.ready)
}

// handOver commits what was acknowledged of ps, and only then lets others have them.
func (s *Subscription) handOver(ctx context.Context, ps map[string][]int32) {
	s.committing.Lock()
	defer s.committing.Unlock()
	_ = s.commit(ctx, ps) // what is not stored comes again
	s.lose(ps, true)
}

func (s *Subscription) lose(ps map[string][]int32, clean bool) {
	if len(ps) == 0 {
		return
	}
	s.mu.Lock()
	s.assigned.lose(ps, clean)
	s.mu.Unlock()
	s.cl.ResumeFetchPartitions(ps) // a pause ends with the lane
	signal(s.ready)
	signal(s.room)
}

// fetch brings records into their lanes while there is room.
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
		deleted := s.put(fetched)
		s.cl.AllowRebalance()
		s.renew(deleted)
	}
}

func (s *Subscription) hasRoom() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.assigned.records < s.b.opts.Prefetch && s.assigned.bytes < maxBytesHeld
}

// put takes what was fetched, and returns the topics that are not there any more.
func (s *Subscription) put(fetched kgo.Fetches) (deleted []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	fetched.EachPartition(func(p kgo.FetchTopicPartition) {
		s.assigned.put(p.Topic, p.Partition, p.Records)
		var session *kgo.ErrGroupSession
		switch err := p.Err; {
		case isAny(err, kerr.UnknownTopicID, kerr.UnknownTopicOrPartition):
			if !slices.Contains(deleted, p.Topic) {
				deleted = append(deleted, p.Topic)
			}
			s.err = fmt.Errorf("fetch %s: the topic was deleted: %w: %w", laneName(p.Topic, p.Partition), broker.ErrNoTopic, err)
		case err == nil, isAny(err, context.Canceled, kgo.ErrClientClosed), errors.As(err, &session): // trouble has the last
		default:
			s.err = fmt.Errorf("fetch %s: %w", laneName(p.Topic, p.Partition), lacking(err, "READ", "the topic"))
		}
	})
	signal(s.ready)
	return deleted
}

// Ready has a value when something may have come.
func (s *Subscription) Ready() <-chan struct{} { return s.ready }

// Receive returns what was fetched: first an outage, if there was one, then changes of lanes with messages.
func (s *Subscription) Receive(_ context.Context, max int) (broker.Batch, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.gone != nil {
		return broker.Batch{}, s.gone
	}
	if err := s.err; err != nil {
		s.err = nil
		signal(s.ready)
		return broker.Batch{}, err
	}
	b := s.assigned.tell()
	b.Deliveries = s.assigned.take(max)
	if s.assigned.records > 0 {
		signal(s.ready)
	}
	signal(s.room)
	return b, nil
}

// Pause stops deliveries from lanes that are owned.
func (s *Subscription) Pause(lanes ...string) {
	s.mu.Lock()
	ps := s.assigned.pause(lanes, true)
	s.mu.Unlock()
	if len(ps) > 0 {
		s.cl.PauseFetchPartitions(ps)
	}
	signal(s.room)
}

// Resume lets deliveries flow again.
func (s *Subscription) Resume(lanes ...string) {
	s.mu.Lock()
	ps := s.assigned.pause(lanes, false)
	s.mu.Unlock()
	if len(ps) > 0 {
		s.cl.ResumeFetchPartitions(ps)
	}
	signal(s.ready)
	signal(s.room)
}

// Close commits, leaves the group, also one with a stable member name, and ends.
func (s *Subscription) Close(ctx context.Context) error { return s.end(ctx, broker.ErrClosed) }

func (s *Subscription) end(ctx context.Context, why error) error {
	s.mu.Lock()
	if s.gone != nil {
		s.mu.Unlock()
		return nil
	}
	s.gone = why
	lazy := s.lazy
	s.mu.Unlock()
	s.cancel()
	signal(s.ready)
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

// close ends the client, for at most as long as ctx lasts: the rest goes on behind the caller's back.
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

// leave does what franz-go leaves to others for a member with a stable name.
func (s *Subscription) leave(ctx context.Context, member string) error {
	req := kmsg.NewPtrLeaveGroupRequest()
	req.Group = s.group.Name
	m := kmsg.NewLeaveGroupRequestMember()
	m.MemberID, m.InstanceID = member, &s.group.Member
	req.Members = append(req.Members, m)
	resp, err := req.RequestWith(ctx, s.b.cl)
	if err == nil {
		err = kerr.ErrorForCode(resp.ErrorCode)
	}
	for _, m := range respMembers(resp, err) {
		if e := kerr.ErrorForCode(m.ErrorCode); e != nil && !isAny(e, kerr.UnknownMemberID, kerr.FencedInstanceID) {
			err = e
		}
	}
	if err != nil {
		return fmt.Errorf("leave group %q: %w", s.group.Name, err)
	}
	return nil
}

func respMembers(resp *kmsg.LeaveGroupResponse, err error) []kmsg.LeaveGroupResponseMember {
	if err != nil {
		return nil
	}
	return resp.Members
}
