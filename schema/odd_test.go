package schema_test

import (
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/sr"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/failure"
	"github.com/skald-go/skald/schema"
	"github.com/skald-go/skald/schema/avro"
	"github.com/skald-go/skald/store/memstore"
)

// oddity is a registry behind something else that answers in its place, until well is true.
type oddity struct {
	well atomic.Bool
	url  string
}

func odd(t *testing.T, answer http.HandlerFunc) *oddity {
	t.Helper()
	o := &oddity{}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case !o.well.Load():
			answer(w, r)
		case r.Method == http.MethodPost:
			_, _ = fmt.Fprintf(w, `{"subject":"x","id":7,"version":1,"schema":%q}`, avro1)
		default:
			_, _ = fmt.Fprintf(w, `{"schema":%q}`, avro1)
		}
	}))
	t.Cleanup(s.Close)
	o.url = s.URL
	return o
}

func (o *oddity) codec(t *testing.T, db *memstore.Store) *schema.Codec {
	t.Helper()
	client, err := sr.NewClient(sr.URLs(o.url))
	if err != nil {
		t.Fatal(err)
	}
	var r schema.Registry
	if err := r.Connect(schema.Config{Client: client, Store: db,
		Logger: slog.New(slog.DiscardHandler)}); err != nil {
		t.Fatal(err)
	}
	return avro.CodecOf[payment1](&r, avro1, nil)
}

func says(text string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, text) }
}

// An answer that does not come from a registry is not stored, neither in memory nor in the database.
func TestOddAnswers(t *testing.T) {
	t.Parallel()
	lost := func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.URL.Path, "/schemas/ids") {
			says(fmt.Sprintf(`{"schema":%q,"references":[{"name":"a.B","subject":"a.B","version":1}]}`,
				avro1))(w, r)
			return
		}
		w.WriteHeader(http.StatusNotFound)
		says(`{"error_code":40402,"message":"Version 1 not found."}`)(w, r)
	}
	for name, c := range map[string]struct {
		answer http.HandlerFunc
		read   failure.Class
		write  bool // the writer also succeeds
	}{
		"an empty object": {says(`{}`), failure.Outage, false},
		"maintenance":     {says(`{"message":"under maintenance"}`), failure.Outage, false},
		"null":            {says(`null`), failure.Outage, false},
		"a broken schema": {says(`{"schema":"{\"type\":\"rec","id":9,"version":1}`),
			failure.UnknownVersion, true},
		"another format": {
			says(`{"schema":"syntax = \"proto3\";","schemaType":"PROTOBUF","id":9,"version":1}`),
			failure.UnknownVersion, true},
		"a negative id":          {says(`{"schema":"","id":-5,"version":1}`), failure.Outage, false},
		"an id above 31 bits":    {says(`{"schema":"","id":4294967303,"version":1}`), failure.Outage, false},
		"a reference is deleted": {lost, failure.UnknownVersion, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o, db := odd(t, c.answer), memstore.New(nil)
			m := skald.Message{ID: "1", Data: []byte("\x00\x00\x00\x00\x07\x04o1\x0e")}
			reader, writer := o.codec(t, db), o.codec(t, memstore.New(nil))
			var v payment1
			if err := reader.Decode(t.Context(), m, &v); failure.Of(err) != c.read {
				t.Errorf("read: %v is of class %q, want %q", err, failure.Of(err), c.read)
			}
			if err := writer.Encode(t.Context(), &skald.Message{}, v); (err == nil) != c.write ||
				err != nil && failure.Of(err) != failure.Outage && name != "a reference is deleted" {
				t.Errorf("write: %v", err)
			}
			if kept, err := db.PayloadSchema(t.Context(), "", "7"); err != nil || kept != "" {
				t.Errorf("kept is %q, %v", kept, err)
			}
			o.well.Store(true)
			decodes(t, reader, m)
			if err := writer.Encode(t.Context(), &m, v); err != nil {
				t.Errorf("write when the registry is well: %v", err)
			}
			if kept, err := db.PayloadSchema(t.Context(), "", "7"); err != nil ||
				!strings.Contains(kept, "PaymentProcessed") {
				t.Errorf("kept is %q, %v", kept, err)
			}
		})
	}
}

