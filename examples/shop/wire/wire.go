// Package wire is how payment.taken, the PaymentProcessed of tutorials, travels: in JSON, or in Avro or
// Protobuf with a schema registry. Its schema has two versions: the second one adds payment_method.
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

// A Language is what payloads are written in.
type Language string

// Languages.
const (
	JSON     Language = "" // without a registry
	Avro     Language = "avro"
	Protobuf Language = "protobuf"
)

// A Form is how one build writes and reads the event. The zero value is JSON.
type Form struct {
	Language Language
	First    bool       // the build knows the first version of the schema alone
	Registry *sr.Client // of Avro and Protobuf. The schema is registered when the build first writes it
}

// Parse reads "json", "avro" or "protobuf", with ":1" behind it for a build of the first version.
func Parse(text string) (Form, error) {
	name, version, _ := strings.Cut(text, ":")
	f := Form{Language: Language(name), First: version == "1"}
	if name == "json" {
		f.Language = JSON
	}
	known := f.Language == JSON || f.Language == Avro || f.Language == Protobuf
	if !known || strings.Contains(text, ":") && (!f.First || f.Language == JSON) {
		return f,
			fmt.Errorf("payments travel in json, avro or protobuf, or in avro:1 or protobuf:1, not in %q",
				text)
	}
	return f, nil
}

// In has events be written and read in this form, with schemas kept in the database of who reads them. Ready
// asks the registry for what a writer needs, so that no transaction of its waits for that.
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

// file is that of the schema.
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
