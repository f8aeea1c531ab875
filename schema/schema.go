// Package schema gives payloads a schema that can change while old and new programs run: the writer's schema
// travels by its id, and the reader reads what was written by it as what the reader declares.
//
//	var payments schema.Registry // connected at the start of main
//
//	var Processed = skald.Event[Payment]{Topic: "payments", Type: "payment.processed", Codec: avro.Codec[Payment](&payments, nil)}
//
// The languages are in folders of their own, so that a program links only what it uses: schema/avro,
// schema/protobuf, schema/jsonschema. docs/schemas.md tells how schemas are changed.
package schema

import (
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strconv"
)

// The formats, by the names that registries have for them.
const (
	Avro     = "AVRO"
	Protobuf = "PROTOBUF"
	JSON     = "JSON"
)

// Schema is a text with all that it refers to.
type Schema struct {
	Format  string   `json:"format"`
	Text    string   `json:"text"`
	Imports []Import `json:"imports,omitempty"` // each after those that it needs
}

// Import is a schema that another one refers to by name. Registries keep it as a subject of that name.
type Import struct {
	Name  string   `json:"name"`
	Text  string   `json:"text"`
	Needs []string `json:"needs,omitempty"` // names of imports
}

// needs are the imports that no other import needs.
func (s Schema) needs() (out []string) {
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

// definition is a schema as it is kept in a database.
func (s Schema) definition() string {
	text, _ := json.Marshal(s) // of texts it cannot fail
	return string(text)
}

// defined is the schema of a definition that is kept; false: there is none, or one without a text, which
// older versions kept where something else answered for the registry.
func defined(id ID, definition string) (s Schema, there bool, err error) {
	if definition == "" {
		return s, false, nil
	}
	if err := json.Unmarshal([]byte(definition), &s); err != nil {
		return s, false, fmt.Errorf("skald_payload_schema, id %v: %w", id, err)
	}
	return s, s.Text != "", nil
}

// ID is how a payload names its schema: the number that the registry gave it, or its GUID.
type ID struct {
	Number int32
	GUID   [16]byte // not zero: the GUID names it
}

// String is "7", or a GUID as registries write it.
func (id ID) String() string {
	if id.GUID == [16]byte{} {
		return strconv.Itoa(int(id.Number))
	}
	h := hex.EncodeToString(id.GUID[:])
	return h[:8] + "-" + h[8:12] + "-" + h[12:16] + "-" + h[16:20] + "-" + h[20:]
}

// guidOf reads a GUID; false: it is none, or zero.
func guidOf(text string) (out [16]byte, ok bool) {
	if len(text) != 36 || text[8] != '-' || text[13] != '-' || text[18] != '-' || text[23] != '-' {
		return out, false
	}
	n, err := hex.Decode(out[:], []byte(text[:8]+text[9:13]+text[14:18]+text[19:23]+text[24:]))
	return out, err == nil && n == 16 && out != [16]byte{}
}

// Problem is one reason why what was written with one schema cannot be read with another.
type Problem struct {
	Field string `json:"field"` // a path, "Payment.method"
	Rule  string `json:"rule"`  // "reader field has no default"
	Saw   string `json:"saw"`   // what the two schemas say
}

func (p Problem) String() string { return fmt.Sprintf("%s: %s (%s)", p.Field, p.Rule, p.Saw) }

// Format is a language of schemas.
type Format interface {
	// Name is Avro, Protobuf or JSON.
	Name() string
	// Problems are the reasons why what writer wrote cannot be read with reader; none: it can be. The error
	// is of a schema that cannot be understood.
	Problems(reader, writer Schema) ([]Problem, error)
	// Readable is a payload as JSON, for people. Index names the message of a Protobuf file.
	Readable(writer Schema, index []int, data []byte) ([]byte, error)
}

// Verifier is a Format in which a payload that is good to read may still not be as its schema says.
type Verifier interface {
	Verify(s Schema, data []byte) error
}

// Language is a Format for one type of Go.
type Language interface {
	Format
	// ContentType of a payload without prefix.
	ContentType() string
	// Own is the schema of the type, and the index of its message (Protobuf alone).
	Own() (s Schema, index []int, err error)
	// Append encodes v behind dst.
	Append(dst []byte, v any) ([]byte, error)
	// Reader reads what was written with writer. It is asked once for each schema. Its error says why that
	// cannot be read.
	Reader(writer Schema, index []int) (Reader, error)
	// Plain reads payloads that came without an id; nil: that is not possible.
	Plain() (Reader, error)
}

// Reader fills v, a pointer, from a payload without prefix. It is safe for concurrent use.
type Reader interface {
	Read(data []byte, v any) error
}
