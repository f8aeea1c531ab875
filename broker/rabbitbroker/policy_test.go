package rabbitbroker_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/broker"
	"github.com/skald-go/skald/broker/rabbitbroker"
	"github.com/skald-go/skald/internal/need"
)

// vhost creates a virtual host for the test. It returns its name, and a function that runs rabbitmqctl for
// it.
func vhost(t *testing.T, at string) (name string, ctl func(verb string, args ...string) string) {
	t.Helper()
	do := need.RabbitMQCtl(t)
	name = fmt.Sprintf("test%x", time.Now().UnixNano())
	do("add_vhost", name)
	t.Cleanup(func() { do("delete_vhost", name) })
	ctl = func(verb string, args ...string) string {
		return do(append([]string{verb, "-p", name}, args...)...)
	}
	ctl("set_permissions", "guest", ".*", ".*", ".*")
	return name, ctl
}

// TestPoliciesThatDrop: what policies make the queues of partitions drop is kept aside and told of. Where a
// policy lets the messages of all queues expire, no topic is made.
func TestPoliciesThatDrop(t *testing.T) {
	t.Parallel()
	at := need.RabbitMQ(t)
	name, ctl := vhost(t, at)
	b := open(t, at, &rabbitbroker.Options{VHost: name})
	if said, err := b.CheckTopics(t.Context()); err != nil || len(said) > 0 {
		t.Fatalf("at first: %q, %v", said, err)
	}
	const each = 20
	dropped := 0
	for i, c := range []struct {
		verb, policy string
		left         int
	}{
		{"set_policy", `{"message-ttl":1}`, 0},
		{"set_policy", `{"message-ttl":1,"dead-letter-exchange":"elsewhere"}`, 0},
		{"set_policy", `{"max-length":3,"overflow":"drop-head"}`, 3},
		{"set_operator_policy", `{"message-ttl":1}`, 0},
	} {
		topic, group := fmt.Sprint("t", i), fmt.Sprint("g", i)
		ctl(c.verb, group, "^"+group+"/", c.policy)
		if err := b.MakeTopics(t.Context(), 1, topic); err != nil {
			t.Fatal(err)
		}
		if err := b.Declare(t.Context(), broker.Group{Name: group, Topics: []string{topic}}); err != nil {
			t.Fatal(err)
		}
		for n := range each {
			if err := b.Publish(t.Context(),
				[]skald.Message{message(topic, "k", n)}).Wait(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		dropped += each - c.left
		until(t, c.policy+": the number of dropped messages", func() bool {
			found, err := b.Examine(t.Context(), topic)
			return err == nil && slices.ContainsFunc(found, func(f skald.Finding) bool {
				return f.Name == "dropped" && f.Grade == skald.Failed &&
					strings.HasPrefix(f.Observed, fmt.Sprintf("a policy dropped %d messages", dropped))
			})
		})
		if missing, err := b.CheckTopics(t.Context(), topic); err != nil || len(missing) > 0 {
			t.Errorf("a topic that exists is missing, for a message was dropped: %q, %v", missing, err)
		}
	}
	ctl("set_policy", "all", ".*", `{"message-ttl":1}`)
	until(t, "a refusal to make topics where everything expires", func() bool {
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		err := b.MakeTopics(ctx, 1, "t")
		return err != nil && strings.Contains(err.Error(), "policy with message-ttl")
	})
}
