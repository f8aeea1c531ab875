package kafkabroker

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/skald-go/skald"
)

// The headers of the CloudEvents Kafka binding, binary mode, with the extensions partitionkey, sequence,
// correlationid, causationid and traceparent (the trace of the origin; a plain traceparent header is that of one
// hop, belongs to whoever set it, and stays among the other headers).
const (
	hSpec     = "ce_specversion"
	hID       = "ce_id"
	hSource   = "ce_source"
	hType     = "ce_type"
	hTime     = "ce_time"
	hKey      = "ce_partitionkey"
	hSequence = "ce_sequence"
	hContent  = "content-type"
	hSubject  = "ce_subject"
	hSchema   = "ce_dataschema"
	hCorr     = "ce_correlationid"
	hCause    = "ce_causationid"
	hTrace    = "ce_traceparent"
	nHeaders  = 13

	specVersion = "1.0"
)

var errSpecVersion = errors.New("not a version of CloudEvents that this build reads")

// encoder makes records of one call's messages with few allocations: bytes and headers share two slabs.
type encoder struct {
	bytes    []byte
	headers  []kgo.RecordHeader
	now      time.Time
	envelope *mapping
}

func newEncoder(msgs []skald.Message, envelope *mapping) *encoder {
	size, headers := 0, 0
	for i := range msgs {
		m := &msgs[i]
		headers += nHeaders + len(m.Headers)
		size += len(m.Key)*2 + len(m.Data) + len(m.ID) + len(m.Source) + len(m.Type) + len(m.Sequence) + len(m.ContentType) +
			len(m.Subject) + len(m.Schema) + len(m.CorrelationID) + len(m.CausationID) + len(m.TraceParent) + len(time.RFC3339Nano) + 8
		for _, h := range m.Headers {
			size += len(h.Value)
		}
	}
	return &encoder{bytes: make([]byte, 0, size), headers: make([]kgo.RecordHeader, 0, headers), now: time.Now(), envelope: envelope}
}

// encode fills r, and returns how many bytes it can take in a batch at most; an error if it cannot travel. Everything is copied: franz-go may
// hold a record longer than its caller waits.
func (e *encoder) encode(m *skald.Message, r *kgo.Record) (size int, err error) {
	from, data := len(e.headers), m.Data
	if e.envelope == nil {
		e.cloudEvent(m)
	} else {
		e.envelope.headers(e, m)
		data, err = e.envelope.data(m)
	}
	for _, h := range m.Headers {
		if !utf8.ValidString(h.Name) {
			err = fmt.Errorf("%w: the name of header %q is not UTF-8", errCannotCarry, h.Name)
		}
		e.header(h.Name, e.copy(h.Value))
	}
	r.Topic, r.Key, r.Value, r.Timestamp = m.Topic, e.copy(m.Key), e.copy(data), e.now
	r.Headers = e.headers[from:len(e.headers):len(e.headers)]
	return sizeOf(r), err
}

func (e *encoder) cloudEvent(m *skald.Message) {
	event := m.ID != "" || m.Source != "" || m.Type != "" // else it is foreign, and stays as it came
	if event {
		e.text(hSpec, specVersion)
	}
	e.text(hID, m.ID)
	e.text(hSource, m.Source)
	e.text(hType, m.Type)
	if !m.Time.IsZero() {
		at := len(e.bytes)
		e.bytes = m.Time.UTC().AppendFormat(e.bytes, time.RFC3339Nano)
		e.header(hTime, e.bytes[at:len(e.bytes):len(e.bytes)])
	}
	if event && len(m.Key) > 0 && utf8.Valid(m.Key) {
		e.header(hKey, e.copy(m.Key))
	}
	e.text(hSequence, m.Sequence)
	e.text(hContent, m.ContentType)
	e.text(hSubject, m.Subject)
	e.text(hSchema, m.Schema)
	e.text(hCorr, m.CorrelationID)
	e.text(hCause, m.CausationID)
	e.text(hTrace, m.TraceParent)
}

func (e *encoder) text(name, value string) {
	if value != "" {
		at := len(e.bytes)
		e.bytes = append(e.bytes, value...)
		e.header(name, e.bytes[at:len(e.bytes):len(e.bytes)])
	}
}

func (e *encoder) header(name string, value []byte) {
	e.headers = append(e.headers, kgo.RecordHeader{Key: name, Value: value})
}

func (e *encoder) copy(b []byte) []byte {
	if b == nil {
		return nil
	}
	at := len(e.bytes)
	e.bytes = append(e.bytes, b...)
	return e.bytes[at:len(e.bytes):len(e.bytes)]
}

// sizeOf is at least what a batch of r alone takes, uncompressed: lengths are varints of at most 5 bytes.
func sizeOf(r *kgo.Record) int {
	n := 61 + 40 + len(r.Key) + len(r.Value)
	for i := range r.Headers {
		n += 10 + len(r.Headers[i].Key) + len(r.Headers[i].Value)
	}
	return n
}

// decode is the way back, into m. Headers that say nothing to Skald, and those that would not come out the same, stay
// among the message's headers. An error is a broken envelope: then all headers are kept as they came. Of before, the
// message that came before it, m shares the texts that are the same: source and type seldom differ.
func decode(r *kgo.Record, envelope *mapping, m, before *skald.Message) (fault error) {
	m.Topic, m.Key, m.Data = r.Topic, r.Key, r.Value
	for i := range r.Headers {
		h := &r.Headers[i]
		kept, err := attribute(m, before, h)
		if err != nil && fault == nil {
			fault = fmt.Errorf("read the envelope: header %s: %w", h.Key, err)
		}
		if !kept {
			m.Headers = append(m.Headers, skald.Header{Name: h.Key, Value: h.Value})
		}
	}
	if fault != nil {
		m.Headers = make([]skald.Header, len(r.Headers))
		for i, h := range r.Headers {
			m.Headers[i] = skald.Header{Name: h.Key, Value: h.Value}
		}
	} else if envelope != nil {
		fault = envelope.read(m, r)
	}
	return fault
}

// attribute puts h into its field, if it has one that is still empty.
func attribute(m, before *skald.Message, h *kgo.RecordHeader) (kept bool, err error) {
	switch h.Key {
	case hSpec:
		if string(h.Value) != specVersion {
			return false, fmt.Errorf("%q: %w", h.Value, errSpecVersion)
		}
		return true, nil
	case hTime:
		if !m.Time.IsZero() {
			return false, nil
		}
		m.Time, err = time.Parse(time.RFC3339Nano, string(h.Value))
		return !m.Time.IsZero(), err
	case hKey:
		return m.Key != nil && bytes.Equal(h.Value, m.Key), nil
	}
	f := field(m, h.Key)
	if f == nil || *f != "" || len(h.Value) == 0 {
		return false, nil
	}
	if same := *field(before, h.Key); same == string(h.Value) {
		*f = same
		return true, nil
	}
	s := string(h.Value)
	if !utf8.ValidString(s) || strings.ContainsRune(s, 0) {
		if h.Key == hContent { // not of the envelope
			return false, nil
		}
		return false, errNotText
	}
	*f = s
	return true, nil
}

func field(m *skald.Message, header string) *string {
	switch header {
	case hID:
		return &m.ID
	case hSource:
		return &m.Source
	case hType:
		return &m.Type
	case hSequence:
		return &m.Sequence
	case hContent:
		return &m.ContentType
	case hSubject:
		return &m.Subject
	case hSchema:
		return &m.Schema
	case hCorr:
		return &m.CorrelationID
	case hCause:
		return &m.CausationID
	case hTrace:
		return &m.TraceParent
	}
	return nil
}
