// This file lets the members of a group find each other, and share the partitions.

package rabbitbroker

import (
	"encoding/json"
	"maps"
	"slices"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/skald-go/skald/broker/internal/feed"
)

// hello is the message that each member sends to its group at intervals.
type hello struct {
	Member    string        `json:"member"`
	SessionID string        `json:"life"` // increases from session to session
	Queue     string        `json:"queue"`
	Topics    []string      `json:"topics,omitempty"`
	Session   time.Duration `json:"session,omitempty"`
	Bye       bool          `json:"bye,omitempty"`
	feed.Claim
}

// peer is the last hello of another member, and the times of that hello and of the last check.
type peer struct {
	hello
	heard, pinged time.Time
}

// group is a member's view of its group. If the view is wrong, messages are late, but their order is kept:
// each queue has a single active consumer.
type group struct {
	name              string
	member, sessionID string
	topicNames        []string
	peers             map[string]peer
	shares            map[string]share // by topic
	ownerClaim        feed.Claim       // the claim of this member
	joined            time.Time
	warned            time.Time // the last report of members of another owner
	beaten            time.Time // the last hello of this member
	refused           map[string]refusal
	prefetch          map[string]int // by partition: a prefetch below Options.Prefetch, after a timeout
	windows           map[string]int // by partition: a temporary prefetch for large messages
}

// refusal records that RabbitMQ refused a partition: the number of refusals, and the time of the next
// attempt.
type refusal struct {
	times int
	until time.Time
}

// listen is the time that a joining member waits for the hellos of other members.
const listen = 250 * time.Millisecond

// sendHello sends a hello to the group; bye announces that the member leaves.
func (s *Subscription) sendHello(l *link, bye bool) {
	h := hello{Member: s.member, SessionID: s.sessionID, Queue: l.queue, Topics: s.topicNames,
		Session: s.b.opts.Session, Bye: bye, Claim: s.ownerClaim}
	text, err := json.Marshal(h)
	if err != nil {
		return
	}
	if s.beaten = time.Now(); l.helloLink.blockedWhy == "" {
		// on an error the connection is closed, and live returns
		_ = l.helloLink.ch.Publish(membersName, s.group.name, false, false, amqp.Publishing{Body: text})
	}
}

// ping checks that the queue of a silent member exists, because the queue is deleted with the member's
// connection. If it does not exist, RabbitMQ returns the message.
func (s *Subscription) ping(l *link, p peer) {
	_ = l.helloLink.ch.Publish("", p.Queue, true, false, amqp.Publishing{Body: []byte("{}")})
}

// handleHello processes a hello. It returns true if a newer session uses this member's name.
func (s *Subscription) handleHello(l *link, d amqp.Delivery) (fenced bool) {
	var h hello
	if json.Unmarshal(d.Body, &h) != nil || h.SessionID == "" || h.SessionID == s.sessionID {
		return false
	}
	if h.Member == s.member {
		if h.SessionID > s.sessionID && !h.Bye {
			return true
		}
		if !h.Bye {
			s.sendHello(l, false) // so that the earlier session ends
		}
		return false
	}
	known, there := s.peers[h.Member]
	switch {
	case there && h.SessionID < known.SessionID:
	case h.Bye:
		delete(s.peers, h.Member)
	default:
		s.peers[h.Member] = peer{hello: h, heard: time.Now()}
		if !there || known.SessionID != h.SessionID {
			s.sendHello(l, false)
		}
	}
	return false
}

// returned removes a member without a queue. r is the message that RabbitMQ returned.
func (s *Subscription) returned(r amqp.Return) {
	maps.DeleteFunc(s.peers, func(_ string, p peer) bool { return p.Queue == r.RoutingKey })
}

// block records whether RabbitMQ blocks publishing on the connection for hellos. While it does, no hellos
// arrive, so the times of all members are reset.
func (s *Subscription) block(l *link, b amqp.Blocking) {
	l.helloLink.blockedWhy = ""
	if b.Active {
		l.helloLink.blockedWhy = "RabbitMQ blocks publishers because it is short of resources: " + b.Reason
	}
	now := time.Now()
	for name, p := range s.peers {
		p.heard, p.pinged = now, now
		s.peers[name] = p
	}
	s.mu.Lock()
	s.alarm = l.helloLink.blockedWhy
	s.mu.Unlock()
	s.feed.Wake()
}

// closeHellos closes the connection for hellos.
func (s *Subscription) closeHellos(l *link) {
	l.helloLink.end()
	s.mu.Lock()
	s.alarm = ""
	s.mu.Unlock()
}

// Alarm returns the reason why RabbitMQ blocks publishers, or "". RabbitMQ continues to deliver meanwhile.
func (s *Subscription) Alarm() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.alarm
}

// beat sends a hello if one is due, pings silent members, and removes members that are silent for longer than
// Session.
func (s *Subscription) beat(l *link) {
	if l.helloLink.blockedWhy != "" {
		return
	}
	now := time.Now()
	if now.Sub(s.beaten) >= s.b.opts.Heartbeat {
		s.sendHello(l, false)
	}
	for name, p := range s.peers {
		silent := now.Sub(p.heard)
		switch {
		case silent > max(p.Session, s.b.opts.Session):
			delete(s.peers, name)
		case silent > 3*s.b.opts.Heartbeat && now.Sub(p.pinged) > s.b.opts.Heartbeat:
			p.pinged = now
			s.peers[name] = p
			s.ping(l, p)
		}
	}
}

// mayTake returns true if this member may take partitions. It returns false if the group has members of
// another database or schema.
func (s *Subscription) mayTake(l *link) bool {
	var others []feed.Claim
	for name, p := range s.peers {
		c := p.Claim
		c.Member, c.SessionID = name, p.SessionID
		others = append(others, c)
	}
	if err := feed.Check(s.group.name, s.ownerClaim, others); err != nil {
		s.ownerClaim.Settled = false
		if time.Since(s.warned) > s.b.opts.Heartbeat {
			s.warned = time.Now()
			s.reportFault(err)
		}
		return false
	}
	if !s.ownerClaim.Settled {
		s.ownerClaim.Settled = true
		s.sendHello(l, false)
	}
	return true
}

// share is the cached assignment of the partitions of a topic. It is valid for the same members.
type share struct {
	members    []string
	partitions int
	mine       map[int]bool
}

// ownPartitions returns the partitions of a topic that this member must own.
func (s *Subscription) ownPartitions(t topic) map[int]bool {
	members := []string{s.member}
	for name, p := range s.peers {
		if feed.Same(p.Owner, s.ownerClaim.Owner) && slices.Contains(p.Topics, t.name) {
			members = append(members, name)
		}
	}
	slices.Sort(members)
	if known, ok := s.shares[t.name]; ok && known.partitions == t.partitions &&
		slices.Equal(known.members, members) {
		return known.mine
	}
	out := map[int]bool{}
	for i, who := range owners(t.name, t.partitions, members) {
		if who == s.member {
			out[i] = true
		}
	}
	s.shares[t.name] = share{members, t.partitions, out}
	return out
}
