package inbox

import (
	"errors"

	"github.com/skald-go/skald/broker"
	"github.com/skald-go/skald/inbox/internal/exec"
	"github.com/skald-go/skald/inbox/internal/partition"
	"github.com/skald-go/skald/store"
)

// ByID identifies a message by its id, within its source. It is the default.
func ByID(d broker.Delivery) (store.Identity, error) { return exec.ByID(d) }

// ByHeader takes the id from the first header with this name, within the message's source. The risk: a
// producer that sets another value when it sends a message again creates another message.
func ByHeader(name string) func(broker.Delivery) (store.Identity, error) {
	return func(d broker.Delivery) (store.Identity, error) { return exec.ByHeader(name, d) }
}

// ByField takes the id from a field of a JSON payload, within scope. Path has the names of the enclosing
// fields, too: ByField(scope, "order", "id"). The field is a string, or a number as it is written. The risk:
// two events of one order are one message if they have the same value.
func ByField(scope string, path ...string) func(broker.Delivery) (store.Identity, error) {
	return func(d broker.Delivery) (store.Identity, error) { return exec.ByField(scope, path, d) }
}

// ByHash identifies a message by a hash of topic, type, key and payload. The risk: two intended messages with
// equal content are one message.
func ByHash(d broker.Delivery) (store.Identity, error) { return exec.ByHash(d) }

// ByPosition identifies a message by topic, partition and position at the broker: "orders-0-7". There are two
// risks. A message that is published again has another position, so it is another message. And a recreated
// topic has the same positions again, so its new messages are duplicates. RabbitMQ and durables of NATS have
// positions for one connection only: there the consumer ends with ErrPositions.
func ByPosition(d broker.Delivery) (store.Identity, error) { return exec.ByPosition(d) }

// ErrPositions ends a consumer with ByPosition if a redelivery has another position at its broker.
var ErrPositions = errors.New(
	"inbox: Options.Identity.Of is ByPosition, but positions of this broker last for one connection only, " +
		"so that each redelivery would be another message: use ByID, ByHeader, ByField or ByHash")

// identify sets the identities of messages that are complete, by Options.Identity.Of if it is set.
func (in *Inbox[TTx]) identify(es []*partition.Entry) {
	by := in.o.Identity.Of
	var complete []*partition.Entry
	for _, e := range es {
		switch {
		case e.Fault != nil:
		case by != nil:
			complete = append(complete, e)
		default:
			e.Given, e.Unknown = exec.ByID(e.Delivery)
		}
	}
	in.exec.Identify(complete, by)
}

// AttemptSource reads how often a message failed before it came here. The zero value: never.
type AttemptSource struct {
	// Count returns the number of failures. A negative number or a panic counts as 0.
	Count func(broker.Delivery) int
	// Field is the path of the JSON field that Count reads, or nil. A retry topic changes this field in each
	// copy of a message. So the default fingerprint ignores the field; otherwise the copies would conflict.
	Field []string
}

// AttemptByHeader reads a decimal number from the last header with this name. Any other value counts as 0.
func AttemptByHeader(name string) AttemptSource {
	return AttemptSource{Count: func(d broker.Delivery) int { return exec.HeaderNumber(name, d) }}
}

// AttemptByField reads a number, or a string with a number, from a field of a JSON payload. The path is as in
// ByField. Any other value counts as 0. The default fingerprint compares such payloads as JSON, without this
// field.
func AttemptByField(path ...string) AttemptSource {
	return AttemptSource{Field: path,
		Count: func(d broker.Delivery) int { return exec.FieldNumber(path, d) }}
}

// without returns data without Field, for the default fingerprint.
func (a AttemptSource) without(data []byte) []byte { return exec.Without(data, a.Field) }
