package kafkabroker

import (
	"maps"
	"strconv"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/skald-go/skald"
)

// What a cluster of one broker cannot show: how many have each message, how many must, and how many are
// there.
func TestFindingsOfReplicas(t *testing.T) {
	for name, c := range map[string]struct {
		copies, now, least int
		grade              skald.Grade
		words              string
	}{
		"three, two at least":      {3, 3, 2, skald.Fine, "3, 3 of them in sync, min.insync.replicas 2"},
		"one alone":                {1, 1, 1, skald.Doubtful, "three replicas"},
		"one may acknowledge":      {3, 3, 1, skald.Failed, "min.insync.replicas=2"},
		"each restart stops it":    {3, 3, 3, skald.Doubtful, "min.insync.replicas=2, or add replicas"},
		"one is behind":            {3, 2, 2, skald.Doubtful, "under-replicated-partitions"},
		"nothing can be published": {3, 1, 2, skald.Failed, "under-min-isr-partitions"},
	} {
		whole := kadm.PartitionDetail{Replicas: make([]int32, c.copies), ISR: make([]int32, c.copies)}
		weakest := kadm.PartitionDetail{Replicas: make([]int32, c.copies), ISR: make([]int32, c.now)}
		topic := kadm.TopicDetail{Partitions: kadm.PartitionDetails{0: whole, 1: weakest}}
		got := replicas("orders", topic, map[string]string{"min.insync.replicas": strconv.Itoa(c.least)})
		if len(got) != 1 || got[0].Name != "replicas of orders" || got[0].Grade != c.grade ||
			!strings.Contains(got[0].Observed+" → "+got[0].Remedy, c.words) {
			t.Errorf("%s: %+v, want %s %q", name, got, c.grade, c.words)
		}
	}
}

func TestFindingsOfPolicies(t *testing.T) {
	healthy := map[string]string{"unclean.leader.election.enable": "false", "cleanup.policy": "delete",
		largestSetting: "1048588"}
	for setting, c := range map[string]struct {
		is    string
		grade skald.Grade
	}{
		"":                               {"", ""},
		"unclean.leader.election.enable": {"true", skald.Failed},
		"cleanup.policy":                 {"compact,delete", skald.Doubtful},
		largestSetting:                   {"900000", skald.Doubtful},
	} {
		is := maps.Clone(healthy)
		if setting != "" {
			is[setting] = c.is
		}
		for _, f := range policies("orders", is) {
			want := skald.Grade(skald.Fine)
			if f.Name == setting+" of orders" {
				want = c.grade
			}
			if f.Grade != want || (want != skald.Fine) != (f.Remedy != "") {
				t.Errorf("%s is %q: %+v, want %s", setting, c.is, f, want)
			}
		}
	}
}
