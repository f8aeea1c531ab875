package rabbitbroker

import (
	"context"
	"errors"
	"fmt"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/skald-go/skald/broker"
)

// CheckTopics returns a line for each missing topic, and for each exchange or queue that Skald cannot use. It
// changes nothing.
func (b *Broker) CheckTopics(ctx context.Context, topics ...string) (missing []string, err error) {
	err = b.withConn(ctx, func(conn *amqp.Connection) error {
		if !b.opts.ByType {
			switch err := ask(ctx, conn, lookMembers); {
			case notFound(err):
				missing = append(missing,
					fmt.Sprintf("the exchange %q and the queue %q, which all topics share: %v", membersName,
						recordName, errMissing))
			case err != nil:
				return fmt.Errorf("read exchange %q: %w", membersName, orUnavailable(err))
			}
			switch _, err := lookDropped(ctx, conn); {
			case notFound(err):
				missing = append(missing,
					fmt.Sprintf(
						"the exchange and the queue %q, which keep what policies make queues drop: %v",
						droppedName, errMissing))
			case err != nil:
				return fmt.Errorf("read queue %q: %w", droppedName, orUnavailable(err))
			}
		}
		if b.opts.Queue != "" { // no code declares this queue
			if missing, err = addMissing(missing, b.checkQueueExists(ctx, conn, b.opts.Queue)); err != nil {
				return err
			}
		}
		for _, name := range topics {
			switch _, err := b.look(ctx, conn, name); {
			case errors.Is(err, broker.ErrNoTopic), errors.Is(err, ErrSettings):
				missing = append(missing, err.Error())
			case err != nil:
				return err
			}
		}
		return nil
	})
	return missing, err
}

// CheckGroup returns a line for each missing queue of a group, and for each queue with other settings. It
// changes nothing. To check settings, it needs the right to configure the queues. It cannot check bindings
// and policies.
func (b *Broker) CheckGroup(ctx context.Context, g broker.Group) (missing []string, err error) {
	if err := checkGroup(g); err != nil {
		return nil, err
	}
	err = b.withConn(ctx, func(conn *amqp.Connection) error {
		if b.opts.Queue != "" || b.opts.ByType {
			_, _, err := b.provide(ctx, conn, g, false)
			missing, err = addMissing(missing, err)
			return err
		}
		for _, name := range g.Topics {
			t, err := b.look(ctx, conn, name)
			for i := 0; err == nil && i < t.partitions; i++ {
				missing, err = addMissing(missing, b.checkPartition(ctx, conn, Queue(g.Name, name, i)))
			}
			if missing, err = addMissing(missing, err); err != nil {
				return err
			}
		}
		return nil
	})
	return missing, err
}

// addMissing adds err to missing if err is about a missing or unusable object. Otherwise it returns err.
func addMissing(missing []string, err error) ([]string, error) {
	if errors.Is(err, errMissing) || errors.Is(err, ErrSettings) || errors.Is(err, broker.ErrNoTopic) {
		return append(missing, err.Error()), nil
	}
	return missing, err
}

// checkPartition checks that a queue exists with the settings of a partition. Only a declaration compares
// settings, and it would create a missing queue. So checkPartition first checks that the queue exists.
func (b *Broker) checkPartition(ctx context.Context, conn *amqp.Connection, queue string) error {
	if err := b.checkQueueExists(ctx, conn, queue); err != nil {
		return err
	}
	if err := declarePartition(ctx, conn, queue); code(err) != amqp.AccessRefused {
		return err
	}
	return nil
}
