package operate

import (
	"strings"
	"testing"
	"time"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/broker"
	"github.com/skald-go/skald/store"
)

// A consumer that is stopped, or stuck, for longer than the broker keeps its topic misses messages.
func TestConsumerStoppedForLongerThanTheBrokerKeeps(t *testing.T) {
	const day = 24 * time.Hour
	for name, c := range map[string]struct {
		heard, progress time.Duration
		lag             int64
		keeps           map[string]time.Duration
		warns           bool
	}{
		"stopped for long":     {9 * day, 9 * day, 0, map[string]time.Duration{"orders": 7 * day}, true},
		"stopped for a while":  {6 * day, 6 * day, 0, map[string]time.Duration{"orders": 7 * day}, false},
		"stuck for long":       {time.Second, 9 * day, 1, map[string]time.Duration{"orders": 7 * day}, true},
		"idle for long":        {time.Second, 9 * day, 0, map[string]time.Duration{"orders": 7 * day}, false},
		"kept by the operator": {9 * day, 9 * day, 0, map[string]time.Duration{"": 7 * day}, true},
		"kept forever": {9 * day, 9 * day, 0, map[string]time.Duration{"orders": broker.Forever},
			false},
		"another topic": {9 * day, 9 * day, 0, map[string]time.Duration{"parcels": day}, false},
		"kept for a second": {time.Minute, time.Minute, 0, map[string]time.Duration{"orders": time.Second},
			false},
	} {
		d := Doctor{keeps: &store.Retention{}, consumers: []store.Consumer{{Name: "stock",
			Topics: []string{"orders"}, LastHeartbeat: c.heard, Progress: c.progress}},
			lag: map[string]map[string]int64{"stock": {"orders": c.lag}}}
		d.Windows(Window{}, c.keeps, true)
		found := false
		for _, f := range d.Found {
			if f.Name == "stopped stock" {
				found = f.Grade == skald.Doubtful && strings.Contains(f.Observed, "orders") && f.Remedy != ""
			}
		}
		if found != c.warns {
			t.Errorf("%s: the doctor found %+v", name, d.Found)
		}
	}
}
