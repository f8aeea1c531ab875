package rabbitbroker

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/skald-go/skald/broker"
	"github.com/skald-go/skald/broker/internal/feed"
)

// errInUse: somebody is in the group.
var errInUse = errors.New("somebody is in it")

// RemoveTopics takes away the exchanges of topics that are those that Made told of; one that was made anew
// since is another's and stays. Those that are gone are no matter. Queues of groups stay: RemoveGroup.
func (b *Broker) RemoveTopics(ctx context.Context, made map[string]string) error {
	return b.with(ctx, func(conn *amqp.Connection) error {
		for _, name := range slices.Sorted(maps.Keys(made)) {
			t, err := b.look(ctx, conn, name)
			if errors.Is(err, broker.ErrNoTopic) || err == nil && t.id != made[name] {
				continue
			}
			if err == nil {
				err = ask(ctx, conn, func(ch *amqp.Channel) error {
					if err := ch.ExchangeDelete(name, false, false); err != nil {
						return err
					}
					_, err := ch.QueueDelete(Record(name), false, false, false)
					return err
				})
			}
			if err != nil {
				return fmt.Errorf("remove topic %q: %w", name, orAway(err))
			}
		}
		return nil
	})
}

// RemoveGroup takes away the queues of a group for topics that are still there, with what is in them, once
// nobody reads them any longer; it waits for that until ctx ends. Queues that are not there are no matter.
func (b *Broker) RemoveGroup(ctx context.Context, group string, topics ...string) error {
	if !feed.OK(group) {
		return fmt.Errorf("remove group %q: %w", group, errName)
	}
	return b.with(ctx, func(conn *amqp.Connection) error {
		for _, name := range topics {
			t, err := b.look(ctx, conn, name)
			if errors.Is(err, broker.ErrNoTopic) {
				continue
			}
			for i := 0; err == nil && i < t.partitions; i++ {
				err = removeQueue(ctx, conn, Queue(group, name, i))
			}
			if err != nil {
				return fmt.Errorf("remove group %q: %w", group, orAway(err))
			}
		}
		return nil
	})
}

// removeQueue waits until nobody is registered for it.
func removeQueue(ctx context.Context, conn *amqp.Connection, queue string) error {
	for {
		readers := 0
		err := ask(ctx, conn, func(ch *amqp.Channel) error {
			q, err := ch.QueueDeclarePassive(queue, true, false, false, false, nil)
			if readers = q.Consumers; err == nil && readers == 0 {
				_, err = ch.QueueDelete(queue, false, false, false)
			}
			return err
		})
		if err == nil && readers == 0 || notFound(err) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("queue %q: %w", queue, err)
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("queue %q: %w: %w", queue, errInUse, ctx.Err())
		case <-time.After(100 * time.Millisecond):
		}
	}
}
