// Package schema encodes payloads with schemas that can change while old and new programs run. A message has
// the id of its writer's schema. The reader converts the payload to its own schema.
//
//	var payments schema.Registry // connected at the start of main
//
//	var Processed = skald.Event[Payment]{Topic: "payments", Type: "payment.processed", Codec: avro.Codec[Payment](&payments, nil)}
//
// Each schema language has its own package, so that a program links only the languages that it uses:
// schema/avro, schema/protobuf and schema/jsonschema. docs/schemas.md explains how to change a schema.
package schema

import (
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strconv"
)

// The names of the formats, as registries use them.
const (
	Avro     = "AVRO"
	Protobuf = "PROTOBUF"
	JSON     = "JSON"
)

// Schema is the text of a schema, with all schemas that it imports.
type Schema struct {
	Format  string   `json:"format"`
	Text    string   `json:"text"`
	Imports []Import `json:"imports,omitempty"` // each import is after the imports that it needs
}

// Import is a schema that another schema refers to by name. In the registry its subject has the same name.
type Import struct {
	Name  string   `json:"name"`
	Text  string   `json:"text"`
	Needs []string `json:"needs,omitempty"` // names of the imports that it needs
}

// topImports returns the names of the imports that no other import needs.
func (s Schema) topImports() (out []string) {
	below := map[string]bool{}
	for _, i := range s.Imports {
		for _, n := range i.Needs {
			below[n] = true
		}
	}
	for _, i := range s.Imports {
		if !below[i.Name] {
			out = append(out, i.Name)
		}
	}
	return out
}

// definition returns s as JSON. Databases store this form.
func (s Schema) definition() string {
	text, _ := json.Marshal(s) // strings always marshal
	return string(text)
}

// defined parses a stored definition. It returns found=false if the definition is empty or has no text.
// Older versions stored such rows when another server answered in place of the registry.
func defined(id ID, definition string) (s Schema, found bool, err error) {
	if definition == "" {
		return s, false, nil
	}
	if err := json.Unmarshal([]byte(definition), &s); err != nil {
		return s, false, fmt.Errorf("skald_payload_schema, id %v: %w", id, err)
	}
	return s, s.Text != "", nil
}

// ID is the id of a schema in a payload: the number that the registry assigned, or a GUID.
type ID struct {
	Number int32
	GUID   [16]byte // if it is zero, Number is the id
}

// String returns the number, such as "7", or the GUID in the notation of registries.
func (id ID) String() string {
	if id.GUID == [16]byte{} {
		return strconv.Itoa(int(id.Number))
	}
	h := hex.EncodeToString(id.GUID[:])
	return h[:8] + "-" + h[8:12] + "-" + h[12:16] + "-" + h[16:20] + "-" + h[20:]
}

// guidOf parses a GUID. It returns ok=false if the text is not a GUID, or if the GUID is zero.
func guidOf(text string) (out [16]byte, ok bool) {
	if len(text) != 36 || text[8] != '-' || text[13] != '-' || text[18] != '-' || text[23] != '-' {
		return out, false
	}
	n, err := hex.Decode(out[:], []byte(text[:8]+text[9:13]+text[14:18]+text[19:23]+text[24:]))
	return out, err == nil && n == 16 && out != [16]byte{}
}

// Problem is a reason why a reader's schema cannot read payloads of a writer's schema.
type Problem struct {
	Field    string `json:"field"`    // a path, such as "Payment.method"
	Rule     string `json:"rule"`     // such as "reader field has no default"
	Observed string `json:"observed"` // the parts that differ
}

func (p Problem) String() string { return fmt.Sprintf("%s: %s (%s)", p.Field, p.Rule, p.Observed) }

// Format compares schemas of one language, and decodes their payloads.
type Format interface {
	// Name returns Avro, Protobuf or JSON.
	Name() string
	// Problems returns the reasons why reader cannot read payloads of writer, or none. It returns an error if
	// one of the schemas is invalid.
	Problems(reader, writer Schema) ([]Problem, error)
	// Readable returns a payload as JSON. index identifies the message in a Protobuf file.
	Readable(writer Schema, index []int, data []byte) ([]byte, error)
}

// Verifier is a Format that can also check a payload against its schema.
type Verifier interface {
	Verify(s Schema, data []byte) error
}

// Language is a Format for one Go type.
type Language interface {
	Format
	// ContentType returns the content type of a payload without a prefix.
	ContentType() string
	// Own returns the schema of the Go type. For Protobuf it also returns the index of its message.
	Own() (s Schema, index []int, err error)
	// Append encodes v and appends it to dst.
	Append(dst []byte, v any) ([]byte, error)
	// Reader returns a reader for payloads of writer. It returns an error with the reason if this type cannot
	// read them. It is called once for each schema.
	Reader(writer Schema, index []int) (Reader, error)
	// Plain returns a reader for payloads without a schema id. It returns nil if payloads of this language
	// cannot be read without an id.
	Plain() (Reader, error)
}

// Reader decodes a payload without a prefix into v, which is a pointer. It is safe for concurrent use.
type Reader interface {
	Read(data []byte, v any) error
}
