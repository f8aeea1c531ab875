package demo

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/skald-go/skald/cmd/skald/internal/exit"
	"github.com/skald-go/skald/examples/shop/event"
)

// ownOnNATS is a *exit.ForeignError if a topic or a group of the run's names is another's.
func (b *bus) ownOnNATS(ctx context.Context, e *entry, ids map[string]string) error {
	if len(e.topics) == 0 {
		used, err := b.nats.Used(ctx, event.New(e.prefix).Topics()...)
		if err != nil {
			return fmt.Errorf("look into topics at %s: %w", b.url, err)
		}
		for _, topic := range used {
			return &exit.ForeignError{What: "there are messages that the demo did not write in " + topic,
				Remedy: "remove its stream by hand; nothing is removed yet"}
		}
	}
	names := event.New(e.prefix).Topics()
	for _, group := range groups(e.prefix) {
		read, err := b.nats.GroupTopics(ctx, group)
		if err != nil {
			return fmt.Errorf("look at group %s at %s: %w", group, b.url, err)
		}
		for _, topic := range read {
			if !slices.Contains(names, topic) {
				return &exit.ForeignError{What: "the group " + group + " reads " + topic +
					", which the demo does not", Remedy: "remove the group by hand; nothing is removed yet"}
			}
		}
	}
	return nil
}

// removeOnNATS takes the run's groups away and then its streams, if they are still those that were looked at.
// What other groups keep in the same bucket stays, and so does the name of this NATS.
func (b *bus) removeOnNATS(ctx context.Context, e *entry, ids map[string]string) error {
	for _, group := range groups(e.prefix) {
		if err := b.nats.RemoveGroup(ctx, group); err != nil {
			return fmt.Errorf("remove group %s: %w", group, err)
		}
	}
	if err := b.nats.RemoveTopics(ctx, ids); err != nil {
		return fmt.Errorf("remove topics: %w", err)
	}
	return nil
}

// removeOnRabbitMQ takes the queues of the run's groups away and then its exchanges, if they are still those
// that were looked at. What all that speak to this RabbitMQ share stays.
func (b *bus) removeOnRabbitMQ(ctx context.Context, e *entry, ids map[string]string) error {
	for _, group := range groups(e.prefix) {
		if err := b.rabbit.RemoveGroup(ctx, group, slices.Collect(maps.Keys(ids))...); err != nil {
			return fmt.Errorf("remove group %s: %w", group, err)
		}
	}
	if err := b.rabbit.RemoveTopics(ctx, ids); err != nil {
		return fmt.Errorf("remove topics: %w", err)
	}
	return nil
}
