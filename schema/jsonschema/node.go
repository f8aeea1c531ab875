// This file parses JSON Schemas.

package jsonschema

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/big"
	"slices"
	"strconv"
	"strings"

	"github.com/skald-go/skald/schema"
)

// node is a schema, or a part of a schema. Its numbers are rational, because float64 cannot represent 0.01 or
// 2^53+1.
type node struct {
	tree any // the decoded JSON, with json.Number
	word map[string]any

	Ref                                string
	Type                               []string
	Enum                               []any // nil if there is no enum
	Defs, Definitions                  map[string]*node
	Default                            *any
	MultipleOf                         *big.Rat
	Minimum, ExclusiveMinimum          *big.Rat
	Maximum, ExclusiveMaximum          *big.Rat
	MinLength, MinItems, MinProperties *big.Rat
	MaxLength, MaxItems, MaxProperties *big.Rat
	Pattern                            string
	UniqueItems                        bool
	Required                           []string

	Properties, PatternProperties, DependentSchemas map[string]*node
	AdditionalProperties, Items, AdditionalItems    *node
	Contains, PropertyNames, Not, If, Then, Else    *node
	UnevaluatedItems, UnevaluatedProperties         *node
	PrefixItems, ItemsArray, AllOf, AnyOf, OneOf    []*node
	siblings                                        *node // see compareSiblings
	canonical                                       string
}

const (
	mostExponent = 1000 // maximum exponent of a number
	mostDigits   = 2000 // maximum digits of a number
)

// errNotJSON has no cause, because the cause would quote the payload.
var errNotJSON = errors.New("it is not JSON")

// decode decodes one JSON value. It keeps the notation of numbers.
func decode(data []byte) (v any, err error) {
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	if err := d.Decode(&v); err != nil {
		return nil, errNotJSON
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, errNotJSON
	}
	return v, numbers(v)
}

// numbers returns an error if v contains a number that needs too much memory.
func numbers(v any) error {
	switch v := v.(type) {
	case json.Number:
		return bounded(v)
	case []any:
		for _, one := range v {
			if err := numbers(one); err != nil {
				return err
			}
		}
	case map[string]any:
		for _, one := range v {
			if err := numbers(one); err != nil {
				return err
			}
		}
	}
	return nil
}

func bounded(n json.Number) error {
	text := string(n)
	if len(text) > mostDigits {
		return &schema.LimitError{What: fmt.Sprintf("a number has more than %d digits", mostDigits)}
	}
	if i := strings.IndexAny(text, "eE"); i >= 0 {
		exponent, err := strconv.Atoi(text[i+1:])
		if err != nil || exponent > mostExponent || exponent < -mostExponent {
			return &schema.LimitError{What: fmt.Sprintf("the exponent of a number is above %d", mostExponent)}
		}
	}
	return nil
}

// rational returns the value of a number. bounded must have accepted the number.
func rational(n json.Number) *big.Rat {
	out, _ := new(big.Rat).SetString(string(n)) // a JSON number is always valid
	return out
}

// parse parses a schema.
func parse(text string) (*node, error) {
	if err := (schema.Schema{Text: text}).Bounded(); err != nil {
		return nil, err
	}
	tree, err := decode([]byte(text))
	if err != nil {
		return nil, fmt.Errorf("invalid JSON Schema: %w", err)
	}
	var b builder
	root := b.node(tree, "#")
	if b.err == nil {
		b.err = acyclic(root)
	}
	if b.err != nil {
		return nil, fmt.Errorf("invalid JSON Schema: %w", b.err)
	}
	return root, nil
}

// builder creates nodes from a JSON tree. It keeps the first error.
type builder struct{ err error }

func (b *builder) fail(at, want string) {
	if b.err == nil {
		b.err = fmt.Errorf("%.200s is not %s", at, want)
	}
}

func (b *builder) node(tree any, at string) *node {
	n := &node{tree: tree}
	switch tree := tree.(type) {
	case bool:
		return n
	case map[string]any:
		n.word = tree
	default:
		b.fail(at, "an object, true or false")
		return n
	}
	n.Ref, n.Pattern = b.text(n, at, "$ref"), b.text(n, at, "pattern")
	n.Type, n.Required = b.texts(n, at, "type"), b.texts(n, at, "required")
	n.Enum = b.list(n, at, "enum")
	if v, has := n.word["const"]; has {
		n.Enum = []any{v}
	}
	if v, has := n.word["default"]; has {
		n.Default = &v
	}
	n.UniqueItems, _ = n.word["uniqueItems"].(bool)
	for name, to := range map[string]**big.Rat{"multipleOf": &n.MultipleOf, "minimum": &n.Minimum,
		"exclusiveMinimum": &n.ExclusiveMinimum, "maximum": &n.Maximum,
		"exclusiveMaximum": &n.ExclusiveMaximum,
		"minLength":        &n.MinLength, "maxLength": &n.MaxLength, "minItems": &n.MinItems,
		"maxItems":      &n.MaxItems,
		"minProperties": &n.MinProperties, "maxProperties": &n.MaxProperties} {
		*to = b.number(n, at, name)
	}
	if n.MultipleOf != nil && n.MultipleOf.Sign() <= 0 {
		b.fail(at+"/multipleOf", "above 0")
		n.MultipleOf = nil
	}
	b.addChildren(n, at)
	return n
}

