package membroker

import (
	"strconv"

	"github.com/skald-go/skald"
)

type topic struct {
	name       string
	id         string
	partitions []*partition
	next       int // the partition of the last message without a key
}

// partition is an ordered log. The message at position p is log[p-base].
type partition struct {
	name    string
	base    int64
	log     []skald.Message
	cursors []*cursor // one per group
}

func newTopic(name, id string, partitions int) *topic {
	t := &topic{name: name, id: id, partitions: make([]*partition, partitions)}
	for i := range t.partitions {
		t.partitions[i] = &partition{name: name + "/" + strconv.Itoa(i)}
	}
	return t
}

// partitionOf selects the partition of a key by FNV-1a. Messages without a key go to the partitions in turn.
func (t *topic) partitionOf(key []byte) *partition {
	if key == nil {
		t.next = (t.next + 1) % len(t.partitions)
		return t.partitions[t.next]
	}
	h := uint64(14695981039346656037)
	for _, c := range key {
		h = (h ^ uint64(c)) * 1099511628211
	}
	return t.partitions[(h^h>>32)%uint64(len(t.partitions))]
}

func (l *partition) end() int64 { return l.base + int64(len(l.log)) }

func (l *partition) append(m skald.Message) {
	l.log = append(l.log, m)
	for _, c := range l.cursors {
		if c.owner != nil {
			c.owner.feed.Wake()
		}
	}
}

// trim removes messages that all groups have acknowledged, except the last retain messages. It copies the log
// only if it can remove at least half of it.
func (l *partition) trim(retain int) {
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
