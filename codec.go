package skald

import (
	"context"
	"encoding/json"
	"fmt"
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
		return fmt.Errorf("decode %s %s as JSON: %w", m.Type, m.ID, err)
	}
	return nil
}

func codecOr(c Codec) Codec {
	if c == nil {
		return JSON{}
	}
	return c
}
