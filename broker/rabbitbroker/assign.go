// This file divides the partitions of a topic among the members of a group. All members compute the same
// result.

package rabbitbroker

import (
	"hash/fnv"
	"io"
	"slices"

	"github.com/skald-go/skald/broker/internal/feed"
)

// owners returns the owner of each partition of a topic among members. Each member gets an equal number.
// The remainder goes to other members for each topic. Few partitions move when members join or leave.
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
	w := h.Sum64() // mixed, because FNV's last bytes change few bits
	w = (w ^ w>>33) * 0xff51afd7ed558ccd
	return w ^ w>>33
}
