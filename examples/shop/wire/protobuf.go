package wire

import (
	"context"
	"fmt"

	"github.com/bufbuild/protocompile"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/dynamicpb"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/examples/shop/event"
	"github.com/skald-go/skald/schema"
	"github.com/skald-go/skald/schema/protobuf"
)

// unknown is the payment method in the second version if the writer had none.
const unknown = "unknown"

// message is the codec of one version of the .proto file. A normal program uses the Go types of protoc
// instead. The shop needs two versions of one file, which protoc does not allow.
type message struct {
	*schema.Codec
	of protoreflect.MessageType
}

func messages(r *schema.Registry, text string) (message, error) {
	const name = "payment_processed.proto"
	c := protocompile.Compiler{Resolver: protocompile.WithStandardImports(&protocompile.SourceResolver{
		Accessor: protocompile.SourceAccessorFromMap(map[string]string{name: text})})}
	files, err := c.Compile(context.Background(), name)
	if err != nil {
		return message{}, fmt.Errorf("the schema of payments: %w", err)
	}
	of := dynamicpb.NewMessageType(files[0].Messages().ByName("PaymentProcessed"))
	return message{protobuf.CodecFor[proto.Message](r, of, nil), of}, nil
}

// Encode encodes a verdict, with the method if this version has it.
func (m message) Encode(ctx context.Context, to *skald.Message, v any) error {
	taken, ok := v.(event.Verdict)
	if !ok {
		return fmt.Errorf("encode %s: the value is a %T, not a verdict", to.Type, v)
	}
	out := m.of.New()
	set := func(in protoreflect.Message, name protoreflect.Name, v any) {
		if f := in.Descriptor().Fields().ByName(name); f != nil {
			in.Set(f, protoreflect.ValueOf(v))
		}
	}
	set(out, "id", taken.ID)
	set(out, "customer", taken.Customer)
	set(out, "cents", taken.Cents)
	set(out, "payment_method", taken.Method)
	items := out.Mutable(m.field("items")).List()
	for _, i := range taken.Items {
		one := items.NewElement()
		set(one.Message(), "sku", i.SKU)
		set(one.Message(), "quantity", i.Quantity)
		set(one.Message(), "cents", i.Cents)
		items.Append(one)
	}
	return m.Codec.Encode(ctx, to, out.Interface())
}

// Decode decodes a verdict.
func (m message) Decode(ctx context.Context, from skald.Message, v any) error {
	to, ok := v.(*event.Verdict)
	if !ok {
		return fmt.Errorf("decode %s: the target is a %T, not a verdict", from.Type, v)
	}
	var read proto.Message
	if err := m.Codec.Decode(ctx, from, &read); err != nil {
		return err
	}
	in := read.ProtoReflect()
	get := func(in protoreflect.Message, name protoreflect.Name) protoreflect.Value {
		return in.Get(in.Descriptor().Fields().ByName(name))
	}
	*to = event.Verdict{Order: event.Order{ID: get(in, "id").String(), Customer: get(in, "customer").String(),
		Cents: get(in, "cents").Int()}}
	items := get(in, "items").List()
	for i := range items.Len() {
		one := items.Get(i).Message()
		to.Items = append(to.Items, event.Item{SKU: get(one, "sku").String(),
			Quantity: get(one, "quantity").Int(), Cents: get(one, "cents").Int()})
	}
	if method := m.field("payment_method"); method != nil {
		to.Method = unknown
		if in.Has(method) {
			to.Method = in.Get(method).String()
		}
	}
	return nil
}

func (m message) field(name protoreflect.Name) protoreflect.FieldDescriptor {
	return m.of.Descriptor().Fields().ByName(name)
}
