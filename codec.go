package skald

import (
	"bytes"
	"context"
	"encoding"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/skald-go/skald/internal/fingerprint"
)

// JSON is the codec of drafts and events that name none.
type JSON struct {
	// Strict refuses members that the struct has no field for. Default: they are ignored, so that a writer
	// may add some.
	Strict bool
}

var _ Codec = JSON{}

// Encode writes v as JSON. A string in v that is not UTF-8 is an error: JSON cannot hold it.
func (JSON) Encode(_ context.Context, m *Message, v any) error {
	data, err := json.Marshal(v)
	texts := fingerprint.Texts{Tag: "json", Own: marshals}
	if err == nil && bytes.Contains(data, []byte(`\ufffd`)) && !texts.In(reflect.ValueOf(v)) {
		err = errBytes
	}
	if err != nil {
		return fmt.Errorf("encode %s as JSON: %w", typeAndID(m), err)
	}
	m.Data, m.ContentType = data, "application/json"
	return nil
}

// Decode reads JSON into v. A string that is not UTF-8, or has half of a surrogate pair, is an error:
// encoding/json would change it. So is null, unless v points to a pointer, a map, a slice or an interface, or
// is a json.Unmarshaler: it would leave v as it is. If v is a struct and has no field for any member of the
// object, that is an error, too: v would stay empty, so the two sides mean different types.
func (c JSON) Decode(_ context.Context, m Message, v any) error {
	if err := c.unmarshal(m.Data, v); err != nil {
		return fmt.Errorf("decode %s as JSON: %w", typeAndID(&m), &jsonError{err})
	}
	if members, none := strange(m.Data, v); none {
		return fmt.Errorf("decode %s as JSON: none of the members %s is a field of %T; do its json tags match what was sent?",
			typeAndID(&m), named(members), reflect.ValueOf(v).Elem().Interface())
	}
	return nil
}

// typeAndID names m in an error. A result has neither, and a foreign message may lack one.
func typeAndID(m *Message) string {
	if text := strings.TrimSpace(m.Type + " " + m.ID); text != "" {
		return text
	}
	return "a value"
}

func (c JSON) unmarshal(data []byte, v any) error {
	if err := fingerprint.CheckJSON(data); err != nil {
		return err
	}
	if string(bytes.TrimSpace(data)) == "null" && !fingerprint.HoldsNull(reflect.TypeOf(v)) {
		return errNull
	}
	if !c.Strict {
		return json.Unmarshal(data, v)
	}
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	if err := d.Decode(v); err != nil {
		return err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return errTrailing
	}
	return nil
}

// marshals reports whether values of t encode themselves. They may have U+FFFD as an escape, too.
func marshals(t reflect.Type) bool {
	return t.Implements(reflect.TypeFor[json.Marshaler]()) ||
		t.Implements(reflect.TypeFor[encoding.TextMarshaler]())
}

var errBytes = errors.New("a string in it is not UTF-8, which JSON cannot hold: make it a []byte, which travels in base64")

var errNull = errors.New("the payload is null, which its type cannot hold: send a value, or decode into a pointer")

var errTrailing = errors.New("something follows the value")

// unknownField is how encoding/json begins to say that a struct has no field of a name.
const unknownField = "json: unknown field "

// strange tells of an object with members, and a struct that is as empty as before, whether the struct has a
// field for none of them. It asks encoding/json itself, one member at a time, and only of a struct that was
// left empty, which costs others nothing.
func strange(data []byte, v any) (members []string, none bool) {
	to := reflect.ValueOf(v)
	for to.Kind() == reflect.Pointer && !to.IsNil() && to.Elem().Kind() == reflect.Pointer {
		// an Event of pointers
		to = to.Elem()
	}
	if to.Kind() != reflect.Pointer || to.IsNil() || !fillable(to.Elem().Type()) || !to.Elem().IsZero() {
		return nil, false
	}
	if _, own := to.Interface().(json.Unmarshaler); own {
		return nil, false
	}
	var object map[string]json.RawMessage
	if json.Unmarshal(data, &object) != nil || len(object) == 0 {
		return nil, false
	}
	for name := range object {
		one, _ := json.Marshal(map[string]any{name: nil}) // of a text it cannot fail
		d := json.NewDecoder(bytes.NewReader(one))
		d.DisallowUnknownFields()
		if err := d.Decode(reflect.New(to.Elem().Type()).Interface()); err == nil ||
			!strings.HasPrefix(err.Error(), unknownField) {
			return nil, false
		}
	}
	return slices.Sorted(maps.Keys(object)), true
}

// fillable tells of a struct that has a field which JSON may fill. One without asks for nothing, whatever was
// sent.
func fillable(t reflect.Type) bool {
	return t.Kind() == reflect.Struct &&
		slices.ContainsFunc(reflect.VisibleFields(t), reflect.StructField.IsExported)
}

// named lists a few names, each cut short.
func named(names []string) string {
	const most = 5
	var out []string
	for _, name := range names[:min(len(names), most)] {
		out = append(out, fmt.Sprintf("%.40q", name))
	}
	if len(names) > most {
		out = append(out, fmt.Sprintf("and %d more", len(names)-most))
	}
	return strings.Join(out, ", ")
}

// A jsonError tells why a payload is not what it should be, without what stands in it: errors are logged, and
// read by more people than payloads are.
type jsonError struct{ err error }

func (e *jsonError) Error() string {
	var kind *json.UnmarshalTypeError
	var syntax *json.SyntaxError
	switch {
	case errors.As(e.err, &kind):
		what, _, _ := strings.Cut(kind.Value, " ") // "number 4711"
		where := "the payload"
		if kind.Field != "" {
			where = "the field " + kind.Field
		}
		return fmt.Sprintf("%s for %s, which is of type %v (at byte %d)", what, where, kind.Type, kind.Offset)
	case errors.Is(e.err, errTrailing), errors.Is(e.err, errNull), errors.Is(e.err, fingerprint.ErrNotText):
		return e.err.Error()
	case strings.HasPrefix(e.err.Error(), unknownField): // a name, no value
		return fmt.Sprintf("there is no field for the member %.80s",
			strings.TrimPrefix(e.err.Error(), unknownField))
	case errors.As(e.err, &syntax):
		return fmt.Sprintf("%v (at byte %d)", syntax, syntax.Offset) // which quotes a letter at most
	}
	// *time.ParseError, say, quotes all of it
	return fmt.Sprintf("a value that its own type refuses with a %T", e.err)
}

func (e *jsonError) Unwrap() error { return e.err }

func codecOr(c Codec) Codec {
	if c == nil {
		return JSON{}
	}
	return c
}
