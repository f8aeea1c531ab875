package schema_test

import (
	"testing"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/typepb"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/schema"
	"github.com/skald-go/skald/schema/avro"
	"github.com/skald-go/skald/schema/jsonschema"
	"github.com/skald-go/skald/schema/protobuf"
)

// ten has ten fields, as a typical order.
type ten struct {
	ID       string  `avro:"id" json:"id"`
	Customer string  `avro:"customer" json:"customer"`
	SKU      string  `avro:"sku" json:"sku"`
	Country  string  `avro:"country" json:"country"`
	Quantity int32   `avro:"quantity" json:"quantity"`
	Amount   int64   `avro:"amount" json:"amount"`
	Tax      int64   `avro:"tax" json:"tax"`
	Weight   float64 `avro:"weight" json:"weight"`
	Express  bool    `avro:"express" json:"express"`
	Note     string  `avro:"note" json:"note"`
}

// eleven is the event of a newer program.
type eleven struct {
	ten    `avro:",inline"`
	Method string `avro:"method,default=unknown" json:"method,omitempty"`
}

func anOrder() ten {
	return ten{"0198f1c2-7f5e-7cc3-98c4-dc0c0c07398f", "c-4711", "sku-1", "DE", 3, 4999, 798, 1.25, true,
		"leave it at the door"}
}

func aType() *typepb.Field { // also has ten fields
	return &typepb.Field{Kind: typepb.Field_TYPE_INT64, Cardinality: typepb.Field_CARDINALITY_OPTIONAL,
		Number: 7, Name: "amount", TypeUrl: "type.example/Order",
		OneofIndex: 2, Packed: true, JsonName: "amount", DefaultValue: "leave it at the door"}
}

func benchmarkEncode(b *testing.B, c skald.Codec, v any) {
	m := skald.Message{Topic: "orders", Type: "order.placed"}
	if err := c.Encode(b.Context(), &m, v); err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		m.Headers = nil
		if err := c.Encode(b.Context(), &m, v); err != nil {
			b.Fatal(err)
		}
	}
}

func benchmarkDecode[T any](b *testing.B, writer, reader skald.Codec, v any) {
	e := skald.Event[T]{Codec: reader}
	m := written(b, writer, v)
	if _, err := e.Decode(b.Context(), m); err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := e.Decode(b.Context(), m); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkEncode(b *testing.B) {
	r := newBed(b).registry(b, nil)
	b.Run("avro", func(b *testing.B) { v := any(anOrder()); benchmarkEncode(b, avro.Codec[ten](r, nil), v) })
	b.Run("avro pointer",
		func(b *testing.B) { v := anOrder(); benchmarkEncode(b, avro.Codec[ten](r, nil), &v) })
	b.Run("protobuf", func(b *testing.B) {
		benchmarkEncode(b, protobuf.Codec[*typepb.Field](r, &schema.Options{Subject: "p"}), aType())
	})
	b.Run("jsonschema", func(b *testing.B) {
		benchmarkEncode(b, jsonschema.Codec[ten](r, &schema.Options{Subject: "j"}), anOrder())
	})
	b.Run("json without schema", func(b *testing.B) { benchmarkEncode(b, skald.JSON{}, anOrder()) })
}

// A writer allocates only the payload and its header.
func TestAllocations(t *testing.T) {
	r := newBed(t).registry(t, nil)
	order := anOrder()
	for name, c := range map[string]struct {
		codec skald.Codec
		v     any
	}{"avro": {avro.Codec[ten](r, nil), &order},
		"protobuf": {protobuf.Codec[*typepb.Field](r, &schema.Options{Subject: "p"}), aType()}} {
		m := skald.Message{Topic: "orders", Type: "order.placed"}
		n := testing.AllocsPerRun(100, func() {
			m.Headers = nil
			if err := c.codec.Encode(t.Context(), &m, c.v); err != nil {
				t.Fatal(err)
			}
		})
		if n > 2 {
			t.Errorf("%s: %v allocations", name, n)
		}
	}
}

// The writer's schema has a field that the reader's schema does not have.
func BenchmarkDecode(b *testing.B) {
	r := newBed(b).registry(b, nil)
	name := &schema.Options{Subject: "eleven"}
	wrote := eleven{anOrder(), "card"}
	b.Run("avro", func(b *testing.B) {
		text := `{"type":"record","name":"ten","fields":[{"name":"method","type":"string"},` +
			tenFields + `]}`
		benchmarkDecode[ten](b, avro.CodecOf[eleven](r, text, name), avro.Codec[ten](r, nil), wrote)
	})
	b.Run("protobuf", func(b *testing.B) {
		c := protobuf.Codec[*typepb.Field](r, &schema.Options{Subject: "p"})
		benchmarkDecode[*typepb.Field](b, c, c, proto.Clone(aType()))
	})
	b.Run("jsonschema", func(b *testing.B) {
		o := &schema.Options{Subject: "j"}
		benchmarkDecode[ten](b, jsonschema.Codec[ten](r, o), jsonschema.Codec[ten](r, nil), anOrder())
	})
	b.Run("json without schema",
		func(b *testing.B) { benchmarkDecode[ten](b, skald.JSON{}, skald.JSON{}, anOrder()) })
}

const tenFields = `{"name":"id","type":"string"},{"name":"customer","type":"string"},{"name":"sku","type":"string"},{"name":"country","type":"string"},` +
	`{"name":"quantity","type":"int"},{"name":"amount","type":"long"},{"name":"tax","type":"long"},{"name":"weight","type":"double"},` +
	`{"name":"express","type":"boolean"},{"name":"note","type":"string"}`
