package jsonschema

import (
	"errors"
	"fmt"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"
)

// checker validates JSON against a schema. It computes with rational numbers.
type checker struct {
	text     string
	schema   *node
	compiled *jsonschema.Schema
	fast     bool // no payload takes long to validate
	defaults bool
	same     map[*node][]*node // see certain
}

// root is the address of the schema while it is compiled.
const root = "skald:schema"

func newChecker(text string) (*checker, error) {
	n, err := parse(text)
	if err != nil {
		return nil, err
	}
	c := jsonschema.NewCompiler()
	c.UseLoader(nowhere{})
	// Skald never validates "format". Old drafts of JSON Schema validate it, but the newest draft does not.
	for _, name := range []string{"json-pointer", "relative-json-pointer", "uuid", "duration", "period",
		"ipv4",
		"ipv6", "hostname", "email", "date", "time", "date-time", "uri", "iri", "uri-reference",
		"iri-reference", "uri-template", "semver", "regex"} {
		c.RegisterFormat(&jsonschema.Format{Name: name, Validate: func(any) error { return nil }})
	}
	if err := c.AddResource(root, n.tree); err != nil {
		return nil, fmt.Errorf("invalid JSON Schema: %w", err)
	}
	compiled, err := c.Compile(root)
	if err != nil {
		return nil, fmt.Errorf("invalid JSON Schema: %.300w", err)
	}
	return &checker{text: text, schema: n, compiled: compiled, fast: alwaysFast(n)}, nil
}

// nowhere is a loader that refuses to load schemas from files and servers.
type nowhere struct{}

func (nowhere) Load(url string) (any, error) {
	return nil, fmt.Errorf("it refers to %.200s, and only references within the schema can be followed", url)
}

func (c *checker) validate(data []byte) error {
	_, err := c.validated(data)
	return err
}

func (c *checker) validated(data []byte) (v any, err error) {
	if v, err = decode(data); err != nil {
		return nil, err
	}
	if !c.fast {
		if err := checkWeight(c.compiled, v); err != nil {
			return nil, err
		}
	}
	if err := c.compiled.Validate(v); err != nil {
		return nil, fmt.Errorf("it does not match its schema: %s", quiet(err))
	}
	return v, nil
}

// quiet returns the parts of an error that come from the schema. It omits values and names of the payload,
// because more people may read errors than payloads.
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
