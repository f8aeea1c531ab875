package schema_test

import (
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"

	"github.com/bufbuild/protocompile"
	"github.com/twmb/franz-go/pkg/sr"
	"github.com/twmb/franz-go/pkg/sr/srfake"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/dynamicpb"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/schema"
	"github.com/skald-go/skald/schema/avro"
	"github.com/skald-go/skald/schema/jsonschema"
	"github.com/skald-go/skald/schema/protobuf"
	"github.com/skald-go/skald/store"
)

// bed is a registry that can be unavailable.
type bed struct {
	fake  *srfake.Registry
	url   string
	asked atomic.Int64
	away  atomic.Bool
}

func newBed(t testing.TB) *bed {
	t.Helper()
	b := &bed{fake: srfake.New()}
	t.Cleanup(b.fake.Close)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b.asked.Add(1)
		if b.away.Load() {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		b.fake.Handler().ServeHTTP(w, r)
	}))
	t.Cleanup(s.Close)
	b.url = s.URL
	return b
}

func (b *bed) client(t testing.TB) *sr.Client {
	t.Helper()
	c, err := sr.NewClient(sr.URLs(b.url))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// registry returns the Registry of a new process.
func (b *bed) registry(t testing.TB, keep store.PayloadSchemas) *schema.Registry {
	t.Helper()
	var r schema.Registry
	if err := r.Connect(schema.Config{Client: b.client(t), Store: keep, Register: true,
		Logger: slog.New(slog.DiscardHandler)}); err != nil {
		t.Fatal(err)
	}
	return &r
}

// Two versions of one event: the second has a method.
type (
	payment1 struct {
		Order  string `avro:"order" json:"order"`
		Amount int64  `avro:"amount" json:"amount"`
	}
	payment2 struct {
		Order  string `avro:"order" json:"order"`
		Amount int64  `avro:"amount" json:"amount"`
		Method string `avro:"payment_method,default=unknown" json:"payment_method,omitempty"`
	}
)

const (
	avro1  = `{"type":"record","name":"PaymentProcessed","fields":[{"name":"order","type":"string"},{"name":"amount","type":"long"}]}`
	avro2  = `{"type":"record","name":"PaymentProcessed","fields":[{"name":"order","type":"string"},{"name":"amount","type":"long"},{"name":"payment_method","type":"string","default":"unknown"}]}`
	json1  = `{"type":"object","properties":{"order":{"type":"string"},"amount":{"type":"integer"}},"required":["order","amount"]}`
	json2  = `{"type":"object","properties":{"order":{"type":"string"},"amount":{"type":"integer"},"payment_method":{"type":"string","default":"unknown"}},"required":["order","amount"]}`
	proto1 = "syntax = \"proto3\";\npackage shop;\nmessage Other {}\nmessage PaymentProcessed { string order = 1; int64 amount = 2; }\n"
	proto2 = "syntax = \"proto3\";\npackage shop;\nmessage Other {}\nmessage PaymentProcessed { string order = 1; int64 amount = 2; optional string payment_method = 3; }\n"
)

// messageType compiles text, for programs of another version.
func messageType(t testing.TB, text, name string) protoreflect.MessageType {
	t.Helper()
	c := protocompile.Compiler{Resolver: protocompile.WithStandardImports(&protocompile.SourceResolver{
		Accessor: protocompile.SourceAccessorFromMap(map[string]string{"shop.proto": text})})}
	files, err := c.Compile(context.Background(), "shop.proto")
	if err != nil {
		t.Fatal(err)
	}
	return dynamicpb.NewMessageType(files[0].Messages().ByName(protoreflect.Name(name)))
}

// build is a program that writes and reads payments in one language, in one version.
type build struct {
	codec func(r *schema.Registry, o *schema.Options) *schema.Codec
	value func(order string, amount int64, method string) any
	read  func(ctx context.Context, c skald.Codec,
		m skald.Message) (order string, amount int64, method string, err error)
}

func structs1(codec func(r *schema.Registry, o *schema.Options) *schema.Codec) build {
	return build{codec, func(order string, amount int64, _ string) any { return payment1{order, amount} },
		func(ctx context.Context, c skald.Codec, m skald.Message) (string, int64, string, error) {
			var v payment1
			err := c.Decode(ctx, m, &v)
			return v.Order, v.Amount, "", err
		}}
}

func structs2(codec func(r *schema.Registry, o *schema.Options) *schema.Codec) build {
	return build{codec,
		func(order string, amount int64, method string) any { return payment2{order, amount, method} },
		func(ctx context.Context, c skald.Codec, m skald.Message) (string, int64, string, error) {
			var v payment2
			err := c.Decode(ctx, m, &v)
			return v.Order, v.Amount, v.Method, err
		}}
}

func dynamic(t testing.TB, text string) build {
	of := messageType(t, text, "PaymentProcessed")
	fields := of.Descriptor().Fields()
	return build{
		codec: func(r *schema.Registry, o *schema.Options) *schema.Codec {
			return protobuf.CodecFor[proto.Message](r, of, o)
		},
		value: func(order string, amount int64, method string) any {
			m := of.New()
			m.Set(fields.ByNumber(1), protoreflect.ValueOfString(order))
			m.Set(fields.ByNumber(2), protoreflect.ValueOfInt64(amount))
			if f := fields.ByNumber(3); f != nil {
				m.Set(f, protoreflect.ValueOfString(method))
			}
			return m.Interface()
		},
		read: func(ctx context.Context, c skald.Codec, m skald.Message) (string, int64, string, error) {
			var v proto.Message
			if err := c.Decode(ctx, m, &v); err != nil {
				return "", 0, "", err
			}
			got, method := v.ProtoReflect(), ""
			if f := fields.ByNumber(3); f != nil {
				method = got.Get(f).String()
			}
			return got.Get(fields.ByNumber(1)).String(), got.Get(fields.ByNumber(2)).Int(), method, nil
		},
	}
}

// builds returns the old and the new build of each language.
func builds(t testing.TB) map[string][2]build {
	return map[string][2]build{
		"avro": {
			structs1(func(r *schema.Registry, o *schema.Options) *schema.Codec {
				return avro.CodecOf[payment1](r, avro1, o)
			}),
			structs2(func(r *schema.Registry, o *schema.Options) *schema.Codec {
				return avro.CodecOf[payment2](r, avro2, o)
			})},
		"json": {structs1(func(r *schema.Registry, o *schema.Options) *schema.Codec {
			return jsonschema.CodecOf[payment1](r, json1, o)
		}),
			structs2(func(r *schema.Registry, o *schema.Options) *schema.Codec {
				return jsonschema.CodecOf[payment2](r, json2, o)
			})},
		"protobuf": {dynamic(t, proto1), dynamic(t, proto2)},
	}
}

// written returns v encoded as a message.
func written(t testing.TB, c skald.Codec, v any) skald.Message {
	t.Helper()
	m := skald.Message{ID: "m1", Topic: "payments", Type: "payment.processed"}
	if err := c.Encode(t.Context(), &m, v); err != nil {
		t.Fatal(err)
	}
	return m
}
