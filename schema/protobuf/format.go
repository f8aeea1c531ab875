package protobuf

import (
	"context"
	"errors"
	"fmt"

	"github.com/bufbuild/protocompile"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/dynamicpb"

	"github.com/skald-go/skald/schema"
)

// Format compares schemas in Protobuf.
type Format struct{}

var _ schema.Format = Format{}

// Name is schema.Protobuf.
func (Format) Name() string { return schema.Protobuf }

// main is how a schema without a name of its own is called while it is compiled.
const main = "-schema-.proto"

func parse(s schema.Schema) (protoreflect.FileDescriptor, error) {
	files := map[string]string{main: s.Text}
	for _, i := range s.Imports {
		files[i.Name] = i.Text
	}
	c := protocompile.Compiler{Resolver: protocompile.WithStandardImports(&protocompile.SourceResolver{
		Accessor: protocompile.SourceAccessorFromMap(files)})}
	out, err := c.Compile(context.Background(), main)
	if err != nil {
		return nil, fmt.Errorf("the .proto of the schema: %.300w", err)
	}
	return out[0], nil
}

// message is that of an index.
func message(s schema.Schema, index []int) (protoreflect.MessageDescriptor, error) {
	f, err := parse(s)
	if err != nil {
		return nil, err
	}
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

// Problems of the messages that both files have by name, and those of writer that reader has not.
func (Format) Problems(reader, writer schema.Schema) ([]schema.Problem, error) {
	r, err := parse(reader)
	if err != nil {
		return nil, err
	}
	w, err := parse(writer)
	if err != nil {
		return nil, err
	}
	c := comparison{seen: map[pair]bool{}}
	for i := range w.Messages().Len() {
		wrote := w.Messages().Get(i)
		own := r.Messages().ByName(wrote.Name())
		if own == nil || own.FullName() != wrote.FullName() {
			c.say(string(wrote.FullName()), "message is not there for the reader", "the writer has "+
				string(wrote.FullName()))
			continue
		}
		c.messages(own, wrote, string(own.Name()))
	}
	return c.found, nil
}

// Readable is a payload in Protobuf's JSON.
func (Format) Readable(writer schema.Schema, index []int, data []byte) ([]byte, error) {
	d, err := message(writer, index)
	if err != nil {
		return nil, err
	}
	m := dynamicpb.NewMessage(d)
	if err := proto.Unmarshal(data, m); err != nil {
		return nil, errors.New("the payload does not go with its schema")
	}
	return protojson.MarshalOptions{UseProtoNames: true}.Marshal(m)
}
