package kafkabroker

import (
	"cmp"
	"maps"
	"slices"
	"strconv"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/broker"
)

const maxBytesHeld = 16 << 20

// assignment is the lanes of a member, what was fetched for them, and what it was not told yet.
type assignment struct {
	envelope *mapping
	lanes    map[string]*lane
	order    []*lane // by topic and partition: they take turns
	turn     int
	changes  map[string]*change
	records  int // fetched, of lanes that flow
	bytes    int
}

type lane struct {
	name      string
	topic     string
	partition int32
	queue     []*kgo.Record
	bytes     int
	paused    bool
	origin    string // the topic's id
	begun     bool   // it is known from where it is read
	start     int64  // that, if started
	started   bool
	acked     int64 // offset behind the last acknowledged, -1: none
	committed int64 // what Kafka has of it
}

// change is what happened to a lane since the last Receive: lost, then gained, each at most once.
type change struct{ lost, unclean, gained bool }

func laneName(topic string, partition int32) string {
	return topic + "/" + strconv.Itoa(int(partition))
}

func (a *assignment) init() {
	a.lanes, a.changes = map[string]*lane{}, map[string]*change{}
}

func (a *assignment) gain(ps map[string][]int32) {
	for topic, partitions := range ps {
		for _, p := range partitions {
			l := &lane{name: laneName(topic, p), topic: topic, partition: p, acked: -1, committed: -1}
			if a.lanes[l.name] != nil {
				continue
			}
			a.lanes[l.name] = l
			a.change(l.name).gained = true
		}
	}
	a.sort()
}

func (a *assignment) lose(ps map[string][]int32, clean bool) {
	for topic, partitions := range ps {
		for _, p := range partitions {
			l := a.lanes[laneName(topic, p)]
			if l == nil {
				continue
			}
			a.count(l, -1)
			delete(a.lanes, l.name)
			if c := a.change(l.name); c.gained { // never told of it: nothing to forget
				c.gained = false
			} else {
				c.lost, c.unclean = true, !clean
			}
		}
	}
	a.sort()
}

// begin notes that it is known from where lanes are read: now they can be told of.
func (a *assignment) begin(lanes []broker.Lane) {
	for _, told := range lanes {
		if l := a.lanes[told.Name]; l != nil {
			l.origin, l.begun, l.start, l.started = told.Origin, true, told.Start, told.Started
		}
	}
}

// partitions are those of topic that are owned.
func (a *assignment) partitions(topic string) (out []int32) {
	for _, l := range a.lanes {
		if l.topic == topic {
			out = append(out, l.partition)
		}
	}
	return out
}

func (a *assignment) change(name string) *change {
	c := a.changes[name]
	if c == nil {
		c = &change{}
		a.changes[name] = c
	}
	return c
}

func (a *assignment) sort() {
	a.order = slices.SortedFunc(maps.Values(a.lanes), func(x, y *lane) int {
		return cmp.Or(cmp.Compare(x.topic, y.topic), cmp.Compare(x.partition, y.partition))
	})
}

// count adds l's records to what is held, or takes them away. Paused lanes do not count, or they would starve
// the others.
func (a *assignment) count(l *lane, sign int) {
	if !l.paused {
		a.records += sign * len(l.queue)
		a.bytes += sign * l.bytes
	}
}

func (a *assignment) put(topic string, partition int32, recs []*kgo.Record) {
	l := a.lanes[laneName(topic, partition)]
	if l == nil || len(recs) == 0 {
		return
	}
	a.count(l, -1)
	l.queue = append(l.queue, recs...)
	for _, r := range recs {
		l.bytes += weight(r)
	}
	a.count(l, +1)
}

func weight(r *kgo.Record) int { return len(r.Key) + len(r.Value) + 200 }

// take returns at most max deliveries, lanes taking turns.
func (a *assignment) take(max int) (out []broker.Delivery) {
	out = make([]broker.Delivery, 0, min(max, a.records))
	for range a.order {
		if len(out) >= max {
			break
		}
		a.turn = (a.turn + 1) % len(a.order)
		if l := a.order[a.turn]; !l.paused {
			out = a.takeFrom(l, out, max)
		}
	}
	return out
}

func (a *assignment) takeFrom(l *lane, out []broker.Delivery, max int) []broker.Delivery {
	n := min(max-len(out), len(l.queue))
	if n == 0 {
		return out
	}
	a.count(l, -1)
	before := &skald.Message{}
	for _, r := range l.queue[:n] {
		out = append(out, broker.Delivery{Lane: l.name, Position: r.Offset})
		d := &out[len(out)-1] // in place: a delivery is large
		d.Fault = decode(r, a.envelope, &d.Message, before)
		before = &d.Message
		l.bytes -= weight(r)
	}
	clear(l.queue[:n])
	if l.queue = l.queue[n:]; len(l.queue) == 0 {
		l.queue = nil
	}
	a.count(l, +1)
	return out
}

// tell empties what is to be told about lanes.
func (a *assignment) tell() (b broker.Batch) {
	for _, name := range slices.Sorted(maps.Keys(a.changes)) {
		c := a.changes[name]
		if c.lost {
			b.Lost = append(b.Lost, broker.Lane{Name: name, Clean: !c.unclean})
		}
		delete(a.changes, name)
		switch l := a.lanes[name]; {
		case c.gained && l != nil && l.begun:
			b.Gained = append(b.Gained, broker.Lane{Name: name, Clean: true, Origin: l.origin, Start: l.start, Started: l.started})
		case c.gained:
			a.changes[name] = &change{gained: true} // later
		}
	}
	return b
}

// pause pauses or resumes those of lanes that are owned, and returns their partitions.
func (a *assignment) pause(lanes []string, paused bool) map[string][]int32 {
	ps := map[string][]int32{}
	for _, name := range lanes {
		if l := a.lanes[name]; l != nil && l.paused != paused {
			a.count(l, -1)
			l.paused = paused
			a.count(l, +1)
			ps[l.topic] = append(ps[l.topic], l.partition)
		}
	}
	return ps
}

// ack notes ds as finished. It reports whether there is anything to commit.
func (a *assignment) ack(ds []broker.Delivery) (dirty bool) {
	var l *lane
	for i := range ds {
		if d := &ds[i]; l == nil || l.name != d.Lane {
			if l = a.lanes[d.Lane]; a.changes[d.Lane] != nil { // lost, and gained again: these are of before
				l = nil
			}
		}
		if l != nil && ds[i].Position >= l.acked {
			l.acked = ds[i].Position + 1
			dirty = true
		}
	}
	return dirty
}

// offsets are what is acknowledged and not committed, of all lanes or only of those in ps.
func (a *assignment) offsets(ps map[string][]int32) map[string]map[int32]kgo.EpochOffset {
	out := map[string]map[int32]kgo.EpochOffset{}
	for _, l := range a.order {
		if l.acked <= l.committed || ps != nil && !slices.Contains(ps[l.topic], l.partition) {
			continue
		}
		if out[l.topic] == nil {
			out[l.topic] = map[int32]kgo.EpochOffset{}
		}
		out[l.topic][l.partition] = kgo.EpochOffset{Epoch: -1, Offset: l.acked}
	}
	return out
}

func (a *assignment) stored(topic string, partition int32, offset int64) {
	if l := a.lanes[laneName(topic, partition)]; l != nil {
		l.committed = max(l.committed, offset)
	}
}
