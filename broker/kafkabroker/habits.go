package kafkabroker

import (
	"fmt"
	"hash/crc32"
	"hash/fnv"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// hashers place a key among n partitions as the client of that name does. A key of no bytes is a key here; some of
// those clients scatter it, so that any place of it is theirs.
func hasher(name string) (kgo.PartitionerHasher, error) {
	switch name {
	case "", "murmur2":
		return nil, nil
	case "crc32":
		return func(key []byte, n int) int { return int(uint64(crc32.ChecksumIEEE(key)) % uint64(n)) }, nil
	case "fnv1a":
		return kgo.SaramaCompatHasher(func(key []byte) uint32 {
			h := fnv.New32a()
			_, _ = h.Write(key)
			return h.Sum32()
		}), nil
	}
	return nil, fmt.Errorf("the partitioner is murmur2, crc32 or fnv1a, not %q", name)
}

func (o *Options) partitioner() (kgo.Partitioner, error) {
	hash, err := hasher(o.Partitioner)
	if o.Partition != nil {
		return chosen{kgo.StickyKeyPartitioner(nil), o.Partition}, err
	}
	return kgo.StickyKeyPartitioner(hash), err
}

// chosen lets the user's function place what has a key.
type chosen struct {
	kgo.Partitioner
	partition func(topic string, key []byte, n int) int
}

// ForTopic is called by franz-go.
func (c chosen) ForTopic(topic string) kgo.TopicPartitioner {
	return chosenOf{c.Partitioner.ForTopic(topic), topic, c.partition}
}

type chosenOf struct {
	kgo.TopicPartitioner
	topic     string
	partition func(topic string, key []byte, n int) int
}

// Partition is called by franz-go.
func (c chosenOf) Partition(r *kgo.Record, n int) int {
	if r.Key == nil {
		return c.TopicPartitioner.Partition(r, n)
	}
	return c.partition(c.topic, r.Key, n)
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
