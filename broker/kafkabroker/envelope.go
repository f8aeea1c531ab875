package kafkabroker

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/broker/internal/cloudevents"
)

// An Envelope is how attributes travel on topics whose form others have settled; the zero value writes none.
// Key, value and the message's own headers travel always. On the way in it fills what is not there as
// CloudEvents, so that a topic may hold both forms while its writers change.
//
// A place is "header:NAME", or "json:FIELD" for a field at the top of a value that is a JSON object: written
// if the object does not have it, read if it is a text or a number. An empty place: the attribute does not
// travel.
type Envelope struct {
	// also "position", which is only read: topic/partition/offset. A copy of the message has another
	ID   string
	Type string
	Key  string // beside Kafka's own key, which wins when it is read
	// Source of messages that have an id and do not tell. Default: the topic's name.
	Source string
}

// parseEnvelope reads what a URL says: "cloudevents", "off", or places as in
// "id:header:message-id,type:json:kind".
func parseEnvelope(s string) (*Envelope, error) {
	switch s {
	case "", "cloudevents":
		return nil, nil
	case "off":
		return &Envelope{}, nil
	}
	out := &Envelope{}
	for _, part := range strings.Split(s, ",") {
		name, place, _ := strings.Cut(part, ":")
		field := map[string]*string{"id": &out.ID, "type": &out.Type, "key": &out.Key, "source": &out.Source}[name]
		if field == nil || place == "" {
			return nil, fmt.Errorf("envelope is cloudevents, off, or id:PLACE,type:PLACE,key:PLACE,source:TEXT, not %q", s)
		}
		*field = place
	}
	return out, nil
}

// mapping is an Envelope taken apart.
type mapping struct {
	codec       *cloudevents.Codec
	cloudEvents bool // and nothing else

	id, kind, key place
	byPosition    bool
	source        string
}

// place is where one attribute travels; at most one of both is set.
type place struct{ header, field string }

func (e *Envelope) compile() (*mapping, error) {
	codec := cloudevents.New(style())
	if e == nil {
		return &mapping{codec: codec, cloudEvents: true}, nil
	}
	m := &mapping{codec: codec, source: e.Source, byPosition: e.ID == "position"}
	id := e.ID
	if m.byPosition {
		id = ""
	}
	for name, p := range map[string]struct {
		text string
		to   *place
	}{"ID": {id, &m.id}, "Type": {e.Type, &m.kind}, "Key": {e.Key, &m.key}} {
		kind, at, _ := strings.Cut(p.text, ":")
		switch {
		case p.text == "":
		case kind == "header" && at != "":
			p.to.header = at
		case kind == "json" && at != "":
			p.to.field = at
		default:
			return nil, fmt.Errorf("envelope: the place of %s is header:NAME or json:FIELD, not %q", name, p.text)
		}
	}
	return m, nil
}

func (m *mapping) inJSON() bool { return m.id.field != "" || m.kind.field != "" || m.key.field != "" }

// headers writes those attributes of msg that travel as headers.
func (m *mapping) headers(e *encoder, msg *skald.Message) {
	for _, a := range m.attributes(msg) {
		if a.place.header != "" && a.value != "" {
			e.Text(a.place.header, a.value)
		}
	}
}

type placed struct {
	place place
	value string
}

func (m *mapping) attributes(msg *skald.Message) []placed {
	return []placed{{m.id, msg.ID}, {m.kind, msg.Type}, {m.key, string(msg.Key)}}
}

// data is the value with those attributes that travel in it.
func (m *mapping) data(msg *skald.Message) ([]byte, error) {
	if !m.inJSON() || msg.Data == nil { // a tombstone has nothing to hold them
		return msg.Data, nil
	}
	object, err := fields(msg.Data)
	if err != nil {
		return nil, fmt.Errorf("%w: the envelope has a field in the value: %w", cloudevents.ErrCannotCarry, err)
	}
	var added bytes.Buffer
	for _, a := range m.attributes(msg) {
		if _, there := object[a.place.field]; there || a.place.field == "" || a.value == "" {
			continue
		}
		if !utf8.ValidString(a.value) {
			return nil, fmt.Errorf("%w: the envelope has field %q in the value: what belongs there is not text", cloudevents.ErrCannotCarry, a.place.field)
		}
		if added.Len() > 0 {
			added.WriteByte(',')
		}
		name, _ := json.Marshal(a.place.field)
		value, _ := json.Marshal(a.value)
		added.Write(name)
		added.WriteByte(':')
		added.Write(value)
	}
	if added.Len() == 0 {
		return msg.Data, nil
	}
	if len(object) > 0 {
		added.WriteByte(',')
	}
	open := bytes.IndexByte(msg.Data, '{') + 1
	return bytes.Join([][]byte{msg.Data[:open], added.Bytes(), msg.Data[open:]}, nil), nil
}

func fields(data []byte) (map[string]json.RawMessage, error) {
	var object map[string]json.RawMessage
	if err := json.Unmarshal(data, &object); err != nil || object == nil {
		return nil, errors.New("the value is not a JSON object")
	}
	return object, nil
}

// read fills what msg does not have yet.
func (m *mapping) read(msg *skald.Message, r *kgo.Record) error {
	var object map[string]json.RawMessage
	if m.inJSON() && msg.Data != nil {
		var err error
		if object, err = fields(msg.Data); err != nil {
			return fmt.Errorf("read the envelope: a field in the value is asked for: %w", err)
		}
	}
	key := ""
	for _, a := range []struct {
		place place
		to    *string
	}{{m.id, &msg.ID}, {m.kind, &msg.Type}, {m.key, &key}} {
		if *a.to != "" {
			continue
		}
		v, err := a.place.value(msg, object)
		if err != nil {
			return fmt.Errorf("read the envelope: %w", err)
		}
		*a.to = v
	}
	if msg.Key == nil && key != "" {
		msg.Key = []byte(key)
	}
	if msg.ID == "" && m.byPosition {
		msg.ID = partitionName(r.Topic, r.Partition) + "/" + strconv.FormatInt(r.Offset, 10)
	}
	if msg.Source == "" && msg.ID != "" {
		if msg.Source = m.source; msg.Source == "" {
			msg.Source = msg.Topic
		}
	}
	return nil
}

// value is what stands at p; empty if nothing does. The header stays among the headers: it is the team's own.
func (p place) value(msg *skald.Message, object map[string]json.RawMessage) (string, error) {
	for _, h := range msg.Headers {
		if p.header == "" || h.Name != p.header {
			continue
		}
		if !utf8.Valid(h.Value) || bytes.IndexByte(h.Value, 0) >= 0 {
			return "", fmt.Errorf("header %s: %w", h.Name, cloudevents.ErrNotText)
		}
		return string(h.Value), nil
	}
	raw := object[p.field]
	if len(raw) == 0 || p.field == "" {
		return "", nil
	}
	switch raw[0] {
	case '"':
		var s string
		err := json.Unmarshal(raw, &s)
		if err == nil && strings.ContainsRune(s, 0) {
			err = cloudevents.ErrNotText
		}
		if err != nil {
			return "", fmt.Errorf("field %q: %w", p.field, err)
		}
		return s, nil
	case '-', '0', '1', '2', '3', '4', '5', '6', '7', '8', '9':
		return string(raw), nil
	}
	return "", nil
}
