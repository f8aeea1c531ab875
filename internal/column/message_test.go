package column

import (
	"reflect"
	"strconv"
	"testing"
	"time"

	"github.com/skald-go/skald"
)

// Every field comes back, those of the future too, whatever bytes are in it.
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
				t.Fatalf("a message has a field of type %T, which is not kept", f)
			}
		}
		for _, m := range []skald.Message{m, {Key: []byte{}, Data: []byte{}}, {}} {
			text, err := EncodeMessage(&m)
			if err != nil {
				t.Fatal(err)
			}
			if got, err := DecodeMessage(text); err != nil || !reflect.DeepEqual(got, m) {
				t.Errorf("%+v\ncomes back as\n%+v, %v", m, got, err)
			}
			for _, beside := range [][]byte{m.Key, []byte("what stands for it")} {
				if m.Key == nil {
					beside = nil
				}
				envelope, err := Envelope(&m, beside)
				if err != nil {
					t.Fatal(err)
				}
				if got, err := OpenEnvelope(envelope, beside,
					m.Data); err != nil || !reflect.DeepEqual(got, m) {
					t.Errorf("%+v\ncomes out of its envelope as\n%+v, %v", m, got, err)
				}
			}
		}
	}
}

// A time of any year and offset is kept.
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

func TestWhatIsNoMessageIsAnError(t *testing.T) {
	for _, text := range []string{"", "{", `{"id":{"bytes":"!"}}`, `{"id":[]}`} {
		if _, err := DecodeMessage(text); err == nil {
			t.Errorf("%q was read", text)
		}
	}
}

// A name that is told by its handle is that name, and the hash of a handle is the one in it.
func TestHandlesAreNames(t *testing.T) {
	for _, name := range []string{"plain", "sha256:abc", "nul\x00", HashName("long"),
		Handle(HashName("long"))} {
		hash := HashName(name)
		told := Handle(hash)
		if HashName(told) != hash || !IsHandle(told) || !Names(told, name) ||
			!Names(name, name) || !Names(told, told) {
			t.Errorf("%q is told as %q, which is %q and not %q", name, told, HashName(told), hash)
		}
		if Names(told, "another") || Names("another", name) ||
			Handle(name) == Handle("another") {
			t.Errorf("%q is another's name, too", told)
		}
	}
	for _, plain := range []string{"plain", "", "sha256", "sha256:stored:", "sha256:stored:12"} {
		if IsHandle(plain) || Handle("plain") != "plain" {
			t.Errorf("%q is a handle", plain)
		}
	}
}