// addChildren creates the nodes below n.
func (b *builder) addChildren(n *node, at string) {
	if items, is := n.word["items"].([]any); is {
		n.ItemsArray = b.nodes(items, at+"/items")
	} else {
		n.Items = b.part(n, at, "items")
	}
	for name, to := range map[string]**node{"additionalProperties": &n.AdditionalProperties,
		"additionalItems": &n.AdditionalItems, "contains": &n.Contains, "propertyNames": &n.PropertyNames,
		"not": &n.Not, "if": &n.If, "then": &n.Then, "else": &n.Else, "unevaluatedItems": &n.UnevaluatedItems,
		"unevaluatedProperties": &n.UnevaluatedProperties} {
		*to = b.part(n, at, name)
	}
	for name, to := range map[string]*[]*node{"prefixItems": &n.PrefixItems, "allOf": &n.AllOf,
		"anyOf": &n.AnyOf, "oneOf": &n.OneOf} {
		*to = b.nodes(b.list(n, at, name), at+"/"+name)
	}
	for name, to := range map[string]*map[string]*node{"properties": &n.Properties,
		"patternProperties": &n.PatternProperties, "$defs": &n.Defs, "definitions": &n.Definitions,
		"dependentSchemas": &n.DependentSchemas} {
		*to = b.named(n, at, name)
	}
}

func (b *builder) text(n *node, at, name string) string {
	out, is := n.word[name].(string)
	if _, has := n.word[name]; has && !is {
		b.fail(at+"/"+name, "a string")
	}
	return out
}

// texts returns the strings of a keyword. The keyword "type" may also be a single string.
func (b *builder) texts(n *node, at, name string) (out []string) {
	if one, is := n.word[name].(string); is && name == "type" {
		return []string{one}
	}
	for _, v := range b.list(n, at, name) {
		one, is := v.(string)
		if !is {
			b.fail(at+"/"+name, "a list of strings")
		}
		out = append(out, one)
	}
	return out
}

func (b *builder) list(n *node, at, name string) []any {
	out, is := n.word[name].([]any)
	if _, has := n.word[name]; has && !is {
		b.fail(at+"/"+name, "a list")
	}
	return out
}

func (b *builder) number(n *node, at, name string) *big.Rat {
	v, has := n.word[name]
	out, is := v.(json.Number)
	switch {
	case !has:
		return nil
	case !is:
		b.fail(at+"/"+name, "a number")
		return nil
	}
	return rational(out)
}

func (b *builder) part(n *node, at, name string) *node {
	v, has := n.word[name]
	if !has {
		return nil
	}
	return b.node(v, at+"/"+name)
}

func (b *builder) nodes(list []any, at string) (out []*node) {
	for _, v := range list {
		out = append(out, b.node(v, at))
	}
	return out
}

func (b *builder) named(n *node, at, name string) map[string]*node {
	all, is := n.word[name].(map[string]any)
	if _, has := n.word[name]; has && !is {
		b.fail(at+"/"+name, "an object")
	}
	if all == nil {
		return nil
	}
	out := map[string]*node{}
	for key, v := range all {
		out[key] = b.node(v, at+"/"+name+"/"+key)
	}
	return out
}

// text returns the canonical form of n. Equal schemas have the same form.
func (n *node) text() string {
	if n == nil {
		return "{}"
	}
	if n.canonical == "" {
		n.canonical = text(n.tree)
	}
	return n.canonical
}

func texts(all []*node) string {
	var out []string
	for _, n := range all {
		out = append(out, n.text())
	}
	return text(out)
}

// omit returns n without some keywords, or nil if no keywords are left.
func (n *node) omit(names ...string) *node {
	rest := map[string]any{}
	for name, v := range n.word {
		if !slices.Contains(names, name) {
			rest[name] = v
		}
	}
	if len(rest) == 0 {
		return nil
	}
	var b builder
	return b.node(rest, "#") // without an error, because the parts of n are valid
}

// value returns the canonical form of v. For example, 1, 1.0 and 10e-1 have the same form.
func value(v any) string {
	switch v := v.(type) {
	case json.Number:
		return rational(v).RatString()
	case []any:
		out := []string{}
		for _, one := range v {
			out = append(out, value(one))
		}
		return text(out)
	case map[string]any:
		out := map[string]string{}
		for name, one := range v {
			out[name] = value(one)
		}
		return text(out)
	}
	return text(v)
}
