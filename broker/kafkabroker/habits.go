package kafkabroker

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"hash/fnv"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// place is the partition of a key, as the client of that name chooses it. A key of no bytes is a key here;
// some of those clients scatter it, so that any place of it is theirs.
func (o *Options) place() (func(topic string, key []byte, n int) int, error) {
	switch {
	case o.Partition != nil && o.Partitioner != "":
		return nil, errors.New("the partition is chosen by Partitioner or by Partition, not by both")
	case o.Partition != nil:
		return o.Partition, nil
	}
	switch o.Partitioner {
	case "", "murmur2":
		return func(_ string, key []byte, n int) int { return int(murmur2(key)&0x7fffffff) % n }, nil
	case "crc32":
		return func(_ string, key []byte, n int) int { return int(uint64(crc32.ChecksumIEEE(key)) % uint64(n)) }, nil
	case "fnv1a":
		hash := kgo.SaramaCompatHasher(fnv1a)
		return func(_ string, key []byte, n int) int { return hash(key, n) }, nil
	}
	return nil, fmt.Errorf("the partitioner is murmur2, crc32 or fnv1a, not %q", o.Partitioner)
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

// keyed places what has a key, and leaves the rest to franz-go.
type keyed struct {
	kgo.Partitioner
	place func(topic string, key []byte, n int) int
}

// ForTopic is called by franz-go.
func (k keyed) ForTopic(topic string) kgo.TopicPartitioner {
	return keyedOf{k.Partitioner.ForTopic(topic), topic, k.place}
}

type keyedOf struct {
	kgo.TopicPartitioner
	topic string
	place func(topic string, key []byte, n int) int
}

var _ kgo.TopicPartitionerOnNewBatch = keyedOf{}

// RequiresConsistency is called by franz-go.
func (k keyedOf) RequiresConsistency(r *kgo.Record) bool { return r.Key != nil }

// Partition is called by franz-go.
func (k keyedOf) Partition(r *kgo.Record, n int) int {
	if r.Key == nil {
		return k.TopicPartitioner.Partition(r, n)
	}
	return k.place(k.topic, r.Key, n)
}

// OnNewBatch is called by franz-go.
func (k keyedOf) OnNewBatch() {
	if b, ok := k.TopicPartitioner.(kgo.TopicPartitionerOnNewBatch); ok {
		b.OnNewBatch()
	}
}

// balancers are those of Options.Balancers, in the order of preference.
func balancers(names []string) ([]kgo.GroupBalancer, error) {
	if len(names) == 0 {
		names = []string{"cooperative-sticky"}
	}
	known := []kgo.GroupBalancer{kgo.CooperativeStickyBalancer(), kgo.StickyBalancer(), kgo.RangeBalancer(), kgo.RoundRobinBalancer()}
	var out []kgo.GroupBalancer
	for _, name := range names {
		i := slices.IndexFunc(known, func(b kgo.GroupBalancer) bool { return b.ProtocolName() == name })
		if i < 0 {
			return nil, fmt.Errorf("a balancer is cooperative-sticky, sticky, range or roundrobin, not %q", name)
		}
		out = append(out, known[i])
	}
	return out, nil
}

// start is where a group begins in a topic of which it has committed nothing.
type start struct {
	latest bool
	at     time.Time // if not zero
}

func parseStart(s string) (start, error) {
	switch s {
	case "", "earliest":
		return start{}, nil
	case "latest":
		return start{latest: true}, nil
	}
	at, err := time.Parse(time.RFC3339, s)
	if err != nil {
		return start{}, fmt.Errorf("start is earliest, latest, or a time as in 2026-11-21T12:00:00Z, not %q", s)
	}
	return start{at: at}, nil
}
