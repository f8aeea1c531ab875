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

// maxBytesHeld is the size of fetched records at which a subscription stops fetching, in bytes.
const maxBytesHeld = 16 << 20

// assignment has the partitions that a member owns, with their fetched records.
type assignment struct {
	*feed.Feed[*partition]
	codec *cloudevents.Codec
}

// partition is one partition that the member owns. Holding.Waiting is true until its first offset is known.
type partition struct {
	feed.Holding
	codec     *cloudevents.Codec
	queue     []*kgo.Record
	unread    map[int64]error // by offset: errors of batches that were too large to unpack
	bytes     int
	next      int64  // the next offset to fetch; -1 if unknown
	committed int64  // the committed offset; 0 for none
	note      string // the metadata for commits
	unsigned  bool   // Kafka has other metadata
	markers   []marker
	marked    int64 // the last marker that may be committed; -1 for none
}

// marker is a control record at the end of a producer's transaction. The driver does not deliver it. It may
// be committed when the record before it is acknowledged.
type marker struct {
	after int64 // offset of the last record before the marker; -1 for none
	at    int64 // offset of the marker
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

// begin records the first offsets of partitions. Receive can then report the partitions as gained.
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

// partitions returns the owned partitions of topic.
func (a *assignment) partitions(topic string) (out []int32) {
	for _, l := range a.All() {
		if l.Topic == topic {
			out = append(out, int32(l.Index))
		}
	}
	return out
}

// heldRecords returns the number and the size of the records that are fetched and not delivered. It omits
// paused partitions, because they would block the others.
func (a *assignment) heldRecords() (records, bytes int) {
	for _, l := range a.All() {
		if !l.Paused() {
			records += len(l.queue)
			bytes += l.bytes
		}
	}
	return records, bytes
}

// put adds fetched records. It returns true if one of them is a transaction marker.
func (a *assignment) put(topic string, partition int32, recs []*kgo.Record) (marked bool) {
	l := a.partition(topic, partition)
	if l == nil || len(recs) == 0 {
		return false
	}
	l.next = recs[len(recs)-1].Offset + 1
	for _, r := range copyRecords(recs) {
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

// finished returns the offset to commit: all records below it are acknowledged. It returns 0 if there is
// none.
func (l *partition) finished() int64 {
	for len(l.markers) > 0 && l.markers[0].after <= l.Acked {
		l.marked = l.markers[0].at
		l.markers = l.markers[1:]
	}
	return max(l.Acked, l.marked) + 1
}

// setFirst records the first retained offset of a partition. If this offset is above the next offset to
// fetch, retention removed unread messages, and setFirst reports the difference as missed. The difference
// counts offsets, so it includes transaction markers and compacted records.
func (a *assignment) setFirst(topic string, partition int32, start int64) {
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

// Len returns the number of records that are fetched and not delivered.
func (l *partition) Len() int { return len(l.queue) }

// Take decodes the first n records and appends them to out. Records are decoded late because the encoded form
// needs less memory.
func (l *partition) Take(out []broker.Delivery, n int) []broker.Delivery {
	before := &skald.Message{}
	for _, r := range l.queue[:n] {
		out = append(out, broker.Delivery{Partition: l.Name, Position: r.Offset})
		d := &out[len(out)-1] // a pointer, because a delivery is large to copy
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

// byTopic returns the indexes of partitions by topic, as franz-go needs them.
func byTopic(partitions []*partition) map[string][]int32 {
	ps := map[string][]int32{}
	for _, l := range partitions {
		ps[l.Topic] = append(ps[l.Topic], int32(l.Index))
	}
	return ps
}

// offsets returns the offsets that are acknowledged and not committed. If ps is not nil, it returns only
// those of the partitions in ps. With sign it adds partitions with a note that is not in Kafka yet.
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

// commitNotes returns the metadata for commits, by the name of the partition.
func (a *assignment) commitNotes() map[string]string {
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
