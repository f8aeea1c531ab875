// This file encodes a message as a Kafka record, and decodes it. The format is CloudEvents in binary mode.

package kafkabroker

import (
	"strconv"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/broker"
	"github.com/skald-go/skald/broker/internal/cloudevents"
	"github.com/skald-go/skald/broker/internal/feed"
)

// style describes the Kafka binding of CloudEvents in binary mode.
func style() cloudevents.Style {
	return cloudevents.Style{Prefixes: []string{"ce_"}, ContentType: "content-type", Exact: true}
}

// codec returns the codec for Skald's format and, if e is not nil, for the format that e describes.
func codec(e *broker.Envelope) (*cloudevents.Codec, error) { return cloudevents.New(style()).For(e) }

const nHeaders = 13 // the maximum number of headers of the envelope

// encoder encodes the messages of one call. The bytes and headers of all records share two buffers, which
// saves allocations.
type encoder struct {
	bytes   []byte
	headers []kgo.RecordHeader
	now     time.Time
	codec   *cloudevents.Codec
}

// newEncoder returns an encoder with buffers that are large enough for msgs.
func newEncoder(msgs []skald.Message, codec *cloudevents.Codec) *encoder {
	size, headers := 0, 0
	for i := range msgs {
		m := &msgs[i]
		headers += nHeaders + len(m.Headers)
		size += len(m.Key)*2 + len(m.Data) + len(m.ID) + len(m.Source) + len(m.Type) + len(m.Sequence) +
			len(m.ContentType) +
			len(m.Subject) + len(m.Schema) + len(m.CorrelationID) + len(m.CausationID) + len(m.TraceParent) +
			len(time.RFC3339Nano) + 8
		for _, h := range m.Headers {
			size += len(h.Value)
		}
	}
	return &encoder{
		bytes: make([]byte, 0, size), headers: make([]kgo.RecordHeader, 0, headers), now: time.Now(),
		codec: codec,
	}
}

// Encode fills r from m. It returns an upper limit of the record's size in a batch, and an error if m cannot
// be encoded. It copies all bytes, because franz-go may use a record longer than its caller waits.
func (e *encoder) Encode(m *skald.Message, r *kgo.Record) (size int, err error) {
	from := len(e.headers)
	data, err := e.codec.Encode(m, e)
	r.Topic, r.Key, r.Value, r.Timestamp = m.Topic, e.copy(m.Key), e.copy(data), e.now
	r.Headers = e.headers[from:len(e.headers):len(e.headers)]
	return sizeOf(r), err
}

// Text adds a header. Text, Bytes and Time implement cloudevents.Headers.
func (e *encoder) Text(name, value string) {
	at := len(e.bytes)
	e.bytes = append(e.bytes, value...)
	e.header(name, e.bytes[at:len(e.bytes):len(e.bytes)])
}

func (e *encoder) Bytes(name string, value []byte) { e.header(name, e.copy(value)) }

func (e *encoder) Time(name string, value time.Time) {
	at := len(e.bytes)
	e.bytes = value.AppendFormat(e.bytes, time.RFC3339Nano)
	e.header(name, e.bytes[at:len(e.bytes):len(e.bytes)])
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

// sizeOf returns an upper limit of the size of an uncompressed batch that contains only r. It counts 61 bytes
// for the batch, and 5 bytes for each length, the maximum of a varint.
func sizeOf(r *kgo.Record) int {
	n := 61 + 40 + len(r.Key) + len(r.Value)
	for i := range r.Headers {
		n += 10 + len(r.Headers[i].Key) + len(r.Headers[i].Value)
	}
	return n
}

// decode decodes r into m. The parameter previous is the previous message; see cloudevents.Decode.
func decode(r *kgo.Record, codec *cloudevents.Codec, m, previous *skald.Message) (fault error) {
	m.Topic, m.Key, m.Data = r.Topic, r.Key, r.Value
	if fault = cloudevents.Decode(codec, r.Headers, headerAt, m, previous); fault != nil || !codec.Mapped() {
		return fault
	}
	if fault = codec.Fill(m); fault == nil {
		codec.Origin(m, func() string {
			return feed.Partition(r.Topic, int(r.Partition)) + "/" + strconv.FormatInt(r.Offset, 10)
		})
	}
	return fault
}

func headerAt(h *kgo.RecordHeader) (string, []byte) { return h.Key, h.Value }
