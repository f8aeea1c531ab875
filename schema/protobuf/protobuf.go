// Package protobuf encodes events as Protocol Buffers, with types that protoc or buf generated. A reader
// accepts payloads of older and newer writers, and keeps unknown fields.
package protobuf

import (
	"errors"
	"fmt"
	"reflect"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/skald-go/skald/schema"
)

// Codec returns a codec for T, which must be a pointer to a generated struct. The schema is the .proto file
// of the type, without comments and without options that do not change the format of payloads. Imported
// files, except Google's, are registered as subjects with their names.
func Codec[T proto.Message](reg *schema.Registry, o *schema.Options) *schema.Codec {
	var zero T
	if reflect.TypeFor[T]().Kind() != reflect.Pointer {
		return CodecFor[T](reg, nil, o)
	}
	return CodecFor[T](reg, zero.ProtoReflect().Type(), o)
}

// CodecFor returns a codec for T with messages of the type in message. It is for a T such as
// *dynamicpb.Message, in programs without generated code.
func CodecFor[T proto.Message](reg *schema.Registry, message protoreflect.MessageType,
	o *schema.Options) *schema.Codec {
	return schema.NewCodec(reg, language[T]{of: message}, o)
}

type language[T proto.Message] struct {
	Format
	of protoreflect.MessageType
}

var _ schema.Language = language[proto.Message]{}

func (language[T]) ContentType() string { return "application/protobuf" }

func (l language[T]) descriptor() (protoreflect.MessageDescriptor, error) {
	if l.of == nil {
		return nil,
			fmt.Errorf("%v is not a pointer to a generated struct: name its type with protobuf.CodecFor",
				reflect.TypeFor[T]())
	}
	return l.of.Descriptor(), nil
}

func (l language[T]) Own() (schema.Schema, []int, error) {
	d, err := l.descriptor()
	if err != nil {
		return schema.Schema{}, nil, err
	}
	s, err := described(d.ParentFile())
	return s, indexOf(d), err
}

// indexOf returns the index of a message in its file: the positions of the enclosing messages, and then its
// own.
func indexOf(d protoreflect.MessageDescriptor) []int {
	if around, ok := d.Parent().(protoreflect.MessageDescriptor); ok {
		return append(indexOf(around), d.Index())
	}
	return []int{d.Index()}
}

// described returns the schema of a file, with its imports.
func described(f protoreflect.FileDescriptor) (schema.Schema, error) {
	text, err := printed(f)
	if err != nil {
		return schema.Schema{}, err
	}
	out := schema.Schema{Format: schema.Protobuf, Text: text}
	return out, addImports(&out, f)
}

func (l language[T]) Append(dst []byte, v any) ([]byte, error) {
	m, ok := v.(T)
	if !ok || !m.ProtoReflect().IsValid() || m.ProtoReflect().Descriptor() != l.of.Descriptor() {
		return nil, fmt.Errorf("the value is a %T or nil, not a %v", v, reflect.TypeFor[T]())
	}
	// Deterministic, because Skald compares payloads: equal values must have equal bytes.
	return proto.MarshalOptions{Deterministic: true}.MarshalAppend(dst, m)
}

// Plain returns a reader. A Protobuf payload contains field numbers and kinds, so it can be read without its
// writer's schema.
func (l language[T]) Plain() (schema.Reader, error) {
	_, err := l.descriptor()
	return reader[T]{l.of}, err
}

func (l language[T]) Reader(writer schema.Schema, index []int) (schema.Reader, error) {
	own, err := l.descriptor()
	if err != nil {
		return nil, err
	}
	wrote, err := message(writer, index)
	if err != nil {
		return nil, err
	}
	if wrote.FullName() != own.FullName() {
		return nil, fmt.Errorf("it is of %s, and this handler takes %s", wrote.FullName(), own.FullName())
	}
	c := comparison{seen: map[pair]bool{}}
	c.messages(own, wrote, string(own.Name()))
	found, err := c.problems()
	if err != nil {
		return nil, err
	}
	if len(found) > 0 {
		return nil, errors.New(found[0].String())
	}
	return reader[T]{l.of}, nil
}

type reader[T proto.Message] struct{ of protoreflect.MessageType }

func (r reader[T]) Read(data []byte, v any) error {
	to, ok := v.(*T)
	if !ok {
		return fmt.Errorf("cannot decode into %T, only into *%v", v, reflect.TypeFor[T]())
	}
	m := r.of.New().Interface()
	if err := proto.Unmarshal(data, m); err != nil {
		return fmt.Errorf("not a valid %v: %w", reflect.TypeFor[T](), err)
	}
	if *to, ok = m.(T); !ok {
		return fmt.Errorf("a %T is not a %v", m, reflect.TypeFor[T]())
	}
	return nil
}
