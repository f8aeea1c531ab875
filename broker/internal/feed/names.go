// This file has the rules for names of topics, groups and partitions.

package feed

import (
	"hash/fnv"
	"strconv"
	"strings"
)

// OK returns true if name is valid for a topic, a group or a member: 1 to 249 characters of A-Z a-z 0-9 . _
// -.
func OK(name string) bool {
	other := func(c rune) bool {
		return (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && c != '.' &&
			c != '_' && c != '-'
	}
	return name != "" && len(name) <= 249 && !strings.ContainsFunc(name, other)
}

// Partition returns the name of a partition, such as "orders/3".
func Partition(topic string, index int) string { return topic + "/" + strconv.Itoa(index) }

// PartitionOf returns the partition of a key among n partitions, by its FNV-1a hash. It is for brokers that
// do not select partitions themselves.
func PartitionOf(key []byte, n int) int {
	h := fnv.New32a()
	_, _ = h.Write(key)
	return int(h.Sum32() % uint32(n))
}

// LargestPayload is the largest size of data, headers and key, in bytes, that the outbox accepts. A broker
// with a lower limit refuses some messages of the outbox.
const LargestPayload = 921_600 + 16<<10 + 2<<10
