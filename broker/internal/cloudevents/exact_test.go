package cloudevents_test

import (
	"errors"
	"reflect"
	"testing"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/broker"
	"github.com/skald-go/skald/broker/internal/cloudevents"
)

// A connector that reads the outbox writes all headers of a message into one, and NULL columns as empty
// headers.
func TestHeadersOfAConnector(t *testing.T) {
	t.Parallel()
	codec := cloudevents.New(styles()["exact"])
	for list, want := range map[string][]skald.Header{
		"": nil,
		`[["x", "AP8="], ["x", ""], ["b", "YQ=="]]`: {{Name: "x", Value: []byte{0, 255}},
			{Name: "x", Value: []byte{}}, {Name: "b", Value: []byte("a")}},
		`not a list`: {{Name: "Skald-Headers", Value: []byte("not a list")}}, // from another program
	} {
		w := &wire{}
		for _, h := range [][2]string{{"ce_specversion", "1.0"}, {"ce_id", "7"}, {"ce_subject", ""},
			{"ce_partitionkey", ""}, {"Skald-Headers", list}} {
			w.Text(h[0], h[1])
		}
		var got skald.Message
		if fault := cloudevents.Decode(codec, w.list, at, &got, nil); fault != nil {
			t.Error(fault)
		}
		if got.ID != "7" || len(got.Headers) != len(want) || len(want) > 0 &&
			!reflect.DeepEqual(got.Headers, want) {
			t.Errorf("%s: %+v, want headers %+v", list, got, want)
		}
	}
}

// A message's own headers stay its own, even with names of the envelope.
func TestOwnHeadersLikeTheEnvelope(t *testing.T) {
	t.Parallel()
	m := skald.Message{ID: "7", Source: "/s", Type: "t", Topic: "t", Key: []byte("k"), ContentType: "a/b",
		Data: []byte("x")}
	for _, h := range []skald.Header{
		{Name: "ce_specversion", Value: []byte("0.3")}, {Name: "ce_specversion", Value: []byte("1.0")},
		{Name: "ce_id", Value: []byte("8")},
		{Name: "ce_subject", Value: []byte("s")}, {Name: "ce_time", Value: []byte("soon")},
		{Name: "ce_partitionkey", Value: []byte("k")},
		{Name: "content-type", Value: []byte("c/d")}, {Name: "Skald-Headers", Value: []byte("[]")},
		{Name: "Skald-Key", Value: []byte("1")},
	} {
		m.Headers = []skald.Header{{Name: "a", Value: []byte("1")}, h, {Name: "a", Value: []byte("2")}}
		if got := travel(t, styles()["exact"], m); !reflect.DeepEqual(got, m) {
			t.Errorf("%+v\ncomes back as\n%+v", m, got)
		}
	}
	// The first header counts, as in messages of an older version.
	var got skald.Message
	hs := []skald.Header{{Name: "ce_specversion", Value: []byte("1.0")}, {Name: "ce_id", Value: []byte("7")},
		{Name: "ce_specversion", Value: []byte("0.3")}}
	if fault := cloudevents.Decode(cloudevents.New(styles()["exact"]), hs, at, &got, nil); fault != nil ||
		got.ID != "7" || !reflect.DeepEqual(got.Headers, hs[2:]) {
		t.Errorf("%v, %+v", fault, got)
	}
}

// With a mapped envelope, an own CloudEvents header is sent if it has the same value, and refused if a
// reader would decode another message.
func TestOwnHeadersLikeAnotherEnvelope(t *testing.T) {
	t.Parallel()
	m := skald.Message{ID: "7", Source: "/s", Type: "t", Topic: "t", Key: []byte("k"), Data: []byte("{}")}
	for header, refused := range map[[2]string]bool{
		{"ce_id", "7"}: false, {"ce_id", "8"}: true, {"ce_type", "u"}: true, {"ce_specversion", "1.0"}: false,
		{"ce_specversion", "0.3"}: true,
		{"ce_time", "soon"}:       true, {"ce_other", "x"}: false, {"Skald-Headers", "[]"}: true,
		{"content-type", "a/b"}: false,
	} {
		for _, e := range []broker.Envelope{{}, {ID: "header:i"}} {
			m.Headers = []skald.Header{{Name: header[0], Value: []byte(header[1])}}
			codec, err := cloudevents.New(styles()["exact"]).For(&e)
			if err != nil {
				t.Fatal(err)
			}
			w := &wire{}
			if _, err := codec.Encode(&m, w); errors.Is(err, cloudevents.ErrCannotCarry) != refused ||
				!refused && len(w.list) == 0 {
				t.Errorf("%v: %v", header, err)
			}
		}
	}
}
