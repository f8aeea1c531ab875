// This file lets the members of a group find each other in the bucket, and share the partitions.

package natsbroker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/skald-go/skald/broker"
	"github.com/skald-go/skald/broker/internal/feed"
)

// patience limits the wait for one request to the bucket or to a stream.
const patience = 3 * time.Second

// peer is the presence of another member. The member counts as dead if its presence keeps the same revision
// for the time of its session.
type peer struct {
	presence
	rev  uint64
	seen time.Time
}

// seenRow is a row with the revision that was read.
type seenRow struct {
	row
	rev uint64
}

// group is a member's view of its group.
type group struct {
	kv                jetstream.KeyValue
	groupName         string
	member, sessionID string
	topics            []topic

	peers      map[string]peer
	rows       map[string]seenRow // by key
	synced     bool               // the watch has delivered all existing keys
	rev        uint64             // the revision of this member's presence
	ownerClaim feed.Claim         // the claim of this member
	beaten     time.Time          // when this member last stored its presence
	warned     time.Time          // the last report of members of another owner
	looked     time.Time          // when the other members were last checked
}

func newGroup(kv jetstream.KeyValue, g broker.Group, topics []topic, sessionID string) group {
	member := "m-" + g.Member // random names have another form
	if g.Member == "" {
		member = "r-" + sessionID
	}
	return group{kv: kv, groupName: g.Name, member: token(member), sessionID: sessionID,
		topics: topics, ownerClaim: feed.Claim{SessionID: sessionID, Owner: g.Owner},
		peers: map[string]peer{},
		rows:  map[string]seenRow{}}
}

func (g *group) memberKey(name string) string { return memberKey(g.groupName, name) }

func (g *group) partitionKey(t topic, partition int) string {
	return partitionKey(g.groupName, t.stream, partition)
}

// store stores v under key if the revision of the key is still rev. If rev is 0, the key must not exist.
func (s *Subscription) store(ctx context.Context, key string, v any, rev uint64) (uint64, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	text, err := json.Marshal(v)
	if err != nil {
		return 0, err
	}
	if rev == 0 {
		return s.kv.Create(ctx, key, text)
	}
	return s.kv.Update(ctx, key, text, rev)
}

func (s *Subscription) presence() presence {
	p := presence{SessionID: s.sessionID, Session: s.b.opts.Session, Claim: s.ownerClaim}
	for _, t := range s.topics {
		p.Topics = append(p.Topics, t.name)
	}
	return p
}

// join stores the member's presence. It replaces the presence of an earlier session with the same name.
func (s *Subscription) join(ctx context.Context) error {
	if err := s.kv.PurgeDeletes(ctx, jetstream.DeleteMarkersOlderThan(time.Hour)); err != nil {
		// The markers are of members that have left.
		return fmt.Errorf("join group %q: %w", s.groupName, s.b.orUnavailable(err))
	}
	key := s.memberKey(s.member)
	for {
		rev := uint64(0)
		e, err := s.kv.Get(ctx, key)
		if err == nil {
			rev = e.Revision()
		} else if !errors.Is(err, jetstream.ErrKeyNotFound) {
			return fmt.Errorf("join group %q: %w", s.groupName, s.b.orUnavailable(err))
		}
		s.rev, err = s.store(ctx, key, s.presence(), rev)
		if err == nil {
			s.beaten = time.Now()
			return nil
		}
		if !stale(err) || ctx.Err() != nil {
			return fmt.Errorf("join group %q: %w", s.groupName, s.b.orUnavailable(err))
		}
	}
}

// beat renews the member's presence. If this fails for the time of the session, the member gives up its
// partitions, because other members may own them.
func (s *Subscription) beat() {
	if time.Since(s.beaten) < s.b.opts.Heartbeat {
		return
	}
	key := s.memberKey(s.member)
	rev, err := s.store(s.ctx, key, s.presence(), s.rev)
	if stale(err) {
		rev, err = s.restorePresence(key)
	}
	if err == nil {
		s.rev, s.beaten = rev, time.Now()
	}
	if time.Since(s.beaten) > s.b.opts.Session { // other members may own the partitions
		for _, l := range s.feed.Owned() {
			s.lose(l, false)
		}
	}
}

// restorePresence stores the presence again after its revision has changed. There are three causes: an
// earlier attempt succeeded without an answer, another member removed the presence as dead, or a new session
// uses the name. In the third case this member ends.
func (s *Subscription) restorePresence(key string) (uint64, error) {
	ctx, cancel := context.WithTimeout(s.ctx, patience)
	defer cancel()
	e, err := s.kv.Get(ctx, key)
	if errors.Is(err, jetstream.ErrKeyNotFound) {
		return s.store(ctx, key, s.presence(), 0)
	}
	if err != nil {
		return 0, err
	}
	var p presence
	if json.Unmarshal(e.Value(), &p) == nil && p.SessionID != s.sessionID {
		s.die(fmt.Errorf("member %q of group %q: %w: %w", s.member, s.groupName, errFenced, broker.ErrClosed))
		s.kill()
		return 0, errFenced
	}
	return s.store(ctx, key, s.presence(), e.Revision())
}

// handleChange processes a change of a key in the bucket.
func (s *Subscription) handleChange(e jetstream.KeyValueEntry) {
	key, prefix := e.Key(), s.memberKey("")
	gone := e.Operation() != jetstream.KeyValuePut
	if len(key) > len(prefix) && key[:len(prefix)] == prefix {
		name := key[len(prefix):]
		var p presence
		if gone || json.Unmarshal(e.Value(), &p) != nil {
			delete(s.peers, name)
			return
		}
		s.peers[name] = peer{presence: p, rev: e.Revision(), seen: time.Now()}
		return
	}
	if old := s.rows[key]; old.rev > e.Revision() {
		return
	}
	var r row
	if !gone && json.Unmarshal(e.Value(), &r) != nil {
		return
	}
	s.rows[key] = seenRow{r, e.Revision()}
	for _, l := range s.feed.Owned() {
		if l.key == key && (r.Member != s.member || r.SessionID != s.sessionID) && e.Revision() > l.rev {
			s.lose(l, false)
		}
	}
}

