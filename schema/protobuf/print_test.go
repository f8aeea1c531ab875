package protobuf

import (
	"testing"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/known/structpb"

	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
)

// A generated file that is printed and parsed again has the same wire format: proto2 and proto3, nested
// messages, maps, oneofs, reserved fields.
func TestPrintedFilesAreTheSame(t *testing.T) {
	for _, f := range []protoreflect.FileDescriptor{descriptorpb.File_google_protobuf_descriptor_proto,
		structpb.File_google_protobuf_struct_proto,
		collector.File_opentelemetry_proto_collector_trace_v1_trace_service_proto} {
		t.Run(f.Path(), func(t *testing.T) {
			s, err := described(f)
			if err != nil {
				t.Fatal(err)
			}
			again, err := parse(s)
			if err != nil {
				t.Fatalf("%v\n%s", err, s.Text)
			}
			if text, err := printed(again); err != nil || text != s.Text {
				t.Errorf("%v\n%s\nwas\n%s", err, text, s.Text)
			}
			for i := range f.Messages().Len() {
				want, got := bare(f.Messages().Get(i)), bare(again.Messages().Get(i))
				if !proto.Equal(want, got) {
					t.Errorf("%v\nwas\n%v", got, want)
				}
			}
			if found, err := (Format{}).Problems(s, s); err != nil || len(found) > 0 {
				t.Errorf("%v, %v", found, err)
			}
		})
	}
}

// bare returns a message without the parts that the printer omits.
func bare(m protoreflect.MessageDescriptor) *descriptorpb.DescriptorProto {
	d := protodesc.ToDescriptorProto(m)
	strip(d)
	return d
}

func strip(d *descriptorpb.DescriptorProto) {
	for _, f := range d.Field {
		packed, deprecated := f.GetOptions().GetPacked(), f.GetOptions().GetDeprecated()
		if f.Options = nil; packed || deprecated {
			f.Options = &descriptorpb.FieldOptions{}
			if packed {
				f.Options.Packed = &packed
			}
			if deprecated {
				f.Options.Deprecated = &deprecated
			}
		}
		f.JsonName = nil
	}
	for _, r := range d.ExtensionRange {
		r.Options = nil
	}
	d.Options = nil
	maps := 0
	for _, n := range d.NestedType {
		entry := n.GetOptions().GetMapEntry()
		strip(n)
		if entry {
			maps++
		}
	}
	if maps > 0 { // their position among nested messages is not kept
		d.NestedType = nil
	}
	for _, e := range d.EnumType {
		e.Options = nil
		for _, v := range e.Value {
			v.Options = nil
		}
	}
}

// A generated type is found in its file, also if it is nested in another message.
func TestIndex(t *testing.T) {
	d := (&descriptorpb.DescriptorProto_ReservedRange{}).ProtoReflect().Descriptor()
	s, err := described(d.ParentFile())
	if err != nil {
		t.Fatal(err)
	}
	if got, err := message(s, indexOf(d)); err != nil || got.FullName() != d.FullName() {
		t.Errorf("%v, %v", got, err)
	}
	for _, wrong := range [][]int{{99}, {2, 99}, {0, 0, 0}, {}} {
		if got, err := message(s, wrong); err == nil {
			t.Errorf("%v: %v", wrong, got)
		}
	}
}
