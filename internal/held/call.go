package held

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/skald-go/skald/store"
)

type outside struct {
	Key     Text      `json:"key"`
	Request Text      `json:"request"`
	Since   time.Time `json:"since"`
	Outcome Text      `json:"outcome,omitempty"`
	Undo    bool      `json:"undo,omitempty"`
}

// EncodeCall is c in JSON; nil for none.
func EncodeCall(c *store.Call) (*string, error) {
	if c == nil {
		return nil, nil
	}
	b, err := json.Marshal(outside{Text(c.Key), Text(c.Request), c.Since.UTC(), Text(c.Outcome), c.Undo})
	if err != nil {
		return nil, fmt.Errorf("write call %.40q as JSON: %w", c.Key, err)
	}
	s := string(b)
	return &s, nil
}

// DecodeCall reads what EncodeCall wrote.
func DecodeCall(s *string) (*store.Call, error) {
	if s == nil {
		return nil, nil
	}
	var in outside
	if err := json.Unmarshal([]byte(*s), &in); err != nil {
		return nil, fmt.Errorf("read call from JSON: %w", err)
	}
	return &store.Call{Key: string(in.Key), Request: string(in.Request), Since: in.Since, Outcome: string(in.Outcome), Undo: in.Undo}, nil
}

// CallKey is what ->> 'key' of an encoded call reads, in a statement, where that is its key.
func CallKey(key string) string {
	b, _ := json.Marshal(Text(key)) // of a text, or of bytes in base64: it cannot fail
	if len(b) > 0 && b[0] == '{' {
		return string(b)
	}
	return key
}
