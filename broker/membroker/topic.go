package membroker

import (
	"strconv"

	"github.com/skald-go/skald"
)

type topic struct {
	name  string
	id    string
	lanes []*lane
	next  int // the lane of the next message without a key
}

// lane is an ordered log. Position p is log[p-base].
type lane struct {
	name    string
	base    int64
	log     []skald.Message
	cursors []*cursor // one per group
}

func newTopic(name, id string, lanes int) *topic {
	t := &topic{name: name, id: id, lanes: make([]*lane, lanes)}
	for i := range t.lanes {
		t.lanes[i] = &lane{name: name + "/" + strconv.Itoa(i)}
	}
	return t
}

// laneOf spreads keys by FNV-1a, and messages without one in turn.
func (t *topic) laneOf(key []byte) *lane {
	if key == nil {
		t.next = (t.next + 1) % len(t.lanes)
		return t.lanes[t.next]
	}
	h := uint64(14695981039346656037)
	for _, c := range key {
		h = (h ^ uint64(c)) * 1099511628211
	}
	return t.lanes[(h^h>>32)%uint64(len(t.lanes))]
}

func (l *lane) end() int64 { return l.base + int64(len(l.log)) }

func (l *lane) append(m skald.Message) {
	l.log = append(l.log, m)
	for _, c := range l.cursors {
		if c.owner != nil {
			c.owner.wake()
		}
	}
}

// trim drops what every group has acknowledged, beyond retain messages. It copies rarely: when at least as
// much goes as stays.
func (l *lane) trim(retain int) {
	if retain < 0 {
		return
	}
	to := l.end() - int64(retain)
	for _, c := range l.cursors {
		to = min(to, c.acked)
	}
	gone := int(to - l.base)
	if gone < 64 || gone < len(l.log)-gone {
		return
	}
	l.log = append(make([]skald.Message, 0, 2*(len(l.log)-gone)), l.log[gone:]...)
	l.base = to
}
