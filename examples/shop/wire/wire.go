// Package wire encodes payment.taken (PaymentProcessed in tutorials): in JSON, or in Avro or Protobuf with
// a schema registry. Its schema has two versions: the second adds payment_method.
package wire

import (
	"context"
	"embed"
	"fmt"
	"log/slog"
	"strings"

	"github.com/twmb/franz-go/pkg/sr"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/examples/shop/event"
	"github.com/skald-go/skald/schema"
	"github.com/skald-go/skald/schema/avro"
	"github.com/skald-go/skald/store"
)

//go:embed schema
var schemas embed.FS

// Language is the encoding of payloads.
type Language string

// Languages.
const (
	JSON     Language = "" // without a registry
	Avro     Language = "avro"
	Protobuf Language = "protobuf"
)

// Form is the encoding that one build writes and reads. The zero value is JSON.
type Form struct {
	Language Language
	First    bool       // the build has only the first version of the schema
	Registry *sr.Client // for Avro and Protobuf; the first write registers the schema
}

// Parse parses "json", "avro" or "protobuf", with ":1" for a build of the first version.
func Parse(text string) (Form, error) {
	name, version, _ := strings.Cut(text, ":")
	f := Form{Language: Language(name), First: version == "1"}
	if name == "json" {
		f.Language = JSON
	}
	known := f.Language == JSON || f.Language == Avro || f.Language == Protobuf
	if !known || strings.Contains(text, ":") && (!f.First || f.Language == JSON) {
		return f,
			fmt.Errorf("payments are in json, avro, protobuf, avro:1 or protobuf:1, not in %q",
				text)
	}
	return f, nil
}

// In sets the codec of PaymentTaken, with schemas stored in the service's database. ready requests the
// schema ids that a writer needs, so that no transaction waits for the registry.
func (f Form) In(e *event.Events, keep store.PayloadSchemas,
	log *slog.Logger) (ready func(context.Context) error, err error) {
	if f.Language == JSON {
		return func(context.Context) error { return nil }, nil
	}
	var r schema.Registry
	if err := r.Connect(schema.Config{Client: f.Registry, Store: keep, Register: true,
		Logger: log}); err != nil {
		return nil, err
	}
	text, err := schemas.ReadFile(f.file())
	if err != nil {
		return nil, fmt.Errorf("the schema of payments: %w", err)
	}
	var codec *schema.Codec
	if f.Language == Avro {
		codec = avro.CodecOf[event.Verdict](&r, string(text), nil)
		e.PaymentTaken.Codec = codec
	} else {
		m, err := messages(&r, string(text))
		if err != nil {
			return nil, err
		}
		codec, e.PaymentTaken.Codec = m.Codec, m
	}
	writes := skald.Event[event.Verdict]{Topic: e.PaymentTaken.Topic, Type: e.PaymentTaken.Type, Codec: codec}
	return func(ctx context.Context) error { return r.Warm(ctx, writes) }, nil
}

// file returns the path of the schema.
func (f Form) file() string {
	version, ending := "2", "avsc"
	if f.First {
		version = "1"
	}
	if f.Language == Protobuf {
		ending = "proto"
	}
	return "schema/taken." + version + "." + ending
}
