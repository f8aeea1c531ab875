// This file computes the identity of a message. It also reads from a header or a field how often the message
// failed elsewhere.

package exec

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/skald-go/skald/broker"
	"github.com/skald-go/skald/inbox/internal/partition"
	"github.com/skald-go/skald/internal/fingerprint"
	"github.com/skald-go/skald/store"
)

// ErrNoID is the failure of a message without an id.
var ErrNoID = errors.New("inbox: the message has no id")

// identityFunc returns the identity of a delivery.
type identityFunc = func(broker.Delivery) (store.Identity, error)

// deliveryOf returns a copy of the delivery of e for a user's function: see copyOf.
func deliveryOf(e *partition.Entry) broker.Delivery {
	d := e.Delivery
	d.Message = copyOf(e)
	return d
}

// Identify sets the identities of es with a user's function. The function runs for all of es at the same
// time, so that several calls that hang cause only one delay.
func (x *Executor[TTx]) Identify(es []*partition.Entry, by identityFunc) {
	var all sync.WaitGroup
	for _, e := range es {
		d := deliveryOf(e)
		all.Go(func() {
			var id store.Identity
			_, e.Unknown = x.pureOnce("Options.Identity.Of", func() (err error) {
				id, err = by(d)
				return err
			})
			if e.Unknown == nil {
				e.Given = id
			}
			if e.Unknown == nil && id.ID == "" {
				e.Unknown = ErrNoID
			}
		})
	}
	all.Wait()
}

// ByID identifies a message by its own id.
func ByID(d broker.Delivery) (store.Identity, error) {
	if d.ID == "" {
		return store.Identity{}, ErrNoID
	}
	return store.Identity{Source: d.Source, ID: d.ID}, nil
}

// ByHeader identifies a message by its first header with that name and a value.
func ByHeader(name string, d broker.Delivery) (store.Identity, error) {
	for _, h := range d.Headers {
		if h.Name == name && len(h.Value) > 0 {
			return store.Identity{Source: d.Source, ID: string(h.Value)}, nil
		}
	}
	return store.Identity{}, fmt.Errorf("%w: no header %s", ErrNoID, name)
}

// ByField identifies a message by a field of its JSON payload.
func ByField(scope string, path []string, d broker.Delivery) (store.Identity, error) {
	text, err := field(d.Data, path)
	if err != nil {
		return store.Identity{}, fmt.Errorf("%w: %w", ErrNoID, err)
	}
	return store.Identity{Source: scope, ID: text}, nil
}

// ByHash identifies a message by a hash of topic, type, key and payload.
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

// ByPosition identifies a message by topic, partition and position at the broker. The id is "orders-0-7" if
// the partition is a number of the topic.
func ByPosition(d broker.Delivery) (store.Identity, error) {
	position := strconv.FormatInt(d.Position, 10)
	id := d.Topic + "/" + d.Partition + "/" + position
	if n, of := strings.CutPrefix(d.Partition, d.Topic+"/"); of && strings.Trim(n, "0123456789") == "" {
		id = d.Topic + "-" + n + "-" + position
	}
	return store.Identity{Source: Position, ID: id}, nil
}

// field returns a field of a JSON payload. The field is a non-empty string, or a number, which is returned as
// it is written.
func field(data []byte, path []string) (string, error) {
	at := json.RawMessage(data)
	for _, name := range path {
		var fields map[string]json.RawMessage
		if err := json.Unmarshal(at, &fields); err != nil {
			return "", fmt.Errorf("look for the field %s: %w", name, err)
		}
		at = fields[name]
	}
	if err := fingerprint.CheckJSON(at); err != nil {
		return "", fmt.Errorf("read the field %v: %w", path, err)
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

// Without returns data for a fingerprint: without the field at path, in a canonical form. So the fingerprint
// does not change if a copy is decoded and encoded again. If data is not a JSON object, or not text, Without
// returns it unchanged.
func Without(data []byte, path []string) []byte {
	if len(path) == 0 || fingerprint.CheckJSON(data) != nil {
		return data
	}
	var object map[string]any
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	if err := d.Decode(&object); err != nil || d.More() {
		return data
	}
	prune(object, path)
	canonical, err := json.Marshal(object)
	if err != nil {
		return data
	}
	return canonical
}

// prune deletes the field at path. It also deletes each object on the path that then is empty, because the
// original message may lack that object.
func prune(object map[string]any, path []string) {
	if len(path) > 1 {
		inner, ok := object[path[0]].(map[string]any)
		if !ok {
			return
		}
		if prune(inner, path[1:]); len(inner) > 0 {
			return
		}
	}
	delete(object, path[0])
}

// HeaderNumber returns the decimal number in the last header with that name, or 0.
func HeaderNumber(name string, d broker.Delivery) int {
	for _, h := range slices.Backward(d.Headers) {
		if h.Name == name {
			n, _ := strconv.Atoi(string(h.Value))
			return n
		}
	}
	return 0
}

// FieldNumber returns the number in a field of a JSON payload, or 0. The field may also be a string with a
// number.
func FieldNumber(path []string, d broker.Delivery) int {
	text, err := field(d.Data, path)
	if err != nil {
		return 0
	}
	n, _ := strconv.Atoi(text)
	return n
}
