package column

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/skald-go/skald/store"
)

type outside struct {
	// Since must be the first field: the SQL statements of the stores replace null at this position by the
	// time of the database.
	Since   *time.Time `json:"since"`
	Key     Text       `json:"key"`
	Request Text       `json:"request"`
	Outcome Text       `json:"outcome,omitempty"`
	Undo    bool       `json:"undo,omitempty"`
}

// EncodeCall returns c as JSON, or nil if c is nil. If c has no time, the time is null: see outside.Since.
func EncodeCall(c *store.Call) (*string, error) {
	if c == nil {
		return nil, nil
	}
	out := outside{Key: Text(c.Key), Request: Text(c.Request), Outcome: Text(c.Outcome), Undo: c.Undo}
	if since := c.Since.UTC(); !since.IsZero() {
		out.Since = &since
	}
	b, err := json.Marshal(out)
	if err != nil {
		return nil, fmt.Errorf("write call %.40q as JSON: %w", c.Key, err)
	}
	s := string(b)
	return &s, nil
}

// DecodeCall decodes the text of EncodeCall. It does not set Age.
func DecodeCall(s *string) (*store.Call, error) {
	if s == nil {
		return nil, nil
	}
	var in outside
	if err := json.Unmarshal([]byte(*s), &in); err != nil {
		return nil, fmt.Errorf("read call from JSON: %w", err)
	}
	c := &store.Call{Key: string(in.Key), Request: string(in.Request), Outcome: string(in.Outcome),
		Undo: in.Undo}
	if in.Since != nil {
		c.Since = *in.Since
	}
	return c, nil
}

// CallKey returns the value of the SQL expression ->> 'key' for an encoded call with this key.
func CallKey(key string) string {
	b, _ := json.Marshal(Text(key)) // cannot fail for a Text
	if len(b) > 0 && b[0] == '{' {
		return string(b)
	}
	return key
}
