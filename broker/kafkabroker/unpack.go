package kafkabroker

import (
	"errors"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/skald-go/skald/broker"
)

// unpackedMost is how large a batch may be once it is decompressed: a few megabytes at most producers, and a
// gigabyte from a few kilobytes by who means harm.
const unpackedMost = 32 << 20

// skips are the batches of this fetch that are too large, with where to go on after them.
type skips = map[string]map[int32]kgo.EpochOffset

// tooLarge puts a delivery with a Fault in the place of a batch that is not to be unpacked. It stands for all
// positions of it: its own is the last.
func (s *Subscription) tooLarge(err error, past skips) bool {
	var large *kgo.ErrDecompressTooLarge
	if !errors.As(err, &large) {
		return false
	}
	if past[large.Topic] == nil {
		past[large.Topic] = map[int32]kgo.EpochOffset{}
	}
	past[large.Topic][large.Partition] = kgo.EpochOffset{Epoch: large.Epoch, Offset: large.NextOffset}
	last := large.NextOffset - 1
	if l := s.assigned.partition(large.Topic, large.Partition); l != nil {
		if l.unread == nil {
			l.unread = map[int64]error{}
		}
		l.unread[last] = &broker.TooLargeError{Limit: unpackedMost, First: large.Offset, Last: last}
	}
	s.assigned.put(large.Topic, large.Partition,
		[]*kgo.Record{{Topic: large.Topic, Partition: large.Partition, Offset: last}})
	return true
}

// skip reads on after batches that are too large. No rebalance is under way.
func (s *Subscription) skip(past skips) {
	if len(past) == 0 {
		return
	}
	s.committing.Lock()
	defer s.committing.Unlock()
	s.cl.SetOffsets(past)
}
