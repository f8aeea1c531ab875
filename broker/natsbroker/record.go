// This file encodes a message for NATS, and decodes it. The format is CloudEvents in binary mode.

package natsbroker

import (
	"bytes"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/broker"
	"github.com/skald-go/skald/broker/internal/cloudevents"
)

// style describes the NATS binding of CloudEvents in binary mode.
func style() cloudevents.Style {
	return cloudevents.Style{Prefixes: []string{"ce-"}, ContentType: "content-type", Escapes: true,
		Plain: plain}
}

// codec returns the codec for Skald's format and, if e is not nil, for the format that e describes.
func codec(e *broker.Envelope) (*cloudevents.Codec, error) { return cloudevents.New(style()).For(e) }

// headers collects the headers of a message.
type headers nats.Header

// Text adds a header. Text, Bytes and Time implement cloudevents.Headers.
func (h headers) Text(name, value string)         { h[name] = append(h[name], value) }
func (h headers) Bytes(name string, value []byte) { h.Text(name, string(value)) }
func (h headers) Time(name string, value time.Time) {
	h.Text(name, value.Format(time.RFC3339Nano))
}

// encode encodes m. The result shares no memory with m.
func encode(codec *cloudevents.Codec, m *skald.Message) (*nats.Msg, error) {
	h := headers{}
	data, err := codec.Encode(m, h)
	if err != nil {
		return nil, err
	}
	return &nats.Msg{Header: nats.Header(h), Data: bytes.Clone(data)}, nil
}

// invalidInName has the characters that nats.go does not accept in the name of a header.
const invalidInName = "\"()/,:;<=>?@[\\]{}"

// plain returns true if NATS transports the header a unchanged. It returns false for headers that NATS reacts
// to; for example, Nats-Rollup removes messages from a stream.
func plain(a skald.Header) bool {
	if reserved(a.Name) {
		return false
	}
	for _, c := range []byte(a.Name) {
		if c <= ' ' || c >= 0x7f || strings.IndexByte(invalidInName, c) >= 0 {
			return false
		}
	}
	return cloudevents.Printable(string(a.Value))
}

// reserved returns true for headers of NATS, in any case, and for headers that nats.go derives from a status.
func reserved(name string) bool {
	return len(name) >= 5 && strings.EqualFold(name[:5], "nats-") || name == "Status" || name == "Description"
}

// decode decodes the message with that sequence number in the topic's stream.
func decode(codec *cloudevents.Codec, topic string, h nats.Header, data []byte, sequence uint64) (
	m skald.Message, fault error,
) {
	m = skald.Message{Topic: topic, Data: data}
	hs := make([]cloudevents.Header, 0, len(h))
	for name, values := range h {
		if reserved(name) {
			continue
		}
		for _, v := range values {
			hs = append(hs, cloudevents.Header{Name: name, Value: v})
		}
	}
	if fault = cloudevents.Decode(codec, hs, headerAt, &m, nil); fault != nil || !codec.Mapped() {
		return m, fault
	}
	if fault = codec.Fill(&m); fault == nil {
		codec.Origin(&m, func() string { return topic + "/" + strconv.FormatUint(sequence, 10) })
	}
	return m, fault
}

func headerAt(h *cloudevents.Header) (name, value string) { return h.Name, h.Value }
