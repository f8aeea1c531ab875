package rabbitbroker

import (
	"context"
	"errors"
	"fmt"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/skald-go/skald/broker"
)

// Lag returns the number of ready messages in the queues of the group's partitions. If members share one
// queue, the topics cannot be separated, so all messages count for the first topic.
func (b *Broker) Lag(ctx context.Context, group string, topics ...string) (map[string]int64, error) {
	out := map[string]int64{}
	err := b.withConn(ctx, func(conn *amqp.Connection) error {
		count := func(topic, queue string) error {
			err := ask(ctx, conn, func(ch *amqp.Channel) error {
				q, err := ch.QueueDeclarePassive(queue, true, false, false, false, nil)
				if err == nil {
					out[topic] += int64(q.Messages)
				}
				return err
			})
			if err != nil && !notFound(err) {
				return fmt.Errorf("read queue %q: %w", queue, orUnavailable(err))
			}
			return nil
		}
		switch {
		case len(topics) == 0:
			return nil
		case b.opts.Queue != "":
			return count(topics[0], b.opts.Queue)
		case b.opts.ByType:
			return count(topics[0], group)
		}
		for _, name := range topics {
			t, err := b.look(ctx, conn, name)
			for partition := 0; err == nil && partition < t.partitions; partition++ {
				err = count(name, Queue(group, name, partition))
			}
			if err != nil && !errors.Is(err, broker.ErrNoTopic) {
				return err
			}
		}
		return nil
	})
	return out, err
}
