package rabbitbroker

import (
	"context"
	"fmt"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/skald-go/skald/broker"
)

var _ broker.TopicChecker = (*Broker)(nil)

// CheckTopics says which of topics are not there, or are none of Skald's, and changes nothing.
func (b *Broker) CheckTopics(ctx context.Context, topics ...string) (missing []string, err error) {
	err = b.with(ctx, func(conn *amqp.Connection) error {
		if !b.opts.ByType {
			switch err := ask(ctx, conn, lookMembers); {
			case notFound(err):
				missing = append(missing, fmt.Sprintf("the exchange %q and the queue %q, which all topics share: %v", membersName, recordName, errMissing))
			case err != nil:
				return fmt.Errorf("look up exchange %q: %w", membersName, orAway(err))
			}
		}
		for _, name := range topics {
			if _, err := b.look(ctx, conn, name); err != nil && kindOf(err) == outage {
				return err
			} else if err != nil {
				missing = append(missing, err.Error())
			}
		}
		return nil
	})
	return missing, err
}
