package broker

import "context"

// Lagger tells how many messages wait for a group.
type Lagger interface {
	// Lag counts, for each of topics, the messages that group has not acknowledged yet. Topics of which the
	// broker does not know where the group is are left out: they are not there, or the group never
	// acknowledged anything of them. On RabbitMQ it counts what lies in the group's queues, without what its
	// members have in hand. It changes nothing of the group. An error is an outage or a missing right.
	Lag(ctx context.Context, group string, topics ...string) (map[string]int64, error)
}
