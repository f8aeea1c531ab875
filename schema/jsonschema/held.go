package jsonschema

import (
	"errors"
	"fmt"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"
)

// held is a schema to which JSON is held. Its verdicts compute with rationals.
type held struct {
	text     string
	schema   *node
	compiled *jsonschema.Schema
	tame     bool // no payload makes its validation long
	defaults bool
	same     map[*node][]*node // see certain
}

// root is the address of a schema while it is compiled.
const root = "skald:schema"

func hold(text string) (*held, error) {
	n, err := parse(text)
	if err != nil {
		return nil, err
	}
	c := jsonschema.NewCompiler()
	c.UseLoader(nowhere{})
	// A format is a remark in the newest draft, and in older ones a rule. It is a remark here.
	for _, name := range []string{"json-pointer", "relative-json-pointer", "uuid", "duration", "period",
		"ipv4",
		"ipv6", "hostname", "email", "date", "time", "date-time", "uri", "iri", "uri-reference",
		"iri-reference", "uri-template", "semver", "regex"} {
		c.RegisterFormat(&jsonschema.Format{Name: name, Validate: func(any) error { return nil }})
	}
	if err := c.AddResource(root, n.tree); err != nil {
		return nil, fmt.Errorf("no JSON Schema: %w", err)
	}
	compiled, err := c.Compile(root)
	if err != nil {
		return nil, fmt.Errorf("no JSON Schema: %.300w", err)
	}
	return &held{text: text, schema: n, compiled: compiled, tame: isTame(n)}, nil
}

// nowhere loads no schema from a file or another server.
type nowhere struct{}

func (nowhere) Load(url string) (any, error) {
	return nil, fmt.Errorf("it refers to %.200s, and only references within the schema can be followed", url)
}

func (h *held) validate(data []byte) error {
	_, err := h.validated(data)
	return err
}

func (h *held) validated(data []byte) (v any, err error) {
	if v, err = decode(data); err != nil {
		return nil, err
	}
	if !h.tame {
		if err := over(h.compiled, v); err != nil {
			return nil, err
		}
	}
	if err := h.compiled.Validate(v); err != nil {
		return nil, fmt.Errorf("it is not as its schema says: %s", quiet(err))
	}
	return v, nil
}

// quiet is what an error says of the schema, without the value and without names from the payload: errors are
// read by more people than payloads are.
func quiet(err error) string {
	var one *jsonschema.ValidationError
	if !errors.As(err, &one) {
		return "a value is not allowed"
	}
	for len(one.Causes) > 0 {
		switch one.ErrorKind.(type) {
		case *kind.AnyOf, *kind.OneOf, *kind.Not, *kind.Contains, *kind.PropertyNames:
			return where(one)
		}
		one = one.Causes[0]
	}
	return where(one)
}

func where(one *jsonschema.ValidationError) string {
	keyword := "false"
	if path := one.ErrorKind.KeywordPath(); len(path) > 0 {
		keyword = path[0]
	}
	return fmt.Sprintf("%.200s: %.40s", strings.TrimPrefix(one.SchemaURL, root), keyword)
}
