// Package jsonschema encodes events as JSON with a JSON Schema. A reader accepts payloads of older and newer
// writers. It ignores unknown properties. A missing property gets the default of the schema, or else the zero
// value.
package jsonschema

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/internal/fingerprint"
	"github.com/skald-go/skald/schema"
)

// Codec returns a codec for T. The schema is derived from the fields of T and their json tags. Fields without
// omitempty or omitzero are required. Payloads may have properties without a field in T.
func Codec[T any](reg *schema.Registry, o *schema.Options) *schema.Codec {
	return schema.NewCodec(reg, &language{goType: reflect.TypeFor[T](),
		own: func() (string, error) {
			s, err := jsonschema.For[T](nil)
			if err != nil {
				return "", err
			}
			open(s)
			out, err := json.Marshal(s)
			return string(out), err
		}}, o)
}

// CodecOf returns a codec for T with the schema text. Encode validates payloads against it.
func CodecOf[T any](reg *schema.Registry, text string, o *schema.Options) *schema.Codec {
	return schema.NewCodec(reg, &language{goType: reflect.TypeFor[T](), check: true,
		own: func() (string, error) {
			var out bytes.Buffer
			err := json.Compact(&out, []byte(text))
			return out.String(), err
		}}, o)
}

// open makes a schema allow additional properties, so that a writer may add some.
func open(s *jsonschema.Schema) {
	if s == nil {
		return
	}
	if s.Type == "object" || len(s.Types) > 0 {
		if out, _ := json.Marshal(s.AdditionalProperties); string(out) == "false" {
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
	check  bool // validate payloads also in Append
	own    func() (string, error)

	checker *checker // set by Own
}

var _ schema.Language = (*language)(nil)

func (*language) ContentType() string { return "application/json" }

// Own returns the schema of the Go type. It is called once, before the first write.
func (l *language) Own() (schema.Schema, []int, error) {
	h, err := l.newChecker()
	if err != nil {
		return schema.Schema{}, nil, err
	}
	l.checker = h
	return schema.Schema{Format: schema.JSON, Text: h.text}, nil, nil
}

func (l *language) newChecker() (*checker, error) {
	text, err := l.own()
	if err != nil {
		return nil, fmt.Errorf("the JSON Schema of %v: %w", l.goType, err)
	}
	h, err := newChecker(text)
	if err != nil {
		return nil, fmt.Errorf("the JSON Schema of %v: %w", l.goType, err)
	}
	h.defaults, h.same = hasDefaults(h.schema), certain(h.schema)
	return h, nil
}

func (l *language) Append(dst []byte, v any) ([]byte, error) {
	data, err := json.Marshal(v)
	if err == nil && l.check {
		err = l.checker.validate(data)
	}
	if err != nil {
		return nil, err
	}
	return append(dst, data...), nil
}

func (l *language) Plain() (schema.Reader, error) {
	h, err := l.newChecker()
	if err != nil {
		return nil, err
	}
	return reader{checker: h}, nil
}

func (l *language) Reader(writer schema.Schema, _ []int) (schema.Reader, error) {
	h, err := l.newChecker()
	if err != nil {
		return nil, err
	}
	problems, err := l.Problems(schema.Schema{Format: schema.JSON, Text: h.text}, writer)
	r := reader{checker: h}
	if len(problems) > 0 {
		r.why = problems[0].String()
	}
	return r, err
}

// reader validates payloads against the reader's schema. If a payload is valid, it is read, whatever schema
// its writer had.
type reader struct {
	*checker
	why string // the first problem with the writer's schema, or ""
}

func (r reader) Read(data []byte, v any) error {
	tree, err := r.validated(data)
	if err != nil {
		if r.why != "" {
			return skald.UnknownVersion(fmt.Errorf("%w; its schema cannot be read by this build: %s",
				err, r.why))
		}
		return err
	}
	if err := fingerprint.CheckJSON(data); err != nil {
		return err
	}
	if r.defaults || r.folded(r.schema, tree) {
		filled, err := r.fill(data)
		if err != nil {
			return err
		}
		data = filled
	}
	err = skald.JSON{}.Decode(context.Background(), skald.Message{Data: data}, v)
	if kind := new(json.UnmarshalTypeError); errors.As(err, &kind) && strings.HasPrefix(kind.Value,
		"number") {
		return wholeNumbers(data, v, err)
	}
	return err
}

// wholeNumbers decodes a payload again, with integers written without a fraction and an exponent. JSON Schema
// accepts 5.0 and 1e2 as integers, but encoding/json does not.
func wholeNumbers(data []byte, v any, was error) error {
	tree, err := decode(data)
	if err != nil {
		return was
	}
	out, err := json.Marshal(whole(tree))
	if err != nil {
		return was
	}
	reflect.ValueOf(v).Elem().SetZero() // the first attempt may have set some fields
	return skald.JSON{}.Decode(context.Background(), skald.Message{Data: out}, v)
}

func whole(v any) any {
	switch v := v.(type) {
	case json.Number:
		if strings.ContainsAny(string(v), ".eE") {
			if n := rational(v); n.IsInt() {
				return json.Number(n.Num().String())
			}
		}
	case []any:
		for i := range v {
			v[i] = whole(v[i])
		}
	case map[string]any:
		for name := range v {
			v[name] = whole(v[name])
		}
	}
	return v
}