// removeDead removes the presences of dead members. It ignores the time for which this process was suspended.
func (s *Subscription) removeDead(period time.Duration) {
	now := time.Now()
	late := now.Sub(s.looked) - 2*period // above 0 if this process was suspended
	s.looked = now
	for name, p := range s.peers {
		if late > 0 {
			p.seen = p.seen.Add(late)
			s.peers[name] = p
		}
		if name == s.member || now.Sub(p.seen) < p.Session {
			continue
		}
		ctx, cancel := context.WithTimeout(s.ctx, patience)
		err := s.kv.Delete(ctx, s.memberKey(name), jetstream.LastRevision(p.rev))
		cancel()
		if err == nil || stale(err) { // stale: the presence has changed, and the watch delivers it
			delete(s.peers, name)
		}
	}
}

// share returns the number of partitions of a topic that this member must own. All members get equal numbers.
// The members that get one more depend on the topic.
func (s *Subscription) share(t topic) int {
	members := []string{s.member}
	for _, name := range slices.Sorted(maps.Keys(s.peers)) {
		if p := s.peers[name]; name != s.member && feed.Same(p.Owner, s.ownerClaim.Owner) &&
			slices.Contains(p.Topics, t.name) {
			members = append(members, name)
		}
	}
	slices.Sort(members)
	at := (slices.Index(members, s.member) + feed.PartitionOf([]byte(t.name), len(members))) % len(members)
	n := t.partitions / len(members)
	if at < t.partitions%len(members) {
		n++
	}
	return n
}

// isFree returns true if this member may claim a partition: its owner is unset, is this member, or is gone.
func (s *Subscription) isFree(r row) bool {
	switch p, there := s.peers[r.Member]; {
	case r.Member == "", r.Member == s.member: // also of an earlier session, or of a claim without an answer
		return true
	default:
		return !there || p.SessionID != r.SessionID
	}
}

// mayTake returns true if this member may take partitions. It returns false if the group has members of
// another database or schema.
func (s *Subscription) mayTake() bool {
	var others []feed.Claim
	for name, p := range s.peers {
		if name != s.member {
			c := p.Claim
			c.Member, c.SessionID = name, p.SessionID
			others = append(others, c)
		}
	}
	if err := feed.Check(s.groupName, s.ownerClaim, others); err != nil {
		s.ownerClaim.Settled = false
		if time.Since(s.warned) > s.b.opts.Heartbeat {
			s.warned = time.Now()
			s.feed.Fail(err)
		}
		return false
	}
	if !s.ownerClaim.Settled {
		s.ownerClaim.Settled, s.beaten = true, time.Time{} // so that the next beat stores the claim
	}
	return true
}

// balance releases partitions that this member has in excess of its share, and claims free ones.
func (s *Subscription) balance() {
	if !s.synced || s.ctx.Err() != nil || time.Since(s.beaten) > s.b.opts.Session {
		return
	}
	if !s.mayTake() {
		for _, l := range s.feed.Owned() {
			_ = s.release(s.ctx, l)
		}
		return
	}
	for _, t := range s.topics {
		s.beat() // because many claims may take longer than the session
		mine := map[int]*partition{}
		for _, l := range s.feed.Owned() {
			if l.topic.name == t.name {
				mine[l.Index] = l
			}
		}
		share := s.share(t)
		for _, i := range slices.Backward(slices.Sorted(maps.Keys(mine))) {
			if len(mine) > share {
				_ = s.release(s.ctx, mine[i]) // if this fails, take releases it as an orphan
				delete(mine, i)
			}
		}
		s.take(t, mine, share)
	}
}

// resume reads the checkpoints of partitions from the group's database.
func (s *Subscription) resume(t topic, free []int) (broker.Resumed, error) {
	if s.resumes == nil {
		return broker.Resumed{}, nil
	}
	ctx, cancel := context.WithTimeout(s.ctx, patience)
	defer cancel()
	var partitions []broker.Partition
	for _, i := range free {
		partitions = append(partitions, broker.Partition{Name: feed.Partition(t.name, i), Clean: true,
			Origin: t.created})
	}
	return s.resumes(ctx, partitions)
}

// take claims free partitions of a topic until this member has its share. Receive reports them together.
func (s *Subscription) take(t topic, mine map[int]*partition, share int) {
	var free []int
	for i := range t.partitions {
		r := s.rows[s.partitionKey(t, i)]
		switch {
		case mine[i] != nil || !s.isFree(r.row):
		case len(mine)+len(free) < share:
			free = append(free, i)
		case r.Member == s.member && r.SessionID == s.sessionID:
			s.orphan(s.partitionKey(t, i), r)
		}
	}
	if len(free) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(s.ctx, patience)
	now, err := s.b.look(ctx, t.name)
	cancel()
	if err != nil {
		s.reportFault(fmt.Errorf("claim partitions of %q: %w", t.name, err))
		return
	}
	wanted, err := s.resume(now, free)
	if err != nil {
		return // the next balance retries
	}
	var claimed []*partition
	for _, i := range free {
		if l := s.claim(now, i, wanted); l != nil {
			claimed = append(claimed, l)
		}
	}
	s.gain(claimed)
}
