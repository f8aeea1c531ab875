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

// errInUse is wrapped by errors about a group that has a member.
var errInUse = errors.New("it has a consumer")

// RemoveTopics deletes the exchanges of topics, and the queues with their numbers of partitions. The map
// topicIDs has the id of each topic; a topic with another id was recreated, and stays. Missing topics are no
// error. Queues of groups stay; see RemoveGroup.
func (b *Broker) RemoveTopics(ctx context.Context, topicIDs map[string]string) error {
	return b.withConn(ctx, func(conn *amqp.Connection) error {
		for _, name := range slices.Sorted(maps.Keys(topicIDs)) {
			t, err := b.look(ctx, conn, name)
			if errors.Is(err, broker.ErrNoTopic) || err == nil && t.id != topicIDs[name] {
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
				return fmt.Errorf("remove topic %q: %w", name, orUnavailable(err))
			}
		}
		return nil
	})
}

// RemoveGroup deletes the queues of a group in existing topics, with their messages. It waits until the
// queues have no consumer, or until ctx ends. Missing queues are no error.
func (b *Broker) RemoveGroup(ctx context.Context, group string, topics ...string) error {
	if !feed.OK(group) {
		return fmt.Errorf("remove group %q: %w", group, errName)
	}
	return b.withConn(ctx, func(conn *amqp.Connection) error {
		for _, name := range topics {
			t, err := b.look(ctx, conn, name)
			if errors.Is(err, broker.ErrNoTopic) {
				continue
			}
			for i := 0; err == nil && i < t.partitions; i++ {
				err = removeQueue(ctx, conn, Queue(group, name, i))
			}
			if err != nil {
				return fmt.Errorf("remove group %q: %w", group, orUnavailable(err))
			}
		}
		return nil
	})
}

// removeQueue waits until the queue has no consumer, and deletes it.
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
