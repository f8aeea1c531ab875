// This file limits the memory for unpacked (decompressed) batches.

package kafkabroker

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kbin"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/skald-go/skald/broker"
)

// unpackedMost is the maximum memory of an unpacked batch, with its records and headers, in bytes. A few
// megabytes suffice for most producers, but an attacker can pack a gigabyte into a few kilobytes.
const unpackedMost = 32 << 20

// unpackedBudget is the maximum memory of all unpacked batches of a subscription, in bytes. It includes
// memory that the garbage collector has not freed yet.
const unpackedBudget = 48 << 20

// unpackedUsual is the limit for one batch when less than unpackedMost of the budget is left, in bytes.
const unpackedUsual = 4 << 20

const (
	recordBytes = 200 // size of a kgo.Record and its pointer
	headerBytes = 40  // size of a kgo.RecordHeader
	// smallestCounted is the size of the smallest block that counts. The runtime may put smaller blocks
	// together, and then a cleanup may never run.
	smallestCounted = 1 << 10
)

// errBudget is the error of a batch for which the budget has no room. The client fetches the batch again.
var errBudget = errors.New("the batches fetched before it take all memory for unpacking")

// unpacker decompresses batches within a budget. It counts the memory of unpacked bytes, records and headers
// until the garbage collector frees it. If the rest of the budget is too small for a batch, the batch fails
// with errBudget, and the client fetches it again. A batch above unpackedMost fails with
// kgo.ErrMaxDecompress.
//
// Uncompressed batches also count. They are never delayed, because the fetch request limits their size.
type unpacker struct {
	largest, usual kgo.Decompressor
	one            sync.Mutex // held while a batch is unpacked
	used           atomic.Int64
}

func newUnpacker() (*unpacker, error) {
	largest, err := codecs(unpackedMost)
	if err != nil {
		return nil, err
	}
	usual, err := codecs(unpackedUsual)
	return &unpacker{largest: largest, usual: usual}, err
}

// codecs returns franz-go's decompressor with a limit for the result. Only a client can set this limit, so
// codecs creates a client and closes it. The decompressor checks the limit before it allocates memory.
func codecs(most int) (kgo.Decompressor, error) {
	cl, err := kgo.NewClient(kgo.MaxDecompressBatchBytes(most))
	if err != nil {
		return nil, err
	}
	defer cl.Close()
	out, _ := cl.OptValue(kgo.WithDecompressor).(kgo.Decompressor)
	return out, nil
}

func delayed(e kgo.FetchError) bool { return errors.Is(e.Err, errBudget) }

// collectGarbage runs the garbage collector after a batch was delayed, so that the next fetch finds room.
func (u *unpacker) collectGarbage(ctx context.Context) {
	runtime.GC()
	select {
	case <-time.After(10 * time.Millisecond): // the runtime calls the cleanups after the collection
	case <-ctx.Done():
	}
}

// Decompress unpacks a batch, or returns an error if the budget has no room. It implements kgo.Decompressor.
func (u *unpacker) Decompress(src []byte, codec kgo.CompressionCodecType) ([]byte, error) {
	u.one.Lock()
	defer u.one.Unlock()
	rest := unpackedBudget - int(u.used.Load())
	by := u.largest
	switch {
	case rest < unpackedUsual:
		return nil, errBudget
	case rest < unpackedMost:
		by = u.usual
	}
	out, err := by.Decompress(src, codec)
	if errors.Is(err, kgo.ErrMaxDecompress) && by == u.usual {
		return nil, errBudget
	}
	if err != nil {
		return nil, err
	}
	records, headers := count(out)
	extra := records*recordBytes + headers*headerBytes
	switch {
	case len(out)+extra > unpackedMost:
		return nil, kgo.ErrMaxDecompress
	case len(out)+extra > rest:
		return nil, errBudget
	}
	if n := len(out) + headers*headerBytes; n >= smallestCounted && len(out) > 0 {
		countMemory(u, &out[0], n)
	}
	return out, nil
}

