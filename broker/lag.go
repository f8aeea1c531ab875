package broker

import "context"

// Lagger counts the messages that wait for a group.
type Lagger interface {
	// Lag returns, for each topic, the number of messages that group has not acknowledged. It omits topics
	// that do not exist. It omits topics in which the group never acknowledged a message. On RabbitMQ it
	// counts the messages in the group's queues, without the messages that are delivered to members. It
	// changes nothing. An error is an outage or a missing right.
	Lag(ctx context.Context, group string, topics ...string) (map[string]int64, error)
}
