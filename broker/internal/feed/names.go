// This file are the names that drivers share: of topics and groups, and of their partitions.

package feed

import (
	"hash/fnv"
	"strconv"
	"strings"
)

// OK tells whether name can be that of a topic, a group or a member: 1 to 249 of A-Z a-z 0-9 . _ -.
func OK(name string) bool {
	other := func(c rune) bool {
		return (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && c != '.' &&
			c != '_' && c != '-'
	}
	return name != "" && len(name) <= 249 && !strings.ContainsFunc(name, other)
}

// Partition is the name of a topic's partition, "orders/3".
func Partition(topic string, index int) string { return topic + "/" + strconv.Itoa(index) }

// PartitionOf is the index of a key's partition among n, by FNV-1a, where the broker leaves it to the driver.
func PartitionOf(key []byte, n int) int {
	h := fnv.New32a()
	_, _ = h.Write(key)
	return int(h.Sum32() % uint32(n))
}

// LargestPayload is what the outbox takes of a message in data, headers and key, in bytes. Below it a
// broker's limit refuses what the outbox took.
const LargestPayload = 921_600 + 16<<10 + 2<<10
