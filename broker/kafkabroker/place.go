// This file selects the partition of a key in the same way as other Kafka clients.

package kafkabroker

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"hash/fnv"

	"github.com/twmb/franz-go/pkg/kgo"
)

// byName returns the function that selects partitions like the client with that hash: "murmur2" (the
// default), "crc32" or "fnv1a". An empty key counts as a key. Some clients select a random partition for an
// empty key, so any partition is compatible with them.
func byName(name string) (func(topic string, key []byte, n int) int, error) {
	switch name {
	case "", "murmur2":
		return func(_ string, key []byte, n int) int { return int(murmur2(key)&0x7fffffff) % n }, nil
	case "crc32":
		return func(_ string, key []byte, n int) int {
			return int(uint64(crc32.ChecksumIEEE(key)) % uint64(n))
		}, nil
	case "fnv1a":
		hash := kgo.SaramaCompatHasher(fnv1a)
		return func(_ string, key []byte, n int) int { return hash(key, n) }, nil
	}
	return nil, fmt.Errorf("the partitioner is murmur2, crc32 or fnv1a, not %q", name)
}

func fnv1a(key []byte) uint32 {
	h := fnv.New32a()
	_, _ = h.Write(key)
	return h.Sum32()
}

// murmur2 is the hash of Java's client.
func murmur2(b []byte) uint32 {
	const m = 0x5bd1e995
	h := 0x9747b28c ^ uint32(len(b))
	for ; len(b) >= 4; b = b[4:] {
		k := binary.LittleEndian.Uint32(b) * m
		h = h*m ^ (k^k>>24)*m
	}
	switch len(b) {
	case 3:
		h ^= uint32(b[2]) << 16
		fallthrough
	case 2:
		h ^= uint32(b[1]) << 8
		fallthrough
	case 1:
		h = (h ^ uint32(b[0])) * m
	}
	h = (h ^ h>>13) * m
	return h ^ h>>15
}

// placeKeyed is a partitioner that selects the partitions of records with a key. franz-go selects those of
// other records.
type placeKeyed struct {
	kgo.Partitioner
	place func(topic string, key []byte, n int) int
}

// partitionBy returns a partitioner that selects the partition of a key with the function place.
func partitionBy(place func(topic string, key []byte, n int) int) kgo.Partitioner {
	return placeKeyed{kgo.StickyPartitioner(), place}
}

// ForTopic is called by franz-go.
func (k placeKeyed) ForTopic(topic string) kgo.TopicPartitioner {
	return placeTopic{k.Partitioner.ForTopic(topic), topic, k.place}
}

// placeTopic is the partitioner of one topic.
type placeTopic struct {
	kgo.TopicPartitioner
	Name  string
	place func(topic string, key []byte, n int) int
}

var _ kgo.TopicPartitionerOnNewBatch = placeTopic{}

// RequiresConsistency is called by franz-go.
func (k placeTopic) RequiresConsistency(r *kgo.Record) bool { return r.Key != nil }

// Partition is called by franz-go.
func (k placeTopic) Partition(r *kgo.Record, n int) int {
	if r.Key == nil {
		return k.TopicPartitioner.Partition(r, n)
	}
	return k.place(k.Name, r.Key, n)
}

// OnNewBatch is called by franz-go.
func (k placeTopic) OnNewBatch() {
	if b, ok := k.TopicPartitioner.(kgo.TopicPartitionerOnNewBatch); ok {
		b.OnNewBatch()
	}
}
