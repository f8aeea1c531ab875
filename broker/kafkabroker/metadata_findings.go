package kafkabroker

import (
	"context"
	"fmt"
	"strconv"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/broker/internal/feed"
)

// findings checks the settings and the replicas of topics.
func findings(ctx context.Context, cl *kgo.Client, topics []string,
	listed kadm.TopicDetails) (out []skald.Finding, err error) {
	set, err := settings(ctx, cl, topics, "min.insync.replicas", "unclean.leader.election.enable",
		"cleanup.policy", largestSetting)
	if err != nil {
		return nil, err
	}
	for _, name := range topics {
		t, there := listed[name]
		if !there || t.Err != nil {
			continue // CheckTopics reports it
		}
		is, known := set[name]
		if !known {
			out = append(out, skald.Finding{Name: "settings of " + name, Grade: skald.Doubtful,
				Observed: "this user may not read them",
				Remedy:   "give DESCRIBE_CONFIGS on the topic to the user of this check"})
			continue
		}
		out = append(out, replicas(name, t, is)...)
		out = append(out, policies(name, is)...)
	}
	return out, nil
}

// replicas compares the number of replicas, and the number in sync, with min.insync.replicas.
func replicas(name string, t kadm.TopicDetail, is map[string]string) []skald.Finding {
	least, _ := strconv.Atoi(is["min.insync.replicas"]) // 0 if unknown
	copies, now := 1<<30, 1<<30
	for _, p := range t.Partitions {
		copies, now = min(copies, len(p.Replicas)), min(now, len(p.ISR))
	}
	f := skald.Finding{Name: "replicas of " + name, Grade: skald.Fine,
		Observed: fmt.Sprintf("%d, %d of them in sync, min.insync.replicas %d", copies, now, least)}
	switch {
	case now < least:
		f.Grade, f.Remedy = skald.Failed,
			"nothing can be published to some partitions until brokers are back: kafka-topics.sh --describe --under-min-isr-partitions"
	case copies == 1:
		f.Grade, f.Remedy = skald.Doubtful,
			"use three replicas: a broker that loses its disk loses acknowledged messages"
	case least < 2:
		f.Grade, f.Remedy = skald.Failed,
			"set min.insync.replicas=2: one broker alone can acknowledge messages now, and lose them"
	case least >= copies:
		f.Grade, f.Remedy = skald.Doubtful,
			fmt.Sprintf(
				"set min.insync.replicas=%d, or add replicas: each restart of a broker stops publishing",
				copies-1)
	case now < copies:
		f.Grade, f.Remedy = skald.Doubtful,
			"a replica is behind, or its broker is down: kafka-topics.sh --describe --under-replicated-partitions"
	}
	return []skald.Finding{f}
}

func policies(name string, is map[string]string) (out []skald.Finding) {
	say := func(what string, ok bool, worst skald.Grade, saw, remedy string) {
		if ok {
			worst, remedy = skald.Fine, ""
		}
		out = append(out,
			skald.Finding{Name: what + " of " + name, Grade: worst, Observed: saw, Remedy: remedy})
	}
	say("unclean.leader.election.enable", is["unclean.leader.election.enable"] != "true", skald.Failed,
		is["unclean.leader.election.enable"],
		"set it to false: a replica that lacks acknowledged messages may become the leader")
	say("cleanup.policy", is["cleanup.policy"] == "delete", skald.Doubtful, is["cleanup.policy"],
		"set it to delete, unless consumers only need the last message of each key: compaction removes the others, even unread ones")
	most, err := strconv.Atoi(is[largestSetting])
	say(largestSetting, err != nil || most >= feed.LargestPayload, skald.Doubtful, is[largestSetting],
		fmt.Sprintf("set it to %d or more: larger messages, which the outbox accepts, are deferred with their keys",
			feed.LargestPayload))
	return out
}
