package protobuf

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"

	"github.com/bufbuild/protocompile"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/dynamicpb"

	"github.com/skald-go/skald/schema"
)

// Format compares Protobuf schemas.
type Format struct{}

var _ schema.Format = Format{}

// Name returns schema.Protobuf.
func (Format) Name() string { return schema.Protobuf }

// main is the name of the schema's file while it is compiled.
const main = "-schema-.proto"

func parse(s schema.Schema) (protoreflect.FileDescriptor, error) {
	out, _, err := parsed(s)
	return out, err
}

// parsed returns the compiled schema, and the files that it imports.
func parsed(s schema.Schema) (protoreflect.FileDescriptor, *protoregistry.Files, error) {
	if err := s.Bounded(); err != nil {
		return nil, nil, err
	}
	files := map[string]string{main: s.Text}
	for _, i := range s.Imports {
		files[i.Name] = i.Text
	}
	c := protocompile.Compiler{Resolver: protocompile.WithStandardImports(&protocompile.SourceResolver{
		Accessor: protocompile.SourceAccessorFromMap(files)})}
	out, err := c.Compile(context.Background(), main)
	if err != nil {
		return nil, nil, fmt.Errorf("the .proto of the schema: %.300w", err)
	}
	return indexed(out[0])
}

// indexed returns the same file with descriptors that find fields fast. The descriptors of protocompile
// search linearly.
func indexed(f protoreflect.FileDescriptor) (protoreflect.FileDescriptor, *protoregistry.Files, error) {
	var files protoregistry.Files
	var add func(f protoreflect.FileDescriptor) (protoreflect.FileDescriptor, error)
	add = func(f protoreflect.FileDescriptor) (protoreflect.FileDescriptor, error) {
		if known, err := files.FindFileByPath(f.Path()); err == nil {
			return known, nil
		}
		for i := range f.Imports().Len() {
			if _, err := add(f.Imports().Get(i).FileDescriptor); err != nil {
				return nil, err
			}
		}
		out, err := protodesc.NewFile(protodesc.ToFileDescriptorProto(f), &files)
		if err != nil {
			return nil, fmt.Errorf("the .proto of the schema: %.300w", err)
		}
		return out, files.RegisterFile(out)
	}
	out, err := add(f)
	return out, &files, err
}

// message returns the message at an index.
func message(s schema.Schema, index []int) (protoreflect.MessageDescriptor, error) {
	f, err := parse(s)
	if err != nil {
		return nil, err
	}
	return messageOf(f, index)
}

func messageOf(f protoreflect.FileDescriptor, index []int) (protoreflect.MessageDescriptor, error) {
	in := f.Messages()
	for i, n := range index {
		if n >= in.Len() {
			break
		}
		if i == len(index)-1 {
			return in.Get(n), nil
		}
		in = in.Get(n).Messages()
	}
	return nil, fmt.Errorf("the schema has no message at the index %v", index)
}

// Problems compares the messages with the same name. A message that only writer has is a problem.
func (Format) Problems(reader, writer schema.Schema) ([]schema.Problem, error) {
	r, err := parse(reader)
	if err != nil {
		return nil, err
	}
	w := r
	if writer.Text != reader.Text || len(writer.Imports)+len(reader.Imports) > 0 {
		if w, err = parse(writer); err != nil {
			return nil, err
		}
	}
	c := comparison{seen: map[pair]bool{}}
	for i := range w.Messages().Len() {
		wrote := w.Messages().Get(i)
		own := r.Messages().ByName(wrote.Name())
		if own == nil || own.FullName() != wrote.FullName() {
			c.report(string(wrote.FullName()), "the reader has no such message", "the writer has "+
				string(wrote.FullName()))
			continue
		}
		c.messages(own, wrote, string(own.Name()))
	}
	return c.problems()
}

// Readable returns the payload as Protobuf JSON. Protobuf JSON cannot represent some values, such as a
// Timestamp in the year 10000, or an Any of an unknown type. In this case Readable returns the plain fields.
func (Format) Readable(writer schema.Schema, index []int, data []byte) ([]byte, error) {
	f, files, err := parsed(writer)
	if err != nil {
		return nil, err
	}
	d, err := messageOf(f, index)
	if err != nil {
		return nil, err
	}
	types := resolver{dynamicpb.NewTypes(files)}
	m := dynamicpb.NewMessage(d)
	if err := (proto.UnmarshalOptions{Resolver: types}).Unmarshal(data, m); err != nil {
		return nil, errors.New("the payload does not match its schema")
	}
	out, err := protojson.MarshalOptions{UseProtoNames: true, Resolver: types}.Marshal(m)
	if err != nil { // not returned, because it may quote the value
		return json.Marshal(plain(m))
	}
	return out, nil
}

// resolver finds types in a schema, and Google's types in this program.
type resolver struct{ *dynamicpb.Types }

func (r resolver) FindMessageByURL(url string) (protoreflect.MessageType, error) {
	if out, err := r.Types.FindMessageByURL(url); err == nil {
		return out, nil
	}
	return protoregistry.GlobalTypes.FindMessageByURL(url)
}

// plain returns the fields of a message, without special forms for Google's types.
func plain(m protoreflect.Message) map[string]any {
	out := map[string]any{}
	for f, v := range m.Range {
		switch {
		case f.IsMap():
			all := map[string]any{}
			for k, v := range v.Map().Range {
				all[k.String()] = plainValue(f.MapValue(), v)
			}
			out[string(f.Name())] = all
		case f.IsList():
			all := []any{}
			for i := range v.List().Len() {
				all = append(all, plainValue(f, v.List().Get(i)))
			}
			out[string(f.Name())] = all
		default:
			out[string(f.Name())] = plainValue(f, v)
		}
	}
	return out
}

func plainValue(f protoreflect.FieldDescriptor, v protoreflect.Value) any {
	switch f.Kind() {
	case protoreflect.MessageKind, protoreflect.GroupKind:
		return plain(v.Message())
	case protoreflect.EnumKind:
		if is := f.Enum().Values().ByNumber(v.Enum()); is != nil {
			return is.Name()
		}
		return v.Enum()
	case protoreflect.FloatKind, protoreflect.DoubleKind:
		if n := v.Float(); math.IsNaN(n) || math.IsInf(n, 0) {
			return fmt.Sprint(n)
		}
	case protoreflect.Int64Kind, protoreflect.Sint64Kind, protoreflect.Uint64Kind, protoreflect.Fixed64Kind,
		protoreflect.Sfixed64Kind: // strings, as in Protobuf JSON
		return v.String()
	}
	return v.Interface() // bytes become base64, as in Protobuf JSON
}
