package inbox

import (
	"github.com/skald-go/skald/broker"
	"github.com/skald-go/skald/inbox/internal/exec"
)

// An AttemptSource reads how often a message failed before it came here. The zero value: never.
type AttemptSource struct {
	// Count returns the number of failures. Below zero, or a panic, counts as 0.
	Count func(broker.Delivery) int
	// Field is the path of the JSON field that Count reads, nil: none. A retry topic changes this field in
	// each copy of a message, so the default fingerprint leaves it out: else the copies would be conflicts.
	Field []string
}

// AttemptByHeader reads the last header of this name: a decimal number. Anything else counts as 0.
func AttemptByHeader(name string) AttemptSource {
	return AttemptSource{Count: func(d broker.Delivery) int { return exec.HeaderNumber(name, d) }}
}

// AttemptByField reads a field of a JSON payload, by its path as in ByField: a number, or a string with one.
// Anything else counts as 0. The default fingerprint compares such payloads as JSON, without this field.
func AttemptByField(path ...string) AttemptSource {
	return AttemptSource{Field: path,
		Count: func(d broker.Delivery) int { return exec.FieldNumber(path, d) }}
}

// without returns data for the default fingerprint, without Field.
func (a AttemptSource) without(data []byte) []byte { return exec.Without(data, a.Field) }
