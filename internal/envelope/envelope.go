// Package envelope writes all of a message but its key and data as JSON, byte for byte also where it is no UTF-8.
package envelope

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"time"
	"unicode/utf8"

	"github.com/skald-go/skald"
)

type wire struct {
	ID            text      `json:"id"`
	Source        text      `json:"source"`
	Type          text      `json:"type"`
	Topic         text      `json:"topic"`
	Time          time.Time `json:"time,omitzero"`
	Subject       text      `json:"subject,omitempty"`
	ContentType   text      `json:"content_type,omitempty"`
	Schema        text      `json:"schema,omitempty"`
	CorrelationID text      `json:"correlation_id,omitempty"`
	CausationID   text      `json:"causation_id,omitempty"`
	TraceParent   text      `json:"traceparent,omitempty"`
	Sequence      text      `json:"sequence,omitempty"`
	Headers       []header  `json:"headers,omitempty"`
}

type header struct {
	Name  text   `json:"name"`
	Value []byte `json:"value"`
}

// text is a string, in base64 within an array where it is no UTF-8.
type text string

func (t text) MarshalJSON() ([]byte, error) {
	if utf8.ValidString(string(t)) {
		return json.Marshal(string(t))
	}
	return json.Marshal([][]byte{[]byte(t)})
}

func (t *text) UnmarshalJSON(b []byte) error {
	if len(b) > 0 && b[0] == '[' {
		var raw []string
		if err := json.Unmarshal(b, &raw); err != nil || len(raw) != 1 {
			return fmt.Errorf("text in base64: %q", b)
		}
		s, err := base64.StdEncoding.DecodeString(raw[0])
		*t = text(s)
		return err
	}
	return json.Unmarshal(b, (*string)(t))
}

// Encode writes m without its key and data.
func Encode(m *skald.Message) ([]byte, error) {
	w := wire{ID: text(m.ID), Source: text(m.Source), Type: text(m.Type), Topic: text(m.Topic), Time: m.Time.UTC(), Subject: text(m.Subject),
		ContentType: text(m.ContentType), Schema: text(m.Schema), CorrelationID: text(m.CorrelationID), CausationID: text(m.CausationID),
		TraceParent: text(m.TraceParent), Sequence: text(m.Sequence)}
	for _, h := range m.Headers {
		w.Headers = append(w.Headers, header{text(h.Name), h.Value})
	}
	b, err := json.Marshal(w)
	if err != nil {
		return nil, fmt.Errorf("write the envelope of %s: %w", m.ID, err)
	}
	return b, nil
}

// Decode reads what Encode wrote; key and data are left alone.
func Decode(b []byte, m *skald.Message) error {
	var w wire
	if err := json.Unmarshal(b, &w); err != nil {
		return fmt.Errorf("read an envelope: %w", err)
	}
	m.ID, m.Source, m.Type, m.Topic, m.Time, m.Subject = string(w.ID), string(w.Source), string(w.Type), string(w.Topic), w.Time, string(w.Subject)
	m.ContentType, m.Schema, m.CorrelationID, m.CausationID = string(w.ContentType), string(w.Schema), string(w.CorrelationID), string(w.CausationID)
	m.TraceParent, m.Sequence, m.Headers = string(w.TraceParent), string(w.Sequence), nil
	for _, h := range w.Headers {
		m.Headers = append(m.Headers, skald.Header{Name: string(h.Name), Value: h.Value})
	}
	return nil
}
