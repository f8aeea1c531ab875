package envelope_test

import (
	"reflect"
	"testing"
	"time"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/internal/envelope"
)

func TestEveryFieldComesBackByteForByte(t *testing.T) {
	var m skald.Message
	v := reflect.ValueOf(&m).Elem()
	for i := range v.NumField() {
		if v.Field(i).Kind() == reflect.String {
			v.Field(i).SetString(v.Type().Field(i).Name + "ö\x00\xff\\'\n<")
		}
	}
	m.Time = time.Unix(1_700_000_000, 123_456_789).UTC()
	m.Headers = []skald.Header{{Name: "a", Value: []byte{0, 0xff}}, {Name: "b"}, {Name: "\xfe", Value: []byte{}}}
	for _, want := range []skald.Message{m, {}, {ID: "1", Topic: "t"}} {
		b, err := envelope.Encode(&want)
		if err != nil {
			t.Fatal(err)
		}
		var got skald.Message
		if err := envelope.Decode(b, &got); err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%+v came back as %+v from %s", want, got, b)
		}
	}
}

func TestWhatIsNoEnvelopeIsAnError(t *testing.T) {
	for _, text := range []string{"", "{", `{"id":["!"]}`, `{"id":[]}`} {
		if envelope.Decode([]byte(text), &skald.Message{}) == nil {
			t.Errorf("%q was read", text)
		}
	}
}
