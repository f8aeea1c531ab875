package inbox

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"runtime/debug"
	"strconv"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/broker"
	"github.com/skald-go/skald/store"
)

// ByID is the identity of a message by its own id, within its source. It is the default.
func ByID(d broker.Delivery) (store.Identity, error) {
	if d.ID == "" {
		return store.Identity{}, ErrNoID
	}
	return store.Identity{Source: d.Source, ID: d.ID}, nil
}

// ByHeader takes the id from a header, the first of that name, within the message's source. The risk: whoever sets the header
// anew when it sends again makes another message of it.
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

// ByField takes the id from a field of a JSON payload, which may lie in others: ByField("order", "id"), within scope. A text or
// a number as it is written. The risk: two things that happen to one order are one message, unless the field tells them apart.
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

// ByHash is a hash of topic, type, key and payload. The risk: of two messages that are meant and equal, one is taken.
func ByHash(d broker.Delivery) (store.Identity, error) {
	h := sha256.New()
	for _, part := range [][]byte{[]byte(d.Topic), []byte(d.Type), d.Key, d.Data} {
		fmt.Fprintf(h, "%d %t ", len(part), part == nil)
		h.Write(part)
	}
	return store.Identity{Source: "hash", ID: hex.EncodeToString(h.Sum(nil))}, nil
}

// ByPosition is topic, lane and position at the broker. The risk: what is published again has another position, and is
// another message; and a topic that is made anew has the same ones again, so that new messages look taken.
func ByPosition(d broker.Delivery) (store.Identity, error) {
	return store.Identity{Source: "position", ID: d.Topic + "/" + d.Lane + "/" + strconv.FormatInt(d.Position, 10)}, nil
}

// identify says what a delivery is, by the user's own function if there is one.
func (in *Inbox[TTx]) identify(d broker.Delivery) (id store.Identity, err error) {
	defer func() {
		if v := recover(); v != nil {
			err = &PanicError{Value: v, Stack: debug.Stack()}
		}
	}()
	by := in.o.Identity
	if by == nil {
		by = ByID
	}
	if id, err = by(d); err == nil && id.ID == "" {
		err = ErrNoID
	}
	return id, err
}

// print is the fingerprint of what came with e; 0: not to be compared.
func (in *Inbox[TTx]) print(e *entry) int64 {
	key := in.key.Load()
	if key == nil {
		return 0
	}
	if in.o.Fingerprint == nil {
		return key.Of([]byte(e.Type), e.Data)
	}
	what := in.o.Fingerprint(e.Message)
	if what == nil {
		return 0
	}
	return key.Of(what)
}

// judge compares what is known of an identity with what came under it.
func judge(v store.Verdict, print int64) store.Outcome {
	if v.Fingerprint != 0 && print != 0 && v.Fingerprint != print {
		return store.Conflict
	}
	return v.Outcome
}

// A ConflictError says that something else came under an identity that is taken.
type ConflictError struct {
	Consumer string
	store.Identity
}

func (e *ConflictError) Error() string {
	return fmt.Sprintf("inbox: %s has taken %.200q of %.200q before, with another payload", e.Consumer, e.ID, e.Source)
}

// A TooOldError says that an identity is of a time whose marks may be forgotten: whether it was taken is not known.
type TooOldError struct {
	Consumer string
	store.Identity
}

func (e *TooOldError) Error() string {
	return fmt.Sprintf("inbox: whether %s has taken %.200q of %.200q is not known any more: it is older than marks are kept", e.Consumer, e.ID, e.Source)
}

var errNoHandler = errors.New("no handler is for its type")

func apartOf(consumer string, e *entry, why store.Outcome, print int64) *store.Quarantined {
	return &store.Quarantined{Consumer: consumer, Identity: e.id, Fingerprint: print, Why: why, Message: skald.Message(e.Message)}
}
