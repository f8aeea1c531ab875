package exec

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"

	"github.com/skald-go/skald/broker"
	"github.com/skald-go/skald/internal/fingerprint"
)

// field is a text that is not empty, or a number as it is written, in a JSON payload.
func field(data []byte, path []string) (string, error) {
	at := json.RawMessage(data)
	for _, name := range path {
		var fields map[string]json.RawMessage
		if err := json.Unmarshal(at, &fields); err != nil {
			return "", fmt.Errorf("look for the field %s: %w", name, err)
		}
		at = fields[name]
	}
	if err := fingerprint.CheckJSON(at); err != nil {
		return "", fmt.Errorf("read the field %v: %w", path, err)
	}
	var text string
	if err := json.Unmarshal(at, &text); err == nil && text != "" {
		return text, nil
	}
	var number json.Number
	if err := json.Unmarshal(at, &number); err == nil && number != "" {
		return number.String(), nil
	}
	return "", fmt.Errorf("the field %v is neither a text nor a number", path)
}

// Without returns data for a fingerprint: without the field at path, in a canonical form, so that a copy that
// was decoded and encoded again compares equal. Data that is no JSON object, or not text, is returned as it
// is.
func Without(data []byte, path []string) []byte {
	if len(path) == 0 || fingerprint.CheckJSON(data) != nil {
		return data
	}
	var object map[string]any
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	if err := d.Decode(&object); err != nil || d.More() {
		return data
	}
	prune(object, path)
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

// HeaderNumber is the decimal number in the last header of that name; 0: there is none.
func HeaderNumber(name string, d broker.Delivery) int {
	for _, h := range slices.Backward(d.Headers) {
		if h.Name == name {
			n, _ := strconv.Atoi(string(h.Value)) // 0 where it is no number
			return n
		}
	}
	return 0
}

// FieldNumber is the number in a field of a JSON payload, or in a text there; 0: there is none.
func FieldNumber(path []string, d broker.Delivery) int {
	text, err := field(d.Data, path)
	if err != nil {
		return 0
	}
	n, _ := strconv.Atoi(text) // 0 where it is no number
	return n
}
