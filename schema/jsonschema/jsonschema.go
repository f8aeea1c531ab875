// Package jsonschema encodes events in JSON that keeps to a JSON Schema. A reader takes what an older or
// newer writer wrote: properties that it does not know are passed over, those that the writer did not know
// get the default of the schema, or stay empty.
package jsonschema

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/schema"
)

// Codec is a codec for T, whose schema follows from its fields and their json tags: those without omitempty
// or omitzero are required. Properties that T has no field for are allowed.
func Codec[T any](reg *schema.Registry, o *schema.Options) *schema.Codec {
	return schema.NewCodec(reg, &language{goType: reflect.TypeFor[T](),
		own: func() (*jsonschema.Schema, error) {
			s, err := jsonschema.For[T](nil)
			if err == nil {
				open(s)
			}
			return s, err
		}}, o)
}

// CodecOf is a codec for T with a schema of one's own. What is written is held to it, too.
func CodecOf[T any](reg *schema.Registry, text string, o *schema.Options) *schema.Codec {
	return schema.NewCodec(reg, &language{goType: reflect.TypeFor[T](), check: true,
		own: func() (*jsonschema.Schema, error) { return parse(text) }}, o)
}

// open lets objects have properties that their struct has no field for, so that a writer may add some.
func open(s *jsonschema.Schema) {
	if s == nil {
		return
	}
	if s.Type == "object" || len(s.Types) > 0 {
		if isFalse(s.AdditionalProperties) {
			s.AdditionalProperties = nil
		}
	}
	open(s.Items)
	open(s.AdditionalProperties)
	for _, p := range s.Properties {
		open(p)
	}
	for _, d := range s.Defs {
		open(d)
	}
}

type language struct {
	Format
	goType reflect.Type
	check  bool // what is written
	own    func() (*jsonschema.Schema, error)

	held *held // after Own
}

var _ schema.Language = (*language)(nil)

func (*language) ContentType() string { return "application/json" }

// Own is called once, before anything is written.
func (l *language) Own() (schema.Schema, []int, error) {
	h, err := l.hold()
	if err != nil {
		return schema.Schema{}, nil, err
	}
	text, err := json.Marshal(h.schema)
	if err != nil {
		return schema.Schema{}, nil, fmt.Errorf("the JSON Schema of %v: %w", l.goType, err)
	}
	l.held = h
	return schema.Schema{Format: schema.JSON, Text: string(text)}, nil, nil
}

func (l *language) hold() (*held, error) {
	s, err := l.own()
	if err != nil {
		return nil, fmt.Errorf("the JSON Schema of %v: %w", l.goType, err)
	}
	resolved, err := s.Resolve(nil)
	if err != nil {
		return nil, fmt.Errorf("the JSON Schema of %v: %w", l.goType, err)
	}
	return &held{schema: s, resolved: resolved, defaults: hasDefaults(s), same: certain(s)}, nil
}

func (l *language) Append(dst []byte, v any) ([]byte, error) {
	data, err := json.Marshal(v)
	if err == nil && l.check {
		err = l.held.validate(data)
	}
	if err != nil {
		return nil, err
	}
	return append(dst, data...), nil
}

func (l *language) Plain() (schema.Reader, error) {
	h, err := l.hold()
	if err != nil {
		return nil, err
	}
	return reader{held: h}, nil
}

func (l *language) Reader(writer schema.Schema, _ []int) (schema.Reader, error) {
	h, err := l.hold()
	if err != nil {
		return nil, err
	}
	text, err := json.Marshal(h.schema)
	if err != nil {
		return nil, err
	}
	problems, err := l.Problems(schema.Schema{Format: schema.JSON, Text: string(text)}, writer)
	r := reader{held: h}
	if len(problems) > 0 {
		r.why = problems[0].String()
	}
	return r, err
}

// reader holds payloads to the reader's schema, whatever they were written with.
type reader struct {
	*held
	why string // the schema that it was written with allows what this one does not
}

func (r reader) Read(data []byte, v any) error {
	value, err := r.validated(data)
	if err != nil {
		if r.why != "" {
			return skald.UnknownVersion(fmt.Errorf("%w; its schema cannot be read by this build: %s",
				err, r.why))
		}
		return err
	}
	if r.defaults || r.folded(r.schema, value) {
		filled, err := r.fill(data)
		if err != nil {
			return err
		}
		data = filled
	}
	return skald.JSON{}.Decode(context.Background(), skald.Message{Data: data}, v)
}

// held is a schema to which JSON is held.
type held struct {
	schema   *jsonschema.Schema
	resolved *jsonschema.Resolved
	defaults bool
	same     map[*jsonschema.Schema][]*jsonschema.Schema // see certain
}

func (h *held) validate(data []byte) error {
	_, err := h.validated(data)
	return err
}

func (h *held) validated(data []byte) (v any, err error) {
	if err := json.Unmarshal(data, &v); err != nil {
		return nil, errors.New("it is not JSON")
	}
	if err := h.resolved.Validate(v); err != nil {
		return nil, fmt.Errorf("it is not as its schema says: %s", quiet(err))
	}
	return v, nil
}

// quiet is what an error says of the schema, without the value: errors are read by more people than payloads
// are.
func quiet(err error) string {
	const before = "validating "
	text := err.Error()
	at := strings.LastIndex(text, before)
	if at < 0 {
		return "a value is not allowed"
	}
	where, rest, _ := strings.Cut(text[at+len(before):], ": ")
	keyword, _, _ := strings.Cut(rest, ":")
	return fmt.Sprintf("%.200s: %.40s", where, keyword)
}
