// This file is how a message travels through Kafka: as a CloudEvent in binary mode.

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

// style is the CloudEvents Kafka binding, binary mode.
func style() cloudevents.Style {
	return cloudevents.Style{Prefixes: []string{"ce_"}, ContentType: "content-type", Exact: true}
}

// codec writes and reads messages as Skald has them, and as e says; nil: as Skald alone.
func codec(e *broker.Envelope) (*cloudevents.Codec, error) { return cloudevents.New(style()).For(e) }

const nHeaders = 13 // of the envelope, at most

// An encoder makes records of the messages of one call with few allocations: bytes and headers share two
// slabs.
type encoder struct {
	bytes   []byte
	headers []kgo.RecordHeader
	now     time.Time
	codec   *cloudevents.Codec
}

// newEncoder makes one with room for msgs.
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

// Encode fills r, and returns how many bytes it can take in a batch at most; an error if it cannot travel.
// Everything is copied: franz-go may hold a record longer than its caller waits.
func (e *encoder) Encode(m *skald.Message, r *kgo.Record) (size int, err error) {
	from := len(e.headers)
	data, err := e.codec.Encode(m, e)
	r.Topic, r.Key, r.Value, r.Timestamp = m.Topic, e.copy(m.Key), e.copy(data), e.now
	r.Headers = e.headers[from:len(e.headers):len(e.headers)]
	return sizeOf(r), err
}

// Text, Bytes and Time write a header; see cloudevents.Headers.
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

// sizeOf is at least what a batch of r alone takes, uncompressed: lengths are varints of at most 5 bytes.
func sizeOf(r *kgo.Record) int {
	n := 61 + 40 + len(r.Key) + len(r.Value)
	for i := range r.Headers {
		n += 10 + len(r.Headers[i].Key) + len(r.Headers[i].Value)
	}
	return n
}

// decode is the way back, into m; see cloudevents.Decode.
func decode(r *kgo.Record, codec *cloudevents.Codec, m, before *skald.Message) (fault error) {
	m.Topic, m.Key, m.Data = r.Topic, r.Key, r.Value
	if fault = cloudevents.Decode(codec, r.Headers, headerAt, m, before); fault != nil || !codec.Mapped() {
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
