package sqlexec

import (
	"database/sql"
	"encoding/base64"
	"encoding/json"
	"fmt"

	"github.com/skald-go/skald"
)

// Headers encodes headers as text, or NULL if there are none.
func Headers(hs []skald.Header) (any, error) {
	if len(hs) == 0 {
		return nil, nil
	}
	pairs := make([][2]string, len(hs))
	for i, h := range hs {
		pairs[i] = [2]string{h.Name, base64.StdEncoding.EncodeToString(h.Value)}
	}
	text, err := json.Marshal(pairs)
	if err != nil {
		return nil, fmt.Errorf("pack headers: %w", err)
	}
	return string(text), nil
}

// ReadHeaders decodes the text of Headers.
func ReadHeaders(text sql.NullString) ([]skald.Header, error) {
	if !text.Valid {
		return nil, nil
	}
	var pairs [][2]string
	if err := json.Unmarshal([]byte(text.String), &pairs); err != nil {
		return nil, fmt.Errorf("headers: %w", err)
	}
	hs := make([]skald.Header, len(pairs))
	for i, p := range pairs {
		value, err := base64.StdEncoding.DecodeString(p[1])
		if err != nil {
			return nil, fmt.Errorf("header %s: %w", p[0], err)
		}
		hs[i] = skald.Header{Name: p[0], Value: value}
	}
	return hs, nil
}
