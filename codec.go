package skald

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
)

// JSON is the codec of drafts and events that name none.
type JSON struct{}

var _ Codec = JSON{}

// Encode writes v as JSON.
func (JSON) Encode(_ context.Context, m *Message, v any) error {
	data, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("encode %s as JSON: %w", m.Type, err)
	}
	m.Data, m.ContentType = data, "application/json"
	return nil
}

// Decode reads JSON into v.
func (JSON) Decode(_ context.Context, m Message, v any) error {
	if err := json.Unmarshal(m.Data, v); err != nil {
		return fmt.Errorf("decode %s %s as JSON: %w", m.Type, m.ID, &jsonError{err})
	}
	return nil
}

// A jsonError tells why a payload is not what it should be, without what stands in it: errors are logged, and read by
// more people than payloads are.
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
	case errors.As(e.err, &syntax):
		return fmt.Sprintf("%v (at byte %d)", syntax, syntax.Offset) // which quotes a letter at most
	}
	return fmt.Sprintf("a value that its own type refuses with a %T", e.err) // *time.ParseError, say, quotes all of it
}

func (e *jsonError) Unwrap() error { return e.err }

func codecOr(c Codec) Codec {
	if c == nil {
		return JSON{}
	}
	return c
}
