// This file assigns the partitions of a topic to the members of a group. All members compute the same
// assignment.

package rabbitbroker

import (
	"hash/fnv"
	"io"
	"slices"

	"github.com/skald-go/skald/broker/internal/feed"
)

// owners returns the owner of each partition of a topic, by index. Each member gets the same number of
// partitions. The members that get one more depend on the topic. When members join or leave, few partitions
// move.
func owners(topic string, partitions int, members []string) []string {
	members = slices.Sorted(slices.Values(members))
	room := map[string]int{}
	first := int(weight(topic) % uint64(len(members)))
	for i := range members {
		room[members[(first+i)%len(members)]] = partitions / len(members)
		if i < partitions%len(members) {
			room[members[(first+i)%len(members)]]++
		}
	}
	out := make([]string, partitions)
	for i := range out {
		most := uint64(0)
		for _, m := range members {
			if w := weight(feed.Partition(topic, i), m); room[m] > 0 && (out[i] == "" || w > most) {
				out[i], most = m, w
			}
		}
		room[out[i]]--
	}
	return out
}

func weight(parts ...string) uint64 {
	h := fnv.New64a()
	for _, p := range parts {
		_, _ = io.WriteString(h, p+"\x00")
	}
	w := h.Sum64() // mixed below, because the last bytes change few bits of an FNV hash
	w = (w ^ w>>33) * 0xff51afd7ed558ccd
	return w ^ w>>33
}
