package membroker

import (
	"errors"
	"fmt"
	"slices"

	"github.com/skald-go/skald/broker"
	"github.com/skald-go/skald/broker/internal/feed"
)

var errFenced = errors.New("a new session of the same member took over")

// group is a set of members that share the partitions of their topics.
type group struct {
	c       *cluster
	name    string
	joined  int
	members []*Subscription // in the order in which they joined
	// cursors has all partitions of all topics to which a member ever subscribed, in the order of
	// subscription
	cursors []*cursor
	have    map[*topic]bool
}

// cursor is the position of a group in a partition.
type cursor struct {
	feed.Holding
	topic     *topic
	partition *partition
	first     int64 // the first position of the group
	acked     int64 // the first position that is not acknowledged
	next      int64 // the next position for the owner
	owner     *Subscription
	tries     map[int64]int // earlier deliveries of positions that were not acknowledged
}

func (c *cluster) group(name string) *group {
	g := c.groups[name]
	if g == nil {
		g = &group{c: c, name: name, have: map[*topic]bool{}}
		c.groups[name] = g
	}
	return g
}

func (g *group) join(as broker.Group, topics []*topic) *Subscription {
	for _, t := range topics {
		g.follow(t)
	}
	g.joined++
	s := &Subscription{group: g, name: as.Member, owner: as.Owner, topics: topics, resume: as.Resume,
		feed: feed.New[*cursor](&g.c.mu)}
	if s.name == "" {
		s.name = fmt.Sprintf("%s-%d", g.name, g.joined)
	}
	if at := g.named(s.name); at >= 0 {
		g.replace(at, s)
	} else {
		g.members = append(g.members, s)
	}
	g.balance()
	return s
}

// rejoin adds a member after Expire. If another session has its name, the member ends instead.
func (g *group) rejoin(s *Subscription) {
	if g.named(s.name) >= 0 {
		s.fence()
		return
	}
	g.members = append(g.members, s)
	for _, t := range g.c.topics {
		if s.renew(t) {
			g.follow(t)
		}
	}
	g.balance()
}

func (g *group) named(name string) int {
	return slices.IndexFunc(g.members, func(m *Subscription) bool { return m.name == name })
}

// replace gives the partitions of the member at this index to s, a new session with the same name. The
// partitions of other members stay.
func (g *group) replace(index int, s *Subscription) {
	old := g.members[index]
	g.members[index] = s
	old.fence()
	for _, c := range g.cursors {
		if c.owner == old {
			g.move(c, nil, false)
			if slices.Contains(s.topics, c.topic) {
				g.move(c, s, true)
			}
		}
	}
}

// follow adds the partitions of t. The group reads them from the oldest message on.
func (g *group) follow(t *topic) {
	if g.have[t] {
		return
	}
	g.have[t] = true
	for i, l := range t.partitions {
		c := &cursor{Holding: feed.Holding{Topic: t.name, Index: i}, topic: t, partition: l, first: l.base,
			acked: l.base, next: l.base}
		l.cursors = append(l.cursors, c)
		g.cursors = append(g.cursors, c)
	}
}

// hasAcked returns true if the group has acknowledged any message.
func (g *group) hasAcked() bool {
	return slices.ContainsFunc(g.cursors, func(c *cursor) bool { return c.acked > c.first })
}

// unfollow removes the partitions of a topic that was deleted.
func (g *group) unfollow(t *topic) {
	for _, c := range g.cursors {
		if c.topic == t {
			g.move(c, nil, false)
		}
	}
	g.cursors = slices.DeleteFunc(g.cursors, func(c *cursor) bool { return c.topic == t })
	delete(g.have, t)
}

// renew makes the members that read a deleted topic read t, which has the same name.
func (g *group) renew(t *topic) {
	some := false
	for _, m := range g.members {
		some = m.renew(t) || some
	}
	if some {
		g.follow(t)
		g.balance()
	}
}

func (g *group) drop(s *Subscription, clean bool) {
	at := slices.Index(g.members, s)
	if at < 0 {
		return
	}
	g.members = slices.Delete(g.members, at, at+1)
	for _, c := range g.cursors {
		if c.owner == s {
			g.move(c, nil, clean)
		}
	}
	g.balance()
}

// balance gives partitions without an owner to the member with the fewest partitions. Then it moves
// partitions while this reduces the difference between members. No other partition moves. The result depends
// only on the order of joins and leaves.
func (g *group) balance() {
	load := map[*Subscription]int{}
	for _, c := range g.cursors {
		if c.owner != nil {
			load[c.owner]++
		}
	}
	for moved := true; moved; {
		moved = false
		for _, c := range g.cursors {
			to := g.leastLoaded(c.topic, load)
			if to == nil || c.owner != nil && load[c.owner]-load[to] < 2 {
				continue
			}
			if c.owner != nil {
				load[c.owner]--
			}
			load[to]++
			moved = moved || c.owner != to
			g.move(c, to, true)
		}
	}
}

func (g *group) leastLoaded(t *topic, load map[*Subscription]int) *Subscription {
	var best *Subscription
	for _, m := range g.members {
		if slices.Contains(m.topics, t) && (best == nil || load[m] < load[best]) {
			best = m
		}
	}
	return best
}

// move changes the owner of c to newOwner. The new owner starts at the first unacknowledged message. If
// there is no new owner, newOwner is nil.
func (g *group) move(c *cursor, newOwner *Subscription, clean bool) {
	if c.owner != nil {
		c.owner.feed.Lose(c, clean)
	}
	for p := c.acked; p < c.next; p++ {
		if c.tries == nil {
			c.tries = map[int64]int{}
		}
		c.tries[p]++
	}
	c.next, c.owner = c.acked, newOwner
	if newOwner != nil {
		newOwner.gain(c)
	}
}

// ack acknowledges all messages before the position end.
func (c *cursor) ack(end int64, retain int) {
	end = min(end, c.next)
	if end <= c.acked {
		return
	}
	if len(c.tries) > 0 {
		for p := c.acked; p < end; p++ {
			delete(c.tries, p)
		}
	}
	c.acked = end
	c.partition.trim(retain)
}
