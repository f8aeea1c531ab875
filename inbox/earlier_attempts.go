package inbox

import (
	"bytes"
	"encoding/json"
	"slices"
	"strconv"

	"github.com/skald-go/skald/broker"
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
	return AttemptSource{Count: func(d broker.Delivery) int {
		for _, h := range slices.Backward(d.Headers) {
			if h.Name == name {
				n, _ := strconv.Atoi(string(h.Value)) // 0 where it is no number
				return n
			}
		}
		return 0
	}}
}

// AttemptByField reads a field of a JSON payload, by its path as in ByField: a number, or a string with one.
// Anything else counts as 0. The default fingerprint compares such payloads as JSON, without this field.
func AttemptByField(path ...string) AttemptSource {
	return AttemptSource{Field: path, Count: func(d broker.Delivery) int {
		text, err := field(d.Data, path)
		if err != nil {
			return 0
		}
		n, _ := strconv.Atoi(text) // 0 where it is no number
		return n
	}}
}

// without returns data for the default fingerprint: without Field, in a canonical form, so that a copy that
// was decoded and encoded again compares equal. Data that is no JSON object is returned as it is.
func (a AttemptSource) without(data []byte) []byte {
	if len(a.Field) == 0 {
		return data
	}
	var object map[string]any
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	if err := d.Decode(&object); err != nil || d.More() {
		return data
	}
	prune(object, a.Field)
	canonical, err := json.Marshal(object)
	if err != nil {
		return data
	}
	return canonical
}

// prune deletes the field at path, and the objects on the way that have no other field: the original may lack
// them.
func prune(object map[string]any, path []string) {
	if len(path) > 1 {
		inner, ok := object[path[0]].(map[string]any)
		if !ok {
			return
		}
		if prune(inner, path[1:]); len(inner) > 0 {
			return
		}
	}
	delete(object, path[0])
}
