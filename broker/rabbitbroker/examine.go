package rabbitbroker

import (
	"context"
	"fmt"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/skald-go/skald"
)

// Examine returns the server's version, and how many messages policies made the queues of partitions drop.
// CheckTopics and CheckGroup name exchanges and queues that would lose messages. AMQP shows neither policies
// nor limits.
func (b *Broker) Examine(ctx context.Context, _ ...string) (out []skald.Finding, err error) {
	err = b.with(ctx, func(conn *amqp.Connection) error {
		out = append(out, skald.Finding{Name: "version", Grade: skald.Fine,
			Saw: fmt.Sprintf("%v %v", conn.Properties["product"], conn.Properties["version"])},
			skald.Finding{Name: "policies", Grade: skald.Doubtful, Saw: "no client can see them",
				Remedy: "rabbitmqctl list_policies and list_operator_policies: no message-ttl, expires or max-length on queues of partitions"})
		if b.opts.ByType {
			return nil
		}
		n, err := lookDropped(ctx, conn)
		switch {
		case notFound(err): // CheckTopics reports it
		case err != nil:
			return fmt.Errorf("look up queue %q: %w", droppedName, orAway(err))
		case n > 0:
			out = append(out, skald.Finding{Name: "dropped", Grade: skald.Failed,
				Saw: fmt.Sprintf("%d messages were dropped from queues of partitions, by a policy, and are in the queue %q",
					n, droppedName),
				Remedy: "change the policy (rabbitmqctl list_policies, list_operator_policies), and take them out"})
		}
		return nil
	})
	return out, err
}
