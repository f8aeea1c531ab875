package inbox

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"

	"github.com/skald-go/skald/broker"
	"github.com/skald-go/skald/failure"
	"github.com/skald-go/skald/store"
)

// ByID is the identity of a message by its own id, within its source. It is the default.
func ByID(d broker.Delivery) (store.Identity, error) {
	if d.ID == "" {
		return store.Identity{}, ErrNoID
	}
	return store.Identity{Source: d.Source, ID: d.ID}, nil
}

// ByHeader takes the id from a header, the first of that name, within the message's source. The risk: whoever
// sets the header anew when it sends again makes another message of it.
func ByHeader(name string) func(broker.Delivery) (store.Identity, error) {
	return func(d broker.Delivery) (store.Identity, error) {
		for _, h := range d.Headers {
			if h.Name == name && len(h.Value) > 0 {
				return store.Identity{Source: d.Source, ID: string(h.Value)}, nil
			}
		}
		return store.Identity{}, fmt.Errorf("%w: no header %s", ErrNoID, name)
	}
}

// ByField takes the id from a field of a JSON payload, which may lie in others: ByField("order", "id"),
// within scope. A text or a number as it is written. The risk: two things that happen to one order are one
// message, unless the field tells them apart.
func ByField(scope string, path ...string) func(broker.Delivery) (store.Identity, error) {
	return func(d broker.Delivery) (store.Identity, error) {
		text, err := field(d.Data, path)
		if err != nil {
			return store.Identity{}, fmt.Errorf("%w: %w", ErrNoID, err)
		}
		return store.Identity{Source: scope, ID: text}, nil
	}
}

// field is a text that is not empty, or a number as it is written, in a JSON payload.
func field(data []byte, path []string) (string, error) {
	at := json.RawMessage(data)
	for _, name := range path {
		var fields map[string]json.RawMessage
		if err := json.Unmarshal(at, &fields); err != nil {
			return "", fmt.Errorf("look for the field %s: %w", name, err)
		}
		at = fields[name]
	}
	var text string
	if err := json.Unmarshal(at, &text); err == nil && text != "" {
		return text, nil
	}
	var number json.Number
	if err := json.Unmarshal(at, &number); err == nil && number != "" {
		return number.String(), nil
	}
	return "", fmt.Errorf("the field %v is neither a text nor a number", path)
}

// ByHash is a hash of topic, type, key and payload. The risk: of two messages that are meant and equal, one
// is taken.
func ByHash(d broker.Delivery) (store.Identity, error) {
	h := sha256.New()
	for _, part := range [][]byte{[]byte(d.Topic), []byte(d.Type), d.Key, d.Data} {
		fmt.Fprintf(h, "%d %t ", len(part), part == nil)
		h.Write(part)
	}
	return store.Identity{Source: "hash", ID: hex.EncodeToString(h.Sum(nil))}, nil
}

// ByPosition is topic, partition and position at the broker. The risk: what is published again has another
// position, and is another message; and a topic that is made anew has the same ones again, so that new
// messages look taken. Where a position lasts for one connection only, at RabbitMQ and with a durable of
// NATS, the consumer ends with ErrPositions.
func ByPosition(d broker.Delivery) (store.Identity, error) {
	return store.Identity{Source: positionSource, ID: d.Topic + "/" + d.Partition + "/" + strconv.FormatInt(d.Position, 10)}, nil
}

// positionSource is the source of identities by ByPosition.
const positionSource = "position"

// ErrPositions ends a consumer that knows messages by ByPosition where a redelivery has another position.
var ErrPositions = errors.New("inbox: Options.Identity.Of is ByPosition, but positions of this broker last for one connection only, " +
	"so that each redelivery would be another message: use ByID, ByHeader, ByField or ByHash")

// identify says what a delivery is, by the user's own function if there is one.
func (in *Inbox[TTx]) identify(d broker.Delivery) (id store.Identity, err error) {
	defer failure.Recover(&err)
	by := in.o.Identity.Of
	if by == nil {
		by = ByID
	}
	if id, err = by(d); err == nil && id.ID == "" {
		err = ErrNoID
	}
	return id, err
}

var errNoHandler = errors.New("no handler is for its type")
