package rabbitbroker

import (
	"encoding/json"
	"hash/fnv"
	"io"
	"maps"
	"slices"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

// hello is what a member tells the others of its group now and then.
type hello struct {
	Member  string        `json:"member"`
	Life    string        `json:"life"` // a later one is greater
	Queue   string        `json:"queue"`
	Topics  []string      `json:"topics,omitempty"`
	Session time.Duration `json:"session,omitempty"`
	Bye     bool          `json:"bye,omitempty"`
}

// peer is another member as this one sees it.
type peer struct {
	hello
	heard, pinged time.Time
}

// group is what a member knows of its group. Wrong knowledge costs time, never order: a queue has one active consumer.
type group struct {
	name         string
	member, life string
	topicNames   []string
	peers        map[string]peer
	shares       map[string]share // by topic
	joined       time.Time
	beaten       time.Time
}

// listen is how long a member that joins waits for others to tell of themselves.
const listen = 250 * time.Millisecond

// greet tells everybody that this member lives, or leaves.
func (s *Subscription) greet(l *link, bye bool) {
	h := hello{Member: s.member, Life: s.life, Queue: l.queue, Topics: s.topicNames, Session: s.b.opts.Session, Bye: bye}
	text, err := json.Marshal(h)
	if err != nil {
		return
	}
	_ = l.ctl.Publish(membersName, s.group.name, false, false, amqp.Publishing{Body: text}) // lost with the connection
	s.beaten = time.Now()
}

// ping asks RabbitMQ whether the queue of a silent member is still there: it ends with the member's connection.
func (s *Subscription) ping(l *link, p peer) {
	_ = l.ctl.Publish("", p.Queue, true, false, amqp.Publishing{Body: []byte("{}")})
}

// hear takes up what a member says; it reports whether this member's name has a new life.
func (s *Subscription) hear(l *link, d amqp.Delivery) (fenced bool) {
	var h hello
	if json.Unmarshal(d.Body, &h) != nil || h.Life == "" || h.Life == s.life {
		return false
	}
	if h.Member == s.member {
		if h.Life > s.life && !h.Bye {
			return true
		}
		if !h.Bye {
			s.greet(l, false) // so that the earlier life hears of this one
		}
		return false
	}
	known, there := s.peers[h.Member]
	switch {
	case there && h.Life < known.Life:
	case h.Bye:
		delete(s.peers, h.Member)
	default:
		s.peers[h.Member] = peer{hello: h, heard: time.Now()}
		if !there || known.Life != h.Life {
			s.greet(l, false)
		}
	}
	return false
}

// returned: the queue of a member is gone, and so is the member.
func (s *Subscription) returned(r amqp.Return) {
	maps.DeleteFunc(s.peers, func(_ string, p peer) bool { return p.Queue == r.RoutingKey })
}

// beat says that the member lives, and looks after those that are silent.
func (s *Subscription) beat(l *link) {
	now := time.Now()
	if now.Sub(s.beaten) >= s.b.opts.Heartbeat {
		s.greet(l, false)
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

// assigned is who of members owns which of the lanes of a topic. Everybody gets as many as the others, those that
// remain go to other members for each topic, and few lanes move when members come and go.
func assigned(topic string, lanes int, members []string) []string {
	members = slices.Sorted(slices.Values(members))
	room := map[string]int{}
	first := int(weight(topic) % uint64(len(members)))
	for i := range members {
		room[members[(first+i)%len(members)]] = lanes / len(members)
		if i < lanes%len(members) {
			room[members[(first+i)%len(members)]]++
		}
	}
	out := make([]string, lanes)
	for i := range out {
		most := uint64(0)
		for _, m := range members {
			if w := weight(laneName(topic, i), m); room[m] > 0 && (out[i] == "" || w > most) {
				out[i], most = m, w
			}
		}
		room[out[i]]--
	}
	return out
}

func weight(parts ...string) uint64 {
	h := fnv.New64a()
	for _, p := range parts {
		_, _ = io.WriteString(h, p+"\x00")
	}
	w := h.Sum64() // mixed, for FNV's last bytes reach few bits
	w = (w ^ w>>33) * 0xff51afd7ed558ccd
	return w ^ w>>33
}

// share is what a member has worked out of a topic: each word of a peer asks for it again.
type share struct {
	members []string
	lanes   int
	mine    map[int]bool
}

// mine are the lanes of a topic that this member is to own.
func (s *Subscription) mine(t topic) map[int]bool {
	members := []string{s.member}
	for name, p := range s.peers {
		if slices.Contains(p.Topics, t.name) {
			members = append(members, name)
		}
	}
	slices.Sort(members)
	if known, ok := s.shares[t.name]; ok && known.lanes == t.lanes && slices.Equal(known.members, members) {
		return known.mine
	}
	out := map[int]bool{}
	for i, owner := range assigned(t.name, t.lanes, members) {
		if owner == s.member {
			out[i] = true
		}
	}
	s.shares[t.name] = share{members, t.lanes, out}
	return out
}
