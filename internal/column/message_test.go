package column

import (
	"reflect"
	"strconv"
	"testing"
	"time"

	"github.com/skald-go/skald"
)

// TestMessagesComeBack checks that each field is decoded unchanged, including future ones, for any bytes.
func TestMessagesComeBack(t *testing.T) {
	for _, odd := range []string{"", "größe \"\\", "\xff\xfe", "a\x00b", `{"bytes":"AA=="}`} {
		var m skald.Message
		v := reflect.ValueOf(&m).Elem()
		for i := range v.NumField() {
			switch f := v.Field(i).Addr().Interface().(type) {
			case *string:
				*f = odd + strconv.Itoa(i)
			case *[]byte:
				*f = []byte(odd + strconv.Itoa(i))
			case *time.Time:
				*f = time.Date(2026, 2, 3, 4, 5, 6, 789_000, time.UTC)
			case *[]skald.Header:
				*f = []skald.Header{{Name: odd, Value: []byte(odd)}, {Name: "n"},
					{Name: "n", Value: []byte{}}}
			default:
				t.Fatalf("a message has a field of type %T, which is not encoded", f)
			}
		}
		for _, m := range []skald.Message{m, {Key: []byte{}, Data: []byte{}}, {}} {
			text, err := EncodeMessage(&m)
			if err != nil {
				t.Fatal(err)
			}
			if got, err := DecodeMessage(text); err != nil || !reflect.DeepEqual(got, m) {
				t.Errorf("%+v\nis decoded as\n%+v, %v", m, got, err)
			}
			for _, beside := range [][]byte{m.Key, []byte("another key")} {
				if m.Key == nil {
					beside = nil
				}
				envelope, err := Envelope(&m, beside)
				if err != nil {
					t.Fatal(err)
				}
				if got, err := OpenEnvelope(envelope, beside,
					m.Data); err != nil || !reflect.DeepEqual(got, m) {
					t.Errorf("%+v\nis decoded from its envelope as\n%+v, %v", m, got, err)
				}
			}
		}
	}
}

// TestTimesComeBack checks that a time of any year and offset is preserved.
func TestTimesComeBack(t *testing.T) {
	for _, at := range []time.Time{
		{}, time.Date(2026, 2, 3, 4, 5, 6, 7, time.FixedZone("", 3600)),
		time.Date(9999, 12, 31, 23, 59, 59, 0, time.FixedZone("", -23*3600)),
		time.Date(2026, 2, 3, 4, 5, 6, 7, time.FixedZone("", 99*3600)),
		time.Date(58865, 1, 1, 0, 0, 0, 1, time.UTC), time.Date(-5, 1, 1, 0, 0, 0, 1, time.UTC),
	} {
		text, err := EncodeMessage(&skald.Message{Time: at})
		if err != nil {
			t.Errorf("%v: %v", at, err)
			continue
		}
		if got, err := DecodeMessage(text); err != nil || !got.Time.Equal(at) {
			t.Errorf("%v comes back as %v, %v", at, got.Time, err)
		}
	}
}

func TestDecodeRefusesOtherText(t *testing.T) {
	for _, text := range []string{"", "{", `{"id":{"bytes":"!"}}`, `{"id":[]}`} {
		if _, err := DecodeMessage(text); err == nil {
			t.Errorf("%q was read", text)
		}
	}
}

// TestHandlesAreNames checks that a handle identifies its name, and that the hash of a handle is the one in
// it.
func TestHandlesAreNames(t *testing.T) {
	for _, name := range []string{"plain", "sha256:abc", "nul\x00", HashName("long"),
		Handle(HashName("long"))} {
		hash := HashName(name)
		shown := Handle(hash)
		if HashName(shown) != hash || !IsHandle(shown) || !Names(shown, name) ||
			!Names(name, name) || !Names(shown, shown) {
			t.Errorf("%q is shown as %q, whose hash is %q and not %q", name, shown, HashName(shown), hash)
		}
		if Names(shown, "another") || Names("another", name) ||
			Handle(name) == Handle("another") {
			t.Errorf("%q identifies another name, too", shown)
		}
	}
	for _, plain := range []string{"plain", "", "sha256", "sha256:stored:", "sha256:stored:12"} {
		if IsHandle(plain) || Handle("plain") != "plain" {
			t.Errorf("%q is a handle", plain)
		}
	}
}
