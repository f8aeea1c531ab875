package rabbitbroker

import (
	"context"
	"fmt"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/skald-go/skald"
)

// Examine tells which server it is. What of exchanges and queues would lose messages CheckTopics and
// CheckGroup name; policies and limits nobody can see by AMQP.
func (b *Broker) Examine(ctx context.Context, _ ...string) (out []skald.Finding, err error) {
	err = b.with(ctx, func(conn *amqp.Connection) error {
		out = append(out, skald.Finding{Name: "version", Grade: skald.Fine,
			Saw: fmt.Sprintf("%v %v", conn.Properties["product"], conn.Properties["version"])},
			skald.Finding{Name: "policies", Grade: skald.Doubtful, Saw: "no client can see them",
				Remedy: "rabbitmqctl list_policies and list_operator_policies: no message-ttl, expires or max-length on queues of partitions"})
		return nil
	})
	return out, err
}
