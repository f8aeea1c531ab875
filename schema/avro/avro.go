// Package avro encodes events in Avro. A reader accepts payloads of older and newer writers. It ignores
// unknown fields, and missing fields get their default.
package avro

import (
	"encoding"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"unicode/utf8"

	"github.com/twmb/avro"

	"github.com/skald-go/skald/internal/fingerprint"
	"github.com/skald-go/skald/schema"
)

// Codec returns a codec for T, which must be a struct. The schema is derived from the fields of T. The tag
// avro sets names, defaults and logical types:
//
//	Method string `avro:"payment_method,default=unknown"`
//
// The name of the record is the name of T. The options avro.WithName and avro.WithNamespace of
// github.com/twmb/avro change it.
func Codec[T any](reg *schema.Registry, o *schema.Options, with ...avro.SchemaOpt) *schema.Codec {
	return schema.NewCodec(reg,
		newLanguage[T](func() (*avro.Schema, error) { return avro.SchemaFor[T](with...) }), o)
}

// CodecOf returns a codec for T with the schema text, which is JSON. T must have a field for each field of
// the schema, with the same name or an avro tag.
func CodecOf[T any](reg *schema.Registry, text string, o *schema.Options) *schema.Codec {
	return schema.NewCodec(reg, newLanguage[T](func() (*avro.Schema, error) { return avro.Parse(text) }),
		o)
}

type language[T any] struct {
	Format
	own    func() (*avro.Schema, error)
	parsed *avro.Schema      // set by Own
	texts  fingerprint.Texts // set by Own
}

func newLanguage[T any](own func() (*avro.Schema, error)) *language[T] {
	return &language[T]{own: own, texts: fingerprint.Texts{Tag: "avro", Own: marshals}}
}

var _ schema.Language = (*language[int])(nil)

func (*language[T]) ContentType() string { return "application/avro" }

// Own returns the schema of T. It is called once, before all other methods.
func (l *language[T]) Own() (schema.Schema, []int, error) {
	s, err := l.own()
	if err != nil {
		return schema.Schema{}, nil, fmt.Errorf("the Avro schema of %v: %w", reflect.TypeFor[T](), err)
	}
	l.parsed = s
	return schema.Schema{Format: schema.Avro, Text: s.String()}, nil, nil
}

func (l *language[T]) Append(dst []byte, v any) ([]byte, error) {
	out, err := l.parsed.AppendEncode(dst, v)
	if err != nil {
		return out, quiet(err)
	}
	return out, textsIn(&l.texts, out, v)
}

// Plain returns nil, because an Avro payload cannot be read without its writer's schema.
func (*language[T]) Plain() (schema.Reader, error) { return nil, nil }

func (l *language[T]) Reader(writer schema.Schema, _ []int) (schema.Reader, error) {
	own, err := l.own()
	if err != nil {
		return nil, err
	}
	wrote, err := parse(writer)
	if err != nil {
		return nil, err
	}
	if p, other, err := otherMeaning(schema.Schema{Format: schema.Avro, Text: own.String()},
		writer); err != nil {
		return nil, err
	} else if other {
		return nil, errors.New(p.String())
	}
	both, err := avro.Resolve(wrote, own)
	if p, ok := problem(err); ok {
		return nil, errors.New(p.String())
	}
	if err != nil {
		return nil, err
	}
	return reader{both, &l.texts}, nil
}

type reader struct {
	*avro.Schema
	texts *fingerprint.Texts // nil if strings are not checked
}

func (r reader) Read(data []byte, v any) error {
	rest, err := r.Decode(data, v)
	if err == nil && len(rest) > 0 {
		return fmt.Errorf("%d bytes follow the value", len(rest))
	}
	if err == nil && r.texts != nil {
		return textsIn(r.texts, data, v)
	}
	return quiet(err)
}

var errBytes = errors.New("a string in it is not UTF-8, as Avro requires: use []byte, and the Avro type bytes")

// textsIn returns errBytes if a string in v is not UTF-8. Readers in other languages would change or refuse
// such a string. data is the encoded v.
func textsIn(t *fingerprint.Texts, data []byte, v any) error {
	ascii := !slices.ContainsFunc(data, func(b byte) bool { return b >= utf8.RuneSelf })
	if !ascii && !t.In(reflect.ValueOf(v)) {
		return errBytes
	}
	return nil
}

func marshals(t reflect.Type) bool { return t.Implements(reflect.TypeFor[encoding.TextMarshaler]()) }

// quiet returns err without values of the payload, because more people may read errors than payloads.
func quiet(err error) error {
	if err == nil {
		return nil
	}
	return quieted(err)
}

func quieted(err error) error {
	var field *avro.SemanticError
	var short *avro.ShortBufferError
	switch {
	case errors.As(err, &field) && field.Field != "":
		return fmt.Errorf("field %.200s: %v does not match the Avro type %.100s", field.Field, field.GoType,
			field.AvroType)
	case errors.As(err, &field):
		return fmt.Errorf("%v does not match the Avro type %.100s", field.GoType, field.AvroType)
	case errors.As(err, &short):
		return short
	}
	return fmt.Errorf("a value does not match its schema (%T)", err)
}
