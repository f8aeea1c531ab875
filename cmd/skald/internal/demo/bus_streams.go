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

// A keeper is a broker that tells by itself which it is and which its topics are: NATS, RabbitMQ.
type keeper interface {
	broker.TopicMaker
	Incarnation(ctx context.Context) (string, error)
	Topics(ctx context.Context, names ...string) (broker.Topics, error)
}

// busKept is what a keeper tells; its name is made with its first topics.
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

// nats is a NATS. What other groups keep in the bucket of the run's groups stays, and so does its name.
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
			return fmt.Errorf("look into topics at %s: %w", n.url, err)
		}
		for _, topic := range used {
			return notWritten(topic, "its stream")
		}
	}
	for _, group := range groups(r.Prefix) {
		read, err := n.broker.GroupTopics(ctx, group)
		if err != nil {
			return fmt.Errorf("look at group %s at %s: %w", group, n.url, err)
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

// rabbit is a RabbitMQ. What all that speak to it share stays.
type rabbit struct{ broker *rabbitbroker.Broker }

func (r *rabbit) there(ctx context.Context, names []string) (string, map[string]string, error) {
	return busKept(ctx, r.broker, names)
}

// own finds nothing foreign: a group's queue is of one topic, and its name says so.
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
