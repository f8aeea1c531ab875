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

// JSON is the default codec of drafts and events.
type JSON struct {
	// Strict makes Decode refuse members without a field in the struct. By default Decode ignores them, so
	// that a writer may add members.
	Strict bool
}

var _ Codec = JSON{}

// Encode encodes v as JSON. It returns an error if a string in v is not UTF-8, because JSON cannot represent
// it.
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

// Decode decodes JSON into v. It returns an error in these cases, in which encoding/json would not:
//   - A string is not UTF-8, or has half of a surrogate pair. encoding/json would change the string.
//   - The payload is null, and v does not point to a pointer, a map, a slice or an interface, and is no
//     json.Unmarshaler. encoding/json would leave v unchanged.
//   - v points to a struct without a field for any member of the object. The struct would stay empty:
//     probably the writer and the reader use different types.
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

// typeAndID names m in an error. The result of a saga step has no type and no ID, and a message of another
// publisher may lack one of them.
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

// marshals reports whether values of t encode themselves. Their JSON may contain U+FFFD on purpose.
func marshals(t reflect.Type) bool {
	return t.Implements(reflect.TypeFor[json.Marshaler]()) ||
		t.Implements(reflect.TypeFor[encoding.TextMarshaler]())
}

var errBytes = errors.New("a string in it is not UTF-8, which JSON cannot hold: make it a []byte, which travels in base64")

var errNull = errors.New("the payload is null, which its type cannot hold: send a value, or decode into a pointer")

var errTrailing = errors.New("something follows the value")

// unknownField is the begin of the error of encoding/json for a member without a field.
const unknownField = "json: unknown field "

// strange returns true and the members if data is an object, and the struct that v points to has no field for
// any member. It lets encoding/json check one member at a time. It does so only if decoding left the struct
// empty, so other payloads cost nothing.
func strange(data []byte, v any) (members []string, none bool) {
	to := reflect.ValueOf(v)
	for to.Kind() == reflect.Pointer && !to.IsNil() && to.Elem().Kind() == reflect.Pointer {
		// v is a pointer to a pointer for an Event of pointers.
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
		one, _ := json.Marshal(map[string]any{name: nil}) // cannot fail for a text
		d := json.NewDecoder(bytes.NewReader(one))
		d.DisallowUnknownFields()
		if err := d.Decode(reflect.New(to.Elem().Type()).Interface()); err == nil ||
			!strings.HasPrefix(err.Error(), unknownField) {
			return nil, false
		}
	}
	return slices.Sorted(maps.Keys(object)), true
}

// fillable reports whether t is a struct with exported fields. A struct without such fields accepts any
// object.
func fillable(t reflect.Type) bool {
	return t.Kind() == reflect.Struct &&
		slices.ContainsFunc(reflect.VisibleFields(t), reflect.StructField.IsExported)
}

// named lists at most five names, each with at most 40 characters.
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

// jsonError is the reason why a payload cannot be decoded. Its text does not quote values of the payload,
// because more people may read logs than payloads.
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
		return fmt.Sprintf("%v (at byte %d)", syntax, syntax.Offset) // quotes at most one character
	}
	// Other errors, such as *time.ParseError, quote the whole value.
	return fmt.Sprintf("a value that its own type refuses with a %T", e.err)
}

func (e *jsonError) Unwrap() error { return e.err }

func codecOr(c Codec) Codec {
	if c == nil {
		return JSON{}
	}
	return c
}
