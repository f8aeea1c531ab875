package wire_test

import (
	"context"
	"io/fs"
	"log/slog"
	"os"
	"reflect"
	"testing"

	"github.com/twmb/franz-go/pkg/sr"
	"github.com/twmb/franz-go/pkg/sr/srfake"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/examples/shop/event"
	"github.com/skald-go/skald/examples/shop/wire"
	"github.com/skald-go/skald/schema"
	"github.com/skald-go/skald/schema/avro"
	"github.com/skald-go/skald/schema/protobuf"
	"github.com/skald-go/skald/store/memstore"
)

func events(t *testing.T, f wire.Form) *event.Events {
	t.Helper()
	e := event.New("")
	ready, err := f.In(e, memstore.New(nil), slog.New(slog.DiscardHandler))
	if err == nil {
		err = ready(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// Each build reads the payloads of each build of its language; the method is there if both have it.
func TestBuildsReadEachOther(t *testing.T) {
	said := event.Verdict{Order: event.Order{ID: "o1", Customer: "ada", Cents: 1470,
		Items: []event.Item{{SKU: "tea", Quantity: 3, Cents: 490}}}, Method: "card"}
	for _, language := range []wire.Language{wire.JSON, wire.Avro, wire.Protobuf} {
		registry := srfake.New()
		t.Cleanup(registry.Close)
		client, err := sr.NewClient(sr.URLs(registry.URL()))
		if err != nil {
			t.Fatal(err)
		}
		for i := range 4 {
			oldWriter, oldReader := i%2 == 0, i/2 == 0
			from := events(t, wire.Form{Language: language, First: oldWriter, Registry: client})
			to := events(t, wire.Form{Language: language, First: oldReader, Registry: client})
			m := skald.Message{ID: "m", Topic: from.PaymentTaken.Topic, Type: from.PaymentTaken.Type}
			codec := from.PaymentTaken.Codec
			if err := codec.Encode(t.Context(), &m, said); err != nil {
				t.Fatal(err)
			}
			got, err := to.PaymentTaken.Decode(context.Background(), m)
			want := said
			switch {
			case language == wire.JSON:
			case oldReader:
				want.Method = ""
			case oldWriter:
				want.Method = "unknown"
			}
			if err != nil || !reflect.DeepEqual(got.Value, want) {
				t.Errorf("%q, old writer %t, old reader %t: %+v, %v", language, oldWriter, oldReader,
					got.Value, err)
			}
		}
	}
}

// The check that docs/schemas.md recommends first: old builds read the new schema, and new builds the old.
func TestVersionsGoTogether(t *testing.T) {
	files := os.DirFS("schema")
	for name, format := range map[string]schema.Format{"avsc": avro.Format{}, "proto": protobuf.Format{}} {
		var versions [2]schema.Schema
		for i := range versions {
			text, err := fs.ReadFile(files, []string{"taken.1.", "taken.2."}[i]+name)
			if err != nil {
				t.Fatal(err)
			}
			versions[i] = schema.Schema{Format: format.Name(), Text: string(text)}
		}
		for i := range versions {
			if problems, err := format.Problems(versions[i], versions[1-i]); err != nil || len(problems) > 0 {
				t.Errorf("%s: version %d cannot read the other: %v %v", name, i+1, problems, err)
			}
		}
	}
}

func TestParse(t *testing.T) {
	for text, want := range map[string]wire.Form{
		"json": {}, "avro": {Language: wire.Avro}, "avro:1": {Language: wire.Avro, First: true},
		"protobuf":   {Language: wire.Protobuf},
		"protobuf:1": {Language: wire.Protobuf, First: true},
	} {
		if got, err := wire.Parse(text); err != nil || got != want {
			t.Errorf("%s: %+v, %v", text, got, err)
		}
	}
	for _, text := range []string{"xml", "avro:", "avro:3", "json:1", ":1"} {
		if got, err := wire.Parse(text); err == nil {
			t.Errorf("%s is %+v", text, got)
		}
	}
}
