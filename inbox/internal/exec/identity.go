// This file says what a message is known by, and reads what it says of itself: fields of a JSON
// payload and how often it failed before.

package exec

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/skald-go/skald/broker"
	"github.com/skald-go/skald/failure"
	"github.com/skald-go/skald/store"
)

// ErrNoID is the failure of a message without an id.
var ErrNoID = errors.New("inbox: the message has no id")

// A identityFunc says what a delivery is.
type identityFunc = func(broker.Delivery) (store.Identity, error)

// Of is what by says of d; a panic is its error.
func Of(by identityFunc, d broker.Delivery) (id store.Identity, err error) {
	err = failure.Run(func() (err error) {
		id, err = by(d)
		return err
	})
	if err == nil && id.ID == "" {
		err = ErrNoID
	}
	return id, err
}

// ByID is the identity by the message's own id.
func ByID(d broker.Delivery) (store.Identity, error) {
	if d.ID == "" {
		return store.Identity{}, ErrNoID
	}
	return store.Identity{Source: d.Source, ID: d.ID}, nil
}

// ByHeader takes the id from a header, the first of that name.
func ByHeader(name string, d broker.Delivery) (store.Identity, error) {
	for _, h := range d.Headers {
		if h.Name == name && len(h.Value) > 0 {
			return store.Identity{Source: d.Source, ID: string(h.Value)}, nil
		}
	}
	return store.Identity{}, fmt.Errorf("%w: no header %s", ErrNoID, name)
}

// ByField takes the id from a field of a JSON payload.
func ByField(scope string, path []string, d broker.Delivery) (store.Identity, error) {
	text, err := field(d.Data, path)
	if err != nil {
		return store.Identity{}, fmt.Errorf("%w: %w", ErrNoID, err)
	}
	return store.Identity{Source: scope, ID: text}, nil
}

// ByHash is a hash of topic, type, key and payload.
func ByHash(d broker.Delivery) (store.Identity, error) {
	h := sha256.New()
	for _, part := range [][]byte{[]byte(d.Topic), []byte(d.Type), d.Key, d.Data} {
		fmt.Fprintf(h, "%d %t ", len(part), part == nil)
		h.Write(part)
	}
	return store.Identity{Source: "hash", ID: hex.EncodeToString(h.Sum(nil))}, nil
}

// Position is the source of identities by position.
const Position = "position"

// ByPosition is topic, partition and position at the broker, "orders-0-7" where the partition is a number of
// the topic.
func ByPosition(d broker.Delivery) (store.Identity, error) {
	position := strconv.FormatInt(d.Position, 10)
	id := d.Topic + "/" + d.Partition + "/" + position
	if n, of := strings.CutPrefix(d.Partition, d.Topic+"/"); of && strings.Trim(n, "0123456789") == "" {
		id = d.Topic + "-" + n + "-" + position
	}
	return store.Identity{Source: Position, ID: id}, nil
}
