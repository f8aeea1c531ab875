package operate

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/store"
)

// Limits of the alerts and of Doctor.
const (
	// GoneAfter is the time without a heartbeat after which a consumer counts as gone. A running consumer
	// sends a heartbeat each minute.
	GoneAfter = 3 * time.Minute
	// RetiredAfter is the time without a heartbeat after which a consumer counts as given up.
	RetiredAfter = 7 * 24 * time.Hour
	// StuckAfter is the time without a finished message after which a consumer with waiting messages counts
	// as stuck.
	StuckAfter = 5 * time.Minute
)

// ConsumerFindings returns a finding for each consumer. The map lag has the number of messages that wait at
// the broker, by consumer and topic. If lag has no entry for a consumer, the number is not known. If
// selects is not nil, ConsumerFindings omits the consumers for which it returns false.
func ConsumerFindings(consumers []store.Consumer, lag map[string]map[string]int64,
	selects func(consumer string) bool) []skald.Finding {
	var out []skald.Finding
	for _, c := range consumers {
		if selects != nil && !selects(c.Name) {
			continue
		}
		f := skald.Finding{Name: "consumer " + c.Name, Grade: skald.Fine}
		f.Observed = fmt.Sprintf("last heartbeat %v ago, last progress %v ago",
			c.LastHeartbeat.Round(time.Second),
			c.Progress.Round(time.Second))
		waits := int64(0)
		if of, known := lag[c.Name]; known {
			var parts []string
			for _, topic := range slices.Sorted(maps.Keys(of)) {
				waits += of[topic]
				parts = append(parts, fmt.Sprintf("%d of %s", of[topic], topic))
			}
			if len(parts) > 0 {
				f.Observed += "; waiting at the broker: " + strings.Join(parts, ", ")
			}
		}
		switch {
		case c.LastHeartbeat > RetiredAfter:
			f.Grade, f.Remedy = skald.Doubtful,
				"it counts as given up: if you removed it, delete its rows of skald_consumer; if not, start it"
		case c.LastHeartbeat > GoneAfter:
			f.Grade, f.Remedy = skald.Failed,
				"start it, or find out why it ended or cannot write to this database; docs/operations.md: SkaldConsumerGone"
		case waits > 0 && c.Progress > StuckAfter:
			f.Grade, f.Remedy = skald.Failed,
				"its handlers hang or fail: see \"blocked\", and its log; docs/operations.md: SkaldConsumerLag"
		}
		out = append(out, f)
	}
	return out
}
