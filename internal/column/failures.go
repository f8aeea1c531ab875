package column

import (
	"encoding/json"
	"time"

	"github.com/skald-go/skald/store"
)

const (
	maxFailure = 300 // limits the bytes of the error of one failure
	maxHost    = 255 // limits the bytes of the host of one failure
)

// oneFailure is an item of the column failures.
type oneFailure struct {
	At   instant `json:"at"`
	Why  Text    `json:"error"`
	Host Text    `json:"host"`
}

// ClipFailures returns a copy of the last store.MaxFailures failures, with their texts cut to the maximum
// length.
func ClipFailures(all []store.Failure) (out []store.Failure) {
	for _, f := range all[max(0, len(all)-store.MaxFailures):] {
		out = append(out, store.Failure{At: f.At.UTC(), Why: Clip(f.Why, maxFailure),
			Host: Clip(f.Host, maxHost)})
	}
	return out
}

// EncodeFailures returns the last failures as JSON, or "" without failures.
func EncodeFailures(all []store.Failure) string {
	if len(all) == 0 {
		return ""
	}
	out := []oneFailure{}
	for _, f := range ClipFailures(all) {
		out = append(out, oneFailure{instant(f.At), Text(f.Why), Text(f.Host)})
	}
	b, _ := json.Marshal(out) // cannot fail for these types
	return string(b)
}

// DecodeFailures decodes the text of EncodeFailures. It returns nil for an invalid text, because a message
// can be handled without the list of its failures.
func DecodeFailures(s string) (out []store.Failure) {
	var in []oneFailure
	if s == "" || json.Unmarshal([]byte(s), &in) != nil {
		return nil
	}
	for _, f := range in {
		out = append(out, store.Failure{At: time.Time(f.At).UTC(), Why: string(f.Why), Host: string(f.Host)})
	}
	return out
}