// A registry that does not answer is an outage for writer and reader, and is asked again later.
func TestSlowRegistry(t *testing.T) {
	t.Parallel()
	ended := make(chan struct{})
	o := odd(t, func(_ http.ResponseWriter, r *http.Request) {
		select {
		case <-r.Context().Done():
		case <-ended:
		}
	})
	t.Cleanup(func() { close(ended) }) // before the server waits for its handlers
	client, err := sr.NewClient(sr.URLs(o.url))
	if err != nil {
		t.Fatal(err)
	}
	var r schema.Registry
	if err := r.Connect(schema.Config{Client: client, Timeout: 200 * time.Millisecond,
		Logger: slog.New(slog.DiscardHandler)}); err != nil {
		t.Fatal(err)
	}
	c, v := avro.CodecOf[payment1](&r, avro1, &schema.Options{Place: schema.InPrefix}), payment1{"o1", 7}
	if err := c.Encode(t.Context(), &skald.Message{Topic: "payments"}, v); !failure.IsOutage(err) {
		t.Errorf("a writer: %v", err)
	}
	m := skald.Message{Data: []byte("\x00\x00\x00\x00\x07\x04o1\x0e")}
	if err := c.Decode(t.Context(), m, &v); !failure.IsOutage(err) {
		t.Errorf("a reader: %v", err)
	}
	o.well.Store(true)
	decodes(t, c, m)
}

// decodes waits until c can decode m.
func decodes(t *testing.T, c *schema.Codec, m skald.Message) {
	t.Helper()
	end := time.After(time.Minute)
	for tick := time.NewTicker(20 * time.Millisecond); ; {
		var v payment1
		err := c.Decode(t.Context(), m, &v)
		if err == nil && v.Order == "o1" {
			return
		}
		select {
		case <-tick.C:
		case <-end:
			t.Fatalf("%+v, %v", v, err)
		}
	}
}

// A row that an older version stored after such an answer is ignored.
func TestKeptOddAnswer(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{"no text": `{"format":"AVRO","text":""}`,
		"no schema": `{"format":"AVRO","text":"{"}`} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o, db := odd(t, says(`{}`)), memstore.New(nil)
			if err := db.KeepPayloadSchema(t.Context(), "", "7", text); err != nil {
				t.Fatal(err)
			}
			o.well.Store(true)
			decodes(t, o.codec(t, db), skald.Message{Data: []byte("\x00\x00\x00\x00\x07\x04o1\x0e")})
		})
	}
}

// A process that starts no longer writes a version that the registry has soft-deleted. Its payloads stay
// readable by number. They stay readable by GUID if the database has stored the schema: the test's registry
// hides the GUID. Without the schema the message waits as one of a later build.
func TestSoftlyDeleted(t *testing.T) {
	for _, place := range []schema.Place{schema.InPrefix, schema.InHeader} {
		b, db := newBed(t), memstore.New(nil)
		o := &schema.Options{Place: place}
		warm := avro.CodecOf[payment1](b.registry(t, nil), avro1, o)
		m := written(t, warm, payment1{"o1", 7})
		reads := func(r *schema.Registry) error {
			var v payment1
			err := avro.CodecOf[payment1](r, avro1, nil).Decode(t.Context(), m, &v)
			if err == nil && v.Amount != 7 {
				err = fmt.Errorf("it is %+v", v)
			}
			return err
		}
		if err := reads(b.registry(t, db)); err != nil {
			t.Fatal(err)
		}
		client := b.client(t)
		subjects, err := client.Subjects(t.Context())
		if err != nil || len(subjects) != 1 {
			t.Fatal(subjects, err)
		}
		if err := client.DeleteSchema(t.Context(), subjects[0], 1, sr.SoftDelete); err != nil {
			t.Fatal(err)
		}
		if err := reads(b.registry(t, db)); err != nil {
			t.Errorf("%v: a reader whose database has the schema: %v", place, err)
		}
		if err := reads(b.registry(t, nil)); (err != nil) != (place == schema.InHeader) ||
			failure.IsOutage(err) {
			t.Errorf("%v: a reader that has never seen the schema: %v", place, err)
		}
		if later := written(t, warm, payment1{"o1", 7}); !reflect.DeepEqual(later, m) {
			t.Errorf("%v: a writer that goes on: %v, was %v", place, later, m)
		}
		var cold schema.Registry
		if err := cold.Connect(schema.Config{Client: client}); err != nil {
			t.Fatal(err)
		}
		err = avro.CodecOf[payment1](&cold, avro1, o).Encode(t.Context(),
			&skald.Message{Topic: "payments", Type: "payment.processed"}, payment1{})
		if err == nil || failure.IsOutage(err) || !strings.Contains(err.Error(), "skald schema push") {
			t.Errorf("%v: a writer that starts: %v", place, err)
		}
		m = written(t, avro.CodecOf[payment1](b.registry(t, nil), avro1, o), payment1{"o1", 7})
		if err := reads(b.registry(t, nil)); err != nil {
			t.Errorf("%v: a writer that registers: %v", place, err)
		}
	}
}
