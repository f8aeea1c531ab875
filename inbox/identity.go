package inbox

import (
	"errors"

	"github.com/skald-go/skald/broker"
	"github.com/skald-go/skald/inbox/internal/exec"
	"github.com/skald-go/skald/store"
)

// ByID is the identity of a message by its own id, within its source. It is the default.
func ByID(d broker.Delivery) (store.Identity, error) { return exec.ByID(d) }

// ByHeader takes the id from a header, the first of that name, within the message's source. The risk: whoever
// sets the header anew when it sends again makes another message of it.
func ByHeader(name string) func(broker.Delivery) (store.Identity, error) {
	return func(d broker.Delivery) (store.Identity, error) { return exec.ByHeader(name, d) }
}

// ByField takes the id from a field of a JSON payload, which may lie in others: ByField("order", "id"),
// within scope. A text or a number as it is written. The risk: two things that happen to one order are one
// message, unless the field tells them apart.
func ByField(scope string, path ...string) func(broker.Delivery) (store.Identity, error) {
	return func(d broker.Delivery) (store.Identity, error) { return exec.ByField(scope, path, d) }
}

// ByHash is a hash of topic, type, key and payload. The risk: of two messages that are meant and equal, one
// is taken.
func ByHash(d broker.Delivery) (store.Identity, error) { return exec.ByHash(d) }

// ByPosition is topic, partition and position at the broker, as "orders-0-7". The risk: what is published
// again has another position, and is another message; and a topic that is made anew has the same ones
// again, so that new messages look taken. Where a position lasts for one connection only, at RabbitMQ and
// with a durable of NATS, the consumer ends with ErrPositions.
func ByPosition(d broker.Delivery) (store.Identity, error) { return exec.ByPosition(d) }

// ErrPositions ends a consumer that knows messages by ByPosition where a redelivery has another position.
var ErrPositions = errors.New(
	"inbox: Options.Identity.Of is ByPosition, but positions of this broker last for one connection only, " +
		"so that each redelivery would be another message: use ByID, ByHeader, ByField or ByHash")

// identify says what a delivery is, by the user's own function if there is one.
func (in *Inbox[TTx]) identify(d broker.Delivery) (store.Identity, error) {
	if by := in.o.Identity.Of; by != nil {
		return exec.Of(by, d)
	}
	return exec.ByID(d)
}

// AttemptSource reads how often a message failed before it came here. The zero value: never.
type AttemptSource struct {
	// Count returns the number of failures. Below zero, or a panic, counts as 0.
	Count func(broker.Delivery) int
	// Field is the path of the JSON field that Count reads, nil: none. A retry topic changes this field in
	// each copy of a message, so the default fingerprint leaves it out: else the copies would be conflicts.
	Field []string
}

// AttemptByHeader reads the last header of this name: a decimal number. Anything else counts as 0.
func AttemptByHeader(name string) AttemptSource {
	return AttemptSource{Count: func(d broker.Delivery) int { return exec.HeaderNumber(name, d) }}
}

// AttemptByField reads a field of a JSON payload, by its path as in ByField: a number, or a string with one.
// Anything else counts as 0. The default fingerprint compares such payloads as JSON, without this field.
func AttemptByField(path ...string) AttemptSource {
	return AttemptSource{Field: path,
		Count: func(d broker.Delivery) int { return exec.FieldNumber(path, d) }}
}

// without returns data for the default fingerprint, without Field.
func (a AttemptSource) without(data []byte) []byte { return exec.Without(data, a.Field) }
