// Package skald holds the words that every station shares: what travels (Message), what is about to be
// said (Draft), how both sides of a topic declare it once (Event), and the verdicts a handler can return
// (Reject, RetryAfter).
//
//	your tx ─► outbox ─► relay ─► broker ─► inbox ─► handler's tx ─► outbox ─► …
//	           (row)    (cursor)  (seam)   (seen?)   (your rows + seen mark + outbox rows: ONE commit)
//
// It imports nothing else of Skald. docs/dev/path.md walks one message along the picture, file by file.
package skald

import (
	"context"
	"time"
)

// Message is what travelled: complete, encoded, plain data. The attributes are those of CloudEvents 1.0
// (https://github.com/cloudevents/spec/blob/v1.0.2/cloudevents/spec.md) under Go names.
type Message struct {
	// ID is, with Source, the identity forever. Skald makes UUIDs of version 7. Those of other publishers are
	// any text.
	ID     string
	Source string // who says it; set once per database by `skald migrate --source`
	Type   string // what kind of event, "order.placed"; at most 255 bytes
	Topic  string // where it travels, [A-Za-z0-9._-]{1,249}

	// Key decides order: messages of one topic with equal keys are handled in the order in which they were
	// committed. Any bytes, at most 1 KiB. Nil promises no order; an empty key is a key.
	Key []byte

	Time        time.Time // when it was written, by the writer's clock; never used for order
	Subject     string    // optional CloudEvents subject
	ContentType string    // of Data, "application/json"
	Schema      string    // optional dataschema

	CorrelationID string // the first message of the whole process; empty on foreign messages
	CausationID   string // the message whose handler said this one
	TraceParent   string // W3C trace context

	// Sequence is the row's place in its outbox, 20 digits, so that a consumer can see an inversion.
	// Set by the relay; empty on foreign messages.
	Sequence string

	// Headers are what else came along, in order, repeats and all. Names are at most 128 bytes; together
	// with their values they take at most 16 KiB. Attributes that Skald does not know are kept here under
	// the name that they had on the wire.
	Headers []Header

	Data []byte // the payload, at most 900 KiB. Nil is a tombstone, which differs from empty
}

// Header is one name and its bytes.
type Header struct {
	Name  string
	Value []byte
}

// Draft is a message that has no time and no bytes yet. outbox.Write completes it.
type Draft struct {
	// ID is for a message that outbox.Write writes once, however often its transaction is repeated: a UUID in
	// text form, of version 7 from uuid.NewV7 or the like. Default: a new UUID of version 7.
	ID          string
	Topic, Type string
	Key         []byte // nil: no order promised
	Subject     string
	Headers     []Header
	Value       any
	Codec       Codec // nil: JSON
}

// Codec turns a value into the bytes of a message and back.
type Codec interface {
	// Encode sets Data and ContentType, and Schema if it has one. It may ask a registry: hence the context.
	Encode(ctx context.Context, m *Message, v any) error
	// Decode fills v, a pointer, from m.Data.
	Decode(ctx context.Context, m Message, v any) error
}

// Event is declared once and shared by both sides of a topic:
//
//	var OrderPlaced = skald.Event[Order]{Topic: "orders", Type: "order.placed"}
//
// The writer says OrderPlaced.New(order.ID, order); a typed handler gets a Received[Order].
type Event[T any] struct {
	Topic, Type string
	Codec       Codec // nil: JSON
}

// New is a draft of e about v. Events with equal keys keep their order; an empty key promises none.
func (e Event[T]) New(key string, v T) Draft {
	d := Draft{Topic: e.Topic, Type: e.Type, Value: v, Codec: e.Codec}
	if key != "" {
		d.Key = []byte(key)
	}
	return d
}

// Declared is what e says, for whoever asks events of any type.
func (e Event[T]) Declared() (topic, typ string, codec Codec) { return e.Topic, e.Type, e.Codec }

// Decode reads the payload of m as e declares it. Tombstones (nil Data) give the zero value.
func (e Event[T]) Decode(ctx context.Context, m Message) (Received[T], error) {
	r := Received[T]{Message: m}
	if m.Data == nil {
		return r, nil
	}
	return r, codecOr(e.Codec).Decode(ctx, m, &r.Value)
}

// Received is what a typed handler gets: the message and its decoded payload.
type Received[T any] struct {
	Message
	Value T
}
