package rabbitbroker

import (
	"context"
	"fmt"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/skald-go/skald"
)

// Examine reports the server's version, and the number of messages that policies dropped from the queues of
// partitions. It cannot check policies and limits, because AMQP clients cannot read them. Without topics, it
// also reports a missing Options.Queue. CheckTopics and CheckGroup report unsafe exchanges and queues.
func (b *Broker) Examine(ctx context.Context, topics ...string) (out []skald.Finding, err error) {
	err = b.withConn(ctx, func(conn *amqp.Connection) error {
		out = append(out, skald.Finding{Name: "version", Grade: skald.Fine,
			Observed: fmt.Sprintf("%v %v", conn.Properties["product"], conn.Properties["version"])},
			skald.Finding{Name: "policies", Grade: skald.Doubtful, Observed: "clients cannot read them",
				Remedy: "rabbitmqctl list_policies and list_operator_policies: check that there is no message-ttl, expires or max-length on queues of partitions"})
		if b.opts.ByType {
			return nil
		}
		if b.opts.Queue != "" && len(topics) == 0 {
			missing, err := addMissing(nil, b.checkQueueExists(ctx, conn, b.opts.Queue))
			if err != nil {
				return err
			}
			for _, what := range missing {
				out = append(out, skald.Finding{Name: "queue", Grade: skald.Failed, Observed: what,
					Remedy: "declare it, or correct the option queue"})
			}
		}
		n, err := lookDropped(ctx, conn)
		switch {
		case notFound(err): // CheckTopics reports it
		case err != nil:
			return fmt.Errorf("read queue %q: %w", droppedName, orUnavailable(err))
		case n > 0:
			out = append(out, skald.Finding{Name: "dropped", Grade: skald.Failed,
				Observed: fmt.Sprintf("a policy dropped %d messages from queues of partitions; they are in the queue %q",
					n, droppedName),
				Remedy: "change the policy (rabbitmqctl list_policies, list_operator_policies), and consume the messages"})
		}
		return nil
	})
	return out, err
}
