// This file has the ways to identify a message, and to read how often it failed elsewhere.

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

// ByHeader takes the id from the first header with this name, within the message's source. The risk: if a
// producer sends a message again with another value, the copy counts as another message.
func ByHeader(name string) func(broker.Delivery) (store.Identity, error) {
	return func(d broker.Delivery) (store.Identity, error) { return exec.ByHeader(name, d) }
}

// ByField takes the id from a field of a JSON payload, within scope. Path also has the names of the enclosing
// fields: ByField(scope, "order", "id"). The field is a string, or a number, which is used as it is written.
// The risk: two events of one order count as one message if they have the same value.
func ByField(scope string, path ...string) func(broker.Delivery) (store.Identity, error) {
	return func(d broker.Delivery) (store.Identity, error) { return exec.ByField(scope, path, d) }
}

// ByHash identifies a message by a hash of topic, type, key and payload. The risk: two intended messages with
// equal content count as one message.
func ByHash(d broker.Delivery) (store.Identity, error) { return exec.ByHash(d) }

// ByPosition identifies a message by topic, partition and position at the broker: "orders-0-7". There are two
// risks. A message that is published again has another position, so it counts as another message. A recreated
// topic has the same positions again, so its new messages count as duplicates. RabbitMQ and durables of NATS
// have positions for one connection only: there Run returns ErrPositions.
func ByPosition(d broker.Delivery) (store.Identity, error) { return exec.ByPosition(d) }

// ErrPositions is the error of a consumer with ByPosition if the positions of its broker do not outlast a
// connection.
var ErrPositions = errors.New(
	"inbox: Options.Identity.Of is ByPosition, but positions of this broker last for one connection only, " +
		"so that each redelivery would be another message: use ByID, ByHeader, ByField or ByHash")

// identify sets the identities of the readable messages of es, by Options.Identity.Of or by the message's id.
func (in *Inbox[TTx]) identify(es []*partition.Entry) {
	by := in.o.Identity.Of
	var readable []*partition.Entry
	for _, e := range es {
		switch {
		case e.Fault != nil:
		case by != nil:
			readable = append(readable, e)
		default:
			e.Given, e.Unknown = exec.ByID(e.Delivery)
		}
	}
	in.exec.Identify(readable, by)
}

// AttemptSource reads how often a message failed before this consumer received it. With the zero value there
// were no failures.
type AttemptSource struct {
	// Count returns the number of failures. A negative number or a panic counts as 0.
	Count func(broker.Delivery) int
	// Field is the path of the JSON field that Count reads, or nil. A retry topic changes this field in each
	// copy of a message. So the default fingerprint ignores the field; otherwise the copies would have
	// different fingerprints.
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

// withoutField returns data without the field Field, for the default fingerprint.
func (a AttemptSource) withoutField(data []byte) []byte { return exec.Without(data, a.Field) }
