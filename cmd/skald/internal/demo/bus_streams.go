package demo

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/skald-go/skald/broker"
	"github.com/skald-go/skald/broker/natsbroker"
	"github.com/skald-go/skald/broker/rabbitbroker"
)

// keeper is a broker that stores its own ID and the IDs of its topics: NATS or RabbitMQ.
type keeper interface {
	broker.TopicMaker
	Incarnation(ctx context.Context) (string, error)
	Topics(ctx context.Context, names ...string) (broker.Topics, error)
}

// busKept returns the ID of the broker, and the IDs of its topics. MakeTopics creates the ID if it is
// missing.
func busKept(ctx context.Context, k keeper, names []string) (cluster string, ids map[string]string,
	err error) {
	if err := k.MakeTopics(ctx, partitions); err != nil {
		return "", nil, err
	}
	if cluster, err = k.Incarnation(ctx); err != nil {
		return "", nil, err
	}
	ids, err = k.Topics(ctx, names...)
	return cluster, ids, err
}

// nats is a NATS server. remove leaves the ID of the server, and the entries of other groups.
type nats struct {
	broker *natsbroker.Broker
	url    string
}

func (n *nats) there(ctx context.Context, names []string) (string, map[string]string, error) {
	return busKept(ctx, n.broker, names)
}

func (n *nats) own(ctx context.Context, r *busRun, _ map[string]string) error {
	if len(r.Topics) == 0 {
		used, err := n.broker.Used(ctx, r.topics()...)
		if err != nil {
			return fmt.Errorf("read topics at %s: %w", n.url, err)
		}
		for _, topic := range used {
			return notWritten(topic, "its stream")
		}
	}
	for _, group := range groups(r.Prefix) {
		read, err := n.broker.GroupTopics(ctx, group)
		if err != nil {
			return fmt.Errorf("read group %s at %s: %w", group, n.url, err)
		}
		if err := notRead(group, read, r.topics()); err != nil {
			return err
		}
	}
	return nil
}

func (n *nats) remove(ctx context.Context, groups []string, ids map[string]string) error {
	for _, group := range groups {
		if err := n.broker.RemoveGroup(ctx, group); err != nil {
			return fmt.Errorf("remove group %s: %w", group, err)
		}
	}
	if err := n.broker.RemoveTopics(ctx, ids); err != nil {
		return fmt.Errorf("remove topics: %w", err)
	}
	return nil
}

// rabbit is a RabbitMQ server. remove leaves the objects that all programs with Skald share.
type rabbit struct{ broker *rabbitbroker.Broker }

func (r *rabbit) there(ctx context.Context, names []string) (string, map[string]string, error) {
	return busKept(ctx, r.broker, names)
}

// own always returns nil: the name of a group's queue contains the topic, so it cannot read a foreign topic.
func (r *rabbit) own(context.Context, *busRun, map[string]string) error { return nil }

func (r *rabbit) remove(ctx context.Context, groups []string, ids map[string]string) error {
	for _, group := range groups {
		if err := r.broker.RemoveGroup(ctx, group, slices.Collect(maps.Keys(ids))...); err != nil {
			return fmt.Errorf("remove group %s: %w", group, err)
		}
	}
	if err := r.broker.RemoveTopics(ctx, ids); err != nil {
		return fmt.Errorf("remove topics: %w", err)
	}
	return nil
}
