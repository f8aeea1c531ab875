// This file encodes a message as JSON, so that decoding restores each byte.

package column

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/skald-go/skald"
)

// Text is a string in JSON. Text that is not UTF-8 or contains NUL is encoded as {"bytes": base64}.
type Text string

type opaque struct {
	Bytes []byte `json:"bytes"`
}

func (t Text) MarshalJSON() ([]byte, error) {
	if s := string(t); utf8.ValidString(s) && !strings.ContainsRune(s, 0) {
		return json.Marshal(s)
	}
	return json.Marshal(opaque{[]byte(t)})
}

func (t *Text) UnmarshalJSON(b []byte) error {
	if len(b) > 0 && b[0] == '{' {
		var o opaque
		err := json.Unmarshal(b, &o)
		*t = Text(o.Bytes)
		return err
	}
	return json.Unmarshal(b, (*string)(t))
}

type header[T ~string] struct {
	Name  T      `json:"name"`
	Value []byte `json:"value"`
}

// message is a skald.Message in JSON. Bytes are in base64. T is Text for encoding. For decoding, T is first
// string, because that works for nearly every message and saves a third of the time.
type message[T ~string] struct {
	ID            T           `json:"id"`
	Source        T           `json:"source"`
	Type          T           `json:"type"`
	Topic         T           `json:"topic"`
	Key           []byte      `json:"key,omitzero"`
	Time          instant     `json:"time"`
	Subject       T           `json:"subject,omitempty"`
	ContentType   T           `json:"content_type"`
	Schema        T           `json:"schema,omitempty"`
	CorrelationID T           `json:"correlation_id,omitempty"`
	CausationID   T           `json:"causation_id,omitempty"`
	TraceParent   T           `json:"traceparent,omitempty"`
	Sequence      T           `json:"sequence,omitempty"`
	Headers       []header[T] `json:"headers,omitempty"`
	Data          []byte      `json:"data,omitzero"`
}

// Within returns a text as it appears inside an encoded message, without the quotes. Stores search encoded
// messages for this form.
func Within(text string) string {
	b, err := json.Marshal(Text(text))
	if err != nil || len(b) < 2 {
		return text
	}
	return string(b[1 : len(b)-1]) // without the quotes, or without the braces of {"bytes": …}
}

// EncodeMessage returns m as JSON.
func EncodeMessage(m *skald.Message) (string, error) {
	out := message[Text]{Text(m.ID), Text(m.Source), Text(m.Type), Text(m.Topic), m.Key, instant(m.Time),
		Text(m.Subject), Text(m.ContentType), Text(m.Schema),
		Text(m.CorrelationID), Text(m.CausationID), Text(m.TraceParent), Text(m.Sequence), nil, m.Data}
	for _, h := range m.Headers {
		out.Headers = append(out.Headers, header[Text]{Text(h.Name), h.Value})
	}
	b, err := json.Marshal(out)
	if err != nil {
		return "", fmt.Errorf("write message %.40q as JSON: %w", m.ID, err)
	}
	return string(b), nil
}

// DecodeMessage decodes the text of EncodeMessage.
func DecodeMessage(s string) (skald.Message, error) { return decode([]byte(s)) }

func decode(b []byte) (skald.Message, error) {
	m, err := decodeAs[string](b)
	if err != nil {
		m, err = decodeAs[Text](b)
	}
	if err != nil {
		return skald.Message{}, fmt.Errorf("read message from JSON: %w", err)
	}
	return m, nil
}

func decodeAs[T ~string](b []byte) (skald.Message, error) {
	var in message[T]
	if err := json.Unmarshal(b, &in); err != nil {
		return skald.Message{}, err
	}
	m := skald.Message{ID: string(in.ID), Source: string(in.Source), Type: string(in.Type),
		Topic: string(in.Topic), Key: in.Key, Time: time.Time(in.Time),
		Subject: string(in.Subject), ContentType: string(in.ContentType), Schema: string(in.Schema),
		CorrelationID: string(in.CorrelationID),
		CausationID:   string(in.CausationID), TraceParent: string(in.TraceParent),
		Sequence: string(in.Sequence), Data: in.Data}
	for _, h := range in.Headers {
		m.Headers = append(m.Headers, skald.Header{Name: string(h.Name), Value: h.Value})
	}
	return m, nil
}

// EncodeBare returns m as JSON without its data. The data is in another column of the same row.
func EncodeBare(m *skald.Message) (string, error) {
	bare := *m
	bare.Data = nil
	return EncodeMessage(&bare)
}

// Envelope returns m as JSON without its data. The data and the key are in other columns of the same row. The
// envelope has the key of m only if it differs from the parameter key.
func Envelope(m *skald.Message, key []byte) ([]byte, error) {
	bare := *m
	if bare.Data = nil; bytes.Equal(m.Key, key) {
		bare.Key = nil
	}
	text, err := EncodeMessage(&bare)
	return []byte(text), err
}

// OpenEnvelope returns the message for an Envelope and the columns key and data.
func OpenEnvelope(envelope, key, data []byte) (skald.Message, error) {
	m, err := decode(envelope)
	if m.Data = data; m.Key == nil {
		m.Key = key
	}
	return m, err
}
