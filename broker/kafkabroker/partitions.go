package kafkabroker

import (
	"slices"
	"strconv"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/broker"
	"github.com/skald-go/skald/broker/internal/cloudevents"
	"github.com/skald-go/skald/broker/internal/feed"
)

const maxBytesHeld = 16 << 20

// assignment is the partitions of a member, with what was fetched of them.
type assignment struct {
	*feed.Feed[*partition]
	codec *cloudevents.Codec
}

// partition is one partition, from one assignment to one loss. It waits until it is known from where it is
// read.
type partition struct {
	feed.Holding
	codec     *cloudevents.Codec
	queue     []*kgo.Record
	unread    map[int64]error // why records in queue stand for what was not read
	bytes     int
	next      int64  // what is to be fetched next, -1: not known
	committed int64  // the offset that Kafka has, 0: none
	note      string // the metadata of its commits
	unsigned  bool   // Kafka has other metadata
	markers   []marker
	marked    int64 // the last marker behind which all was acknowledged, -1: none
}

// marker is the end of a producer's transaction, which nobody receives: it is finished with the record before
// it.
type marker struct {
	after int64 // the last record before it, -1: none in this ownership
	at    int64
}

func partitionName(topic string, partition int32) string {
	return topic + "/" + strconv.Itoa(int(partition))
}

func (a *assignment) partition(topic string, partition int32) *partition {
	l, _ := a.Find(partitionName(topic, partition))
	return l
}

func (a *assignment) gain(ps map[string][]int32) {
	var gained []*partition
	for topic, partitions := range ps {
		for _, p := range partitions {
			if a.partition(topic, p) == nil {
				gained = append(gained, &partition{codec: a.codec, next: -1, marked: -1,
					Holding: feed.Holding{
						Partition: broker.Partition{Name: partitionName(topic, p)}, Topic: topic,
						Index: int(p), Waiting: true, Told: -1, Acked: -1}})
			}
		}
	}
	a.Gain(gained...)
}

func (a *assignment) lose(ps map[string][]int32, clean bool) {
	for topic, partitions := range ps {
		for _, p := range partitions {
			if l := a.partition(topic, p); l != nil {
				a.Lose(l, clean)
			}
		}
	}
}

// begin notes from where partitions are read: now they can be told of.
func (a *assignment) begin(begun []beginning) {
	for _, one := range begun {
		l, owned := a.Find(one.Name)
		if !owned {
			continue
		}
		l.Partition, l.Waiting = one.Partition, false
		l.next, l.note, l.unsigned = one.Start, one.says.text(), one.unsigned
		if one.missed > 0 {
			a.Miss(broker.Missed{Partition: l.Name, From: one.Start - one.missed, To: one.Start,
				Count: one.missed})
		}
	}
}

// partitions are those of topic that are owned.
func (a *assignment) partitions(topic string) (out []int32) {
	for _, l := range a.All() {
		if l.Topic == topic {
			out = append(out, int32(l.Index))
		}
	}
	return out
}

// held is what was fetched and not delivered. Paused partitions do not count, or they would starve the
// others.
func (a *assignment) held() (records, bytes int) {
	for _, l := range a.All() {
		if !l.Paused() {
			records += len(l.queue)
			bytes += l.bytes
		}
	}
	return records, bytes
}

// put adds records. It reports whether one is a marker.
func (a *assignment) put(topic string, partition int32, recs []*kgo.Record) (marked bool) {
	l := a.partition(topic, partition)
	if l == nil || len(recs) == 0 {
		return false
	}
	l.next = recs[len(recs)-1].Offset + 1
	for _, r := range own(recs) {
		if r.Attrs.IsControl() {
			l.mark(r.Offset)
			marked = true
			continue
		}
		l.queue = append(l.queue, r)
		l.bytes += weight(r)
	}
	return marked
}

func (l *partition) mark(at int64) {
	after := l.Told
	if n := len(l.queue); n > 0 {
		after = l.queue[n-1].Offset
	}
	if n := len(l.markers); n > 0 && l.markers[n-1].after == after {
		l.markers[n-1].at = at
		return
	}
	l.markers = append(l.markers, marker{after, at})
}

// finished is the offset below which all is acknowledged, 0: none is.
func (l *partition) finished() int64 {
	for len(l.markers) > 0 && l.markers[0].after <= l.Acked {
		l.marked = l.markers[0].at
		l.markers = l.markers[1:]
	}
	return max(l.Acked, l.marked) + 1
}

// from notes where a partition begins now. If that is beyond what was to be fetched next, retention removed
// what lies between, unread. Kafka counts places: the mark at the end of a transaction is one, and so is what
// was compacted.
func (a *assignment) from(topic string, partition int32, start int64) {
	l := a.partition(topic, partition)
	if l == nil || l.next < 0 || start <= l.next {
		return
	}
	a.Miss(broker.Missed{Partition: l.Name, From: l.next, To: start, Count: start - l.next})
	l.next = start
}

func weight(r *kgo.Record) int {
	n := len(r.Key) + len(r.Value) + 200
	for i := range r.Headers {
		n += len(r.Headers[i].Key) + len(r.Headers[i].Value) + 64
	}
	return n
}

// Len is how many records were fetched and not delivered.
func (l *partition) Len() int { return len(l.queue) }

// Take delivers the first n. They are decoded only now: records are small.
func (l *partition) Take(out []broker.Delivery, n int) []broker.Delivery {
	before := &skald.Message{}
	for _, r := range l.queue[:n] {
		out = append(out, broker.Delivery{Partition: l.Name, Position: r.Offset})
		d := &out[len(out)-1] // in place: a delivery is large
		if d.Fault = decode(r, l.codec, &d.Message, before); l.unread[r.Offset] != nil {
			d.Fault = l.unread[r.Offset]
			delete(l.unread, r.Offset)
		}
		before = &d.Message
		l.bytes -= weight(r)
	}
	clear(l.queue[:n])
	if l.queue = l.queue[n:]; len(l.queue) == 0 {
		l.queue = nil
	}
	return out
}

// byTopic are partitions as franz-go has them.
func byTopic(partitions []*partition) map[string][]int32 {
	ps := map[string][]int32{}
	for _, l := range partitions {
		ps[l.Topic] = append(ps[l.Topic], int32(l.Index))
	}
	return ps
}

// offsets are what is acknowledged and not committed, of all partitions or only of those in ps. With sign
// they are also the beginnings of partitions of which Kafka has other metadata.
func (a *assignment) offsets(ps map[string][]int32, sign bool) map[string]map[int32]kgo.EpochOffset {
	out := map[string]map[int32]kgo.EpochOffset{}
	for _, l := range a.All() {
		done, signs := l.finished(), sign && l.unsigned && !l.Waiting
		if signs {
			done = max(done, l.Start)
		}
		if done <= l.committed && !signs || ps != nil && !slices.Contains(ps[l.Topic], int32(l.Index)) {
			continue
		}
		if out[l.Topic] == nil {
			out[l.Topic] = map[int32]kgo.EpochOffset{}
		}
		out[l.Topic][int32(l.Index)] = kgo.EpochOffset{Epoch: -1, Offset: done}
	}
	return out
}

// notes are the metadata of commits, by partition.
func (a *assignment) notes() map[string]string {
	out := map[string]string{}
	for _, l := range a.All() {
		out[l.Name] = l.note
	}
	return out
}

func (a *assignment) stored(topic string, partition int32, offset int64) {
	if l := a.partition(topic, partition); l != nil {
		l.committed, l.unsigned = max(l.committed, offset), false
	}
}
