// Rules for names of topics, groups and partitions that drivers share.

package feed

import (
	"hash/fnv"
	"strconv"
	"strings"
)

// OK reports whether name can name a topic, a group or a member: 1 to 249 of A-Z a-z 0-9 . _ -.
func OK(name string) bool {
	other := func(c rune) bool {
		return (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && c != '.' &&
			c != '_' && c != '-'
	}
	return name != "" && len(name) <= 249 && !strings.ContainsFunc(name, other)
}

// Partition returns the name of a topic's partition, "orders/3".
func Partition(topic string, index int) string { return topic + "/" + strconv.Itoa(index) }

// PartitionOf returns the partition of a key among n, by FNV-1a, for brokers without partitioning.
func PartitionOf(key []byte, n int) int {
	h := fnv.New32a()
	_, _ = h.Write(key)
	return int(h.Sum32() % uint32(n))
}

// LargestPayload is the outbox's limit for data, headers and key of a message, in bytes. A broker with a
// lower limit refuses messages that the outbox accepts.
const LargestPayload = 921_600 + 16<<10 + 2<<10