// GetRecords allocates the records of a batch. It implements kgo.PoolRecords.
func (u *unpacker) GetRecords(n int) []kgo.Record {
	recs := make([]kgo.Record, n)
	if n*recordBytes >= smallestCounted {
		countMemory(u, &recs[0], n*recordBytes)
	}
	return recs
}

// PutRecords does nothing, because the garbage collector frees the records. It implements kgo.PoolRecords.
func (*unpacker) PutRecords([]kgo.Record) {}

// countMemory adds n bytes to the used memory, until the garbage collector frees the block at p.
func countMemory[T any](u *unpacker, p *T, n int) {
	u.used.Add(int64(n))
	runtime.AddCleanup(p, func(n int64) { u.used.Add(-n) }, int64(n))
}

// count returns the number of records and headers that franz-go will allocate for an unpacked batch. Before
// Kafka 0.11 the content is a message set; it begins with an offset.
func count(unpacked []byte) (records, headers int) {
	if len(unpacked) > 0 && unpacked[0] == 0 {
		for len(unpacked) >= 12 {
			size := int64(binary.BigEndian.Uint32(unpacked[8:]))
			unpacked = unpacked[min(12+size, int64(len(unpacked))):]
			records++
		}
		return records, 0
	}
	for len(unpacked) > 0 {
		length, used := kbin.Varint(unpacked)
		if used <= 0 || length < 0 || len(unpacked)-used < int(length) {
			break
		}
		r := kbin.Reader{Src: unpacked[used : used+int(length)]}
		r.Int8()
		r.Varlong()
		r.Varint()
		r.VarintBytes()
		r.VarintBytes()
		headers += max(0, int(r.VarintArrayLen()))
		records++
		unpacked = unpacked[used+int(length):]
	}
	return records, headers
}

// copyRecords copies records out of their batches. Otherwise one record would keep the memory of its whole
// batch.
func copyRecords(fetched []*kgo.Record) []*kgo.Record {
	recs, out := make([]kgo.Record, len(fetched)), make([]*kgo.Record, len(fetched))
	for i, r := range fetched {
		recs[i], out[i] = *r, &recs[i]
		recs[i].Context = nil
		recs[i].Key, recs[i].Value = bytes.Clone(r.Key), bytes.Clone(r.Value)
		recs[i].Headers = slices.Clone(r.Headers)
		for j := range r.Headers {
			recs[i].Headers[j].Value = bytes.Clone(r.Headers[j].Value)
		}
	}
	return out
}

// skips maps partitions to the offsets at which fetching must continue. They follow a batch that is too
// large, or are those of dropped records.
type skips = map[string]map[int32]kgo.EpochOffset

// tooLarge handles the error of a batch that is too large to unpack. It adds one delivery for the whole
// batch, with a Fault and the last position of the batch. It returns false for other errors.
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

// skip sets the offsets at which fetching must continue. The caller blocks rebalances meanwhile.
func (s *Subscription) skip(past skips) {
	if len(past) == 0 {
		return
	}
	s.committing.Lock()
	defer s.committing.Unlock()
	s.cl.SetOffsets(past)
}

// dropPaused drops fetched records of paused partitions until at most maxBytesHeld are left. The client
// fetches them again after the pause.
func (a *assignment) dropPaused(past skips) {
	bytes := 0
	for _, l := range a.All() {
		if l.Paused() {
			bytes += l.bytes
		}
	}
	for _, l := range a.All() {
		if bytes <= maxBytesHeld || !l.Paused() || len(l.queue) == 0 {
			continue
		}
		bytes -= l.bytes
		if past[l.Topic] == nil {
			past[l.Topic] = map[int32]kgo.EpochOffset{}
		}
		past[l.Topic][int32(l.Index)] = kgo.EpochOffset{Epoch: -1, Offset: l.drop()}
	}
}

// drop empties the queue. It returns the offset of the first dropped record.
func (l *partition) drop() int64 {
	first := l.queue[0].Offset
	l.markers = slices.DeleteFunc(l.markers, func(m marker) bool { return m.after >= first })
	l.queue, l.bytes, l.next, l.unread = nil, 0, first, nil
	return first
}
