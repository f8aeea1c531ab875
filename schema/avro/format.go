package avro

import (
	"errors"
	"fmt"

	"github.com/twmb/avro"

	"github.com/skald-go/skald/schema"
)

// Format compares Avro schemas.
type Format struct{}

var _ schema.Format = Format{}

// Name returns schema.Avro.
func (Format) Name() string { return schema.Avro }

// parse parses a schema and its imports.
func parse(s schema.Schema) (*avro.Schema, error) {
	if err := s.Bounded(); err != nil {
		return nil, err
	}
	if len(s.Imports) == 0 {
		return avro.Parse(s.Text)
	}
	var all avro.SchemaCache
	for _, i := range s.Imports {
		if _, err := all.Parse(i.Text); err != nil {
			return nil, fmt.Errorf("import %s: %w", i.Name, err)
		}
	}
	return all.Parse(s.Text)
}

// Problems returns the first problem, or none.
func (Format) Problems(reader, writer schema.Schema) ([]schema.Problem, error) {
	r, err := parse(reader)
	if err != nil {
		return nil, err
	}
	w, err := parse(writer)
	if err != nil {
		return nil, err
	}
	if p, other, err := otherMeaning(reader, writer); err != nil {
		return nil, err
	} else if other {
		return []schema.Problem{p}, nil
	}
	// Resolve includes CheckCompatibility, and also checks that defaults can be encoded.
	_, err = avro.Resolve(w, r)
	if p, ok := problem(err); ok {
		return []schema.Problem{p}, nil
	}
	return nil, err
}

func problem(err error) (schema.Problem, bool) {
	var c *avro.CompatibilityError
	if !errors.As(err, &c) {
		return schema.Problem{}, false
	}
	wrote := c.WriterType
	if wrote == "" {
		wrote = "nothing"
	}
	return schema.Problem{Field: short(c.Path), Rule: short(c.Detail),
		Observed: fmt.Sprintf("reader %.100s, writer %.100s", c.ReaderType, wrote)}, true
}

func short(s string) string { return fmt.Sprintf("%.300s", s) }

// Readable returns the payload as Avro JSON.
func (Format) Readable(writer schema.Schema, _ []int, data []byte) ([]byte, error) {
	s, err := parse(writer)
	if err != nil {
		return nil, err
	}
	var v any
	if err := (reader{Schema: s}).Read(data, &v); err != nil {
		return nil, err
	}
	out, err := s.EncodeJSON(v)
	return out, quiet(err)
}
