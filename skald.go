// Package skald has the types that all packages of Skald share: messages (Message, Draft, Event), the errors
// that a handler can return (Reject, RetryAfter, Permanent, Outage and others), and Run, which runs the parts
// of a service.
//
//	your tx ─► outbox ─► relay ─► broker ─► inbox ─► handler's tx ─► outbox ─► …
//	           (row)    (cursor)           (mark?)   (your rows + mark + outbox rows: ONE commit)
//
// docs/dev/path.md follows one message along this picture, file by file.
package skald

import (
	"context"
	"time"
)

// Message is a message with its encoded payload. Its fields are the attributes of CloudEvents 1.0
// (https://github.com/cloudevents/spec/blob/v1.0.2/cloudevents/spec.md) with Go names.
type Message struct {
	// ID and Source are the identity of the message: two messages with the same identity are duplicates.
	// Skald creates UUIDs of version 7. IDs of other publishers may be any text.
	ID     string
	Source string // names the database of the publisher; `skald migrate --source` sets it
	Type   string // the type of the event, such as "order.placed"; at most 255 bytes
	Topic  string // the topic at the broker, [A-Za-z0-9._-]{1,249}

	// Key determines the order: messages of one topic with equal keys are handled in the order of their
	// commits. Key may have any bytes, at most 1 KiB. A message with a nil Key has no guaranteed order. An
	// empty Key is a key like any other.
	Key []byte

	Time        time.Time // the time of the write, by the clock of the writer; not used for order
	Subject     string    // optional CloudEvents subject
	ContentType string    // the content type of Data, such as "application/json"
	Schema      string    // optional CloudEvents dataschema

	CorrelationID string // the ID of the first message of the process; empty in messages of other publishers
	CausationID   string // the ID of the message that caused this one: its handler wrote this message
	TraceParent   string // W3C trace context

	// Sequence is the position of the row in its outbox, with 20 digits. A consumer can detect messages in
	// the wrong order with it. The relay sets it. It is empty in messages of other publishers.
	Sequence string

	// Headers has further headers in order, including repeated names. A name has at most 128 bytes. All names
	// and values together have at most 16 KiB. Attributes that Skald does not know are headers with their
	// original names.
	Headers []Header

	Data []byte // the payload, at most 900 KiB; nil means a tombstone, which differs from an empty payload
}

// Header is one header of a message.
type Header struct {
	Name  string
	Value []byte
}

// Draft is a message before it is written. outbox.Write encodes Value, and adds the ID, the time and the
// cause.
type Draft struct {
	// ID makes a write idempotent: if outbox.Write is called again with the same ID, for example because the
	// caller repeats its transaction, it writes the message only once. ID is a UUID of version 7 in text
	// form. If it is empty, outbox.Write creates a new ID.
	ID          string
	Topic, Type string
	Key         []byte // see Message.Key
	Subject     string
	Headers     []Header
	Value       any
	Codec       Codec // nil means JSON
}

// Codec encodes a value as the payload of a message, and decodes it.
type Codec interface {
	// Encode sets Data and ContentType of m, and Schema if the payload has a schema. It may call a schema
	// registry.
	Encode(ctx context.Context, m *Message, v any) error
	// Decode fills v, a pointer, from m.Data.
	Decode(ctx context.Context, m Message, v any) error
}

// Event declares the topic, the type and the payload of an event. Writers and handlers share one declaration:
//
//	var OrderPlaced = skald.Event[Order]{Topic: "orders", Type: "order.placed"}
//
// A writer calls OrderPlaced.New(order.ID, order). A typed handler receives a Received[Order].
type Event[T any] struct {
	Topic, Type string
	Codec       Codec // nil means JSON
}

// New returns a draft of the event e with the payload v. Events with equal keys are handled in the order of
// their commits. With an empty key the draft has no key, and no guaranteed order.
func (e Event[T]) New(key string, v T) Draft {
	d := Draft{Topic: e.Topic, Type: e.Type, Value: v, Codec: e.Codec}
	if key != "" {
		d.Key = []byte(key)
	}
	return d
}

// Declared returns the fields of e. Code that handles events of any payload type uses this method.
func (e Event[T]) Declared() (topic, typ string, codec Codec) { return e.Topic, e.Type, e.Codec }

// Decode decodes the payload of m with the codec of e. For a tombstone (nil Data), Value is the zero value.
func (e Event[T]) Decode(ctx context.Context, m Message) (Received[T], error) {
	r := Received[T]{Message: m}
	if m.Data == nil {
		return r, nil
	}
	return r, codecOr(e.Codec).Decode(ctx, m, &r.Value)
}

// Received is a message with its decoded payload. Typed handlers receive it.
type Received[T any] struct {
	Message
	Value T
}
