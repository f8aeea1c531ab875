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

// findings are what is doubtful of topics that Kafka has told of, and of their settings.
func findings(ctx context.Context, cl *kgo.Client, topics []string,
	told kadm.TopicDetails) (out []skald.Finding, err error) {
	set, err := settings(ctx, cl, topics, "min.insync.replicas", "unclean.leader.election.enable",
		"cleanup.policy", largestSetting)
	if err != nil {
		return nil, err
	}
	for _, name := range topics {
		t, there := told[name]
		if !there || t.Err != nil {
			continue // CheckTopics reports it
		}
		is, known := set[name]
		if !known {
			out = append(out, skald.Finding{Name: "settings of " + name, Grade: skald.Doubtful,
				Saw:    "this user may not ask for them",
				Remedy: "give DESCRIBE_CONFIGS on the topic to whoever runs this check"})
			continue
		}
		out = append(out, replicas(name, t, is)...)
		out = append(out, policies(name, is)...)
	}
	return out, nil
}

// replicas are how many have each message, and how many are there now.
func replicas(name string, t kadm.TopicDetail, is map[string]string) []skald.Finding {
	least, _ := strconv.Atoi(is["min.insync.replicas"]) // of what cannot be read: 0
	copies, now := 1<<30, 1<<30
	for _, p := range t.Partitions {
		copies, now = min(copies, len(p.Replicas)), min(now, len(p.ISR))
	}
	f := skald.Finding{Name: "replicas of " + name, Grade: skald.Fine,
		Saw: fmt.Sprintf("%d, %d of them in sync, min.insync.replicas %d", copies, now, least)}
	switch {
	case now < least:
		f.Grade, f.Remedy = skald.Failed,
			"nothing can be published to some partitions until brokers are back: kafka-topics.sh --describe --under-min-isr-partitions"
	case copies == 1:
		f.Grade, f.Remedy = skald.Doubtful,
			"three replicas: a broker that loses its disk loses what it acknowledged"
	case least < 2:
		f.Grade, f.Remedy = skald.Failed,
			"min.insync.replicas=2: one broker alone may acknowledge now, and take with it what it acknowledged"
	case least >= copies:
		f.Grade, f.Remedy = skald.Doubtful,
			fmt.Sprintf(
				"min.insync.replicas=%d, or more replicas: each broker that restarts stops publishing",
				copies-1)
	case now < copies:
		f.Grade, f.Remedy = skald.Doubtful,
			"a replica is behind, or its broker is away: kafka-topics.sh --describe --under-replicated-partitions"
	}
	return []skald.Finding{f}
}

func policies(name string, is map[string]string) (out []skald.Finding) {
	say := func(what string, ok bool, worst skald.Grade, saw, remedy string) {
		if ok {
			worst, remedy = skald.Fine, ""
		}
		out = append(out, skald.Finding{Name: what + " of " + name, Grade: worst, Saw: saw, Remedy: remedy})
	}
	say("unclean.leader.election.enable", is["unclean.leader.election.enable"] != "true", skald.Failed,
		is["unclean.leader.election.enable"],
		"set it to false: a replica that lacks acknowledged messages may become the leader")
	say("cleanup.policy", is["cleanup.policy"] == "delete", skald.Doubtful, is["cleanup.policy"],
		"delete, unless consumers only want the last message of each key: compaction removes the others, also those that nobody has read")
	most, err := strconv.Atoi(is[largestSetting])
	say(largestSetting, err != nil || most >= feed.LargestPayload, skald.Doubtful, is[largestSetting],
		fmt.Sprintf("%d or more: larger messages, which the outbox takes, are deferred with their keys",
			feed.LargestPayload))
	return out
}
