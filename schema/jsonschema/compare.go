// This file compares the keywords of two schemas.

package jsonschema

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/big"
	"slices"
)

// values compares the keywords that limit a single value.
func (c *comparison) values(r, w *node, path string) {
	if ours := options(r); ours != nil {
		theirs := options(w)
		if theirs == nil {
			c.report(path, "the reader allows certain values only", "reader %.100s", text(ours))
		}
		for _, v := range theirs {
			if !slices.ContainsFunc(ours, func(o any) bool { return value(o) == value(v) }) {
				c.report(path, "the reader does not allow a value", "%.100s", text(v))
			}
		}
		return // the enum already limits the values
	}
	c.least(path, "minimum", r.Minimum, w.Minimum)
	c.least(path, "exclusiveMinimum", r.ExclusiveMinimum, w.ExclusiveMinimum)
	c.most(path, "maximum", r.Maximum, w.Maximum)
	c.most(path, "exclusiveMaximum", r.ExclusiveMaximum, w.ExclusiveMaximum)
	c.least(path, "minLength", r.MinLength, w.MinLength)
	c.most(path, "maxLength", r.MaxLength, w.MaxLength)
	c.least(path, "minItems", r.MinItems, w.MinItems)
	c.most(path, "maxItems", r.MaxItems, w.MaxItems)
	c.least(path, "minProperties", r.MinProperties, w.MinProperties)
	c.most(path, "maxProperties", r.MaxProperties, w.MaxProperties)
	if r.Pattern != "" && r.Pattern != w.Pattern {
		c.report(path, "pattern of the reader", "reader %.100q, writer %.100q", r.Pattern, w.Pattern)
	}
	if r.UniqueItems && !w.UniqueItems {
		c.report(path, "uniqueItems of the reader", "the writer does not promise it")
	}
	if r.MultipleOf != nil && (w.MultipleOf == nil ||
		!new(big.Rat).Quo(w.MultipleOf, r.MultipleOf).IsInt()) {
		c.report(path, "multipleOf of the reader", "reader %s, writer %s", plain(r.MultipleOf),
			plain(w.MultipleOf))
	}
}

// options returns the values of an enum, or nil if s has none.
func options(s *node) []any { return s.Enum }

// plain formats a number for a message.
func plain(n *big.Rat) string {
	if n == nil {
		return "null"
	}
	if out, exact := n.FloatPrec(); exact {
		return fmt.Sprintf("%.40s", n.FloatString(out))
	}
	return fmt.Sprintf("%.40s", n.RatString())
}

func (c *comparison) least(path, what string, r, w *big.Rat) {
	if r != nil && (w == nil || w.Cmp(r) < 0) {
		c.report(path, what+" of the reader is above the writer's", "reader %s, writer %s",
			plain(r), plain(w))
	}
}

func (c *comparison) most(path, what string, r, w *big.Rat) {
	if r != nil && (w == nil || w.Cmp(r) > 0) {
		c.report(path, what+" of the reader is below the writer's", "reader %s, writer %s",
			plain(r), plain(w))
	}
}

func (c *comparison) objects(r, w *node, path string) {
	for _, name := range r.Required {
		if !slices.Contains(w.Required, name) {
			c.report(path+"."+name, "the reader requires a property that the writer may leave out",
				"required by the reader alone")
		}
	}
	for _, name := range slices.Sorted(maps.Keys(w.Properties)) {
		own, declared := r.Properties[name]
		if !declared {
			own = r.AdditionalProperties
		}
		c.schemas(own, w.Properties[name], path+"."+name)
	}
	if isTrue(w.AdditionalProperties) || isFalse(w.AdditionalProperties) {
		if len(w.Properties) == 0 && !isTrue(r.AdditionalProperties) && !isFalse(w.AdditionalProperties) &&
			slices.Contains(w.Type, "object") {
			c.schemas(r.AdditionalProperties, nil, path+".*")
		}
		return
	}
	c.schemas(r.AdditionalProperties, w.AdditionalProperties, path+".*") // an object that is used as a map
	for _, name := range slices.Sorted(maps.Keys(r.Properties)) {
		if w.Properties[name] == nil {
			c.schemas(r.Properties[name], w.AdditionalProperties, path+"."+name)
		}
	}
}

func (c *comparison) arrays(r, w *node, path string) {
	if r.Items != nil && (w.Items != nil || slices.Contains(w.Type, "array")) {
		c.schemas(r.Items, w.Items, path+"[]")
	}
}

// undecided compares keywords that Skald does not interpret. They must be equal in their canonical form, with
// everything that they refer to. It also reports keywords of the writer that may allow more values.
func (c *comparison) undecided(r, w *node, path string) {
	for _, name := range []string{"allOf", "not", "if", "then", "else", "dependentSchemas",
		"dependentRequired", "dependencies", "patternProperties",
		"propertyNames", "contains", "minContains", "maxContains", "prefixItems", "additionalItems",
		"unevaluatedItems",
		"unevaluatedProperties", "$dynamicRef"} {
		own, ok := r.word[name]
		theirs, has := w.word[name]
		if !ok {
			ok = c.mayAllowMore(name, r) && has
		}
		word := func(v any) string { return text(map[string]any{name: v}) }
		if ok && c.meaning(c.reader, word(own)) != c.meaning(c.writer, word(theirs)) {
			c.report(path, "compatibility cannot be decided", "%s differs", name)
		}
	}
}

// mayAllowMore returns true if a keyword that only the writer has may allow values that the reader does not
// accept.
func (c *comparison) mayAllowMore(name string, r *node) bool {
	object := r.Properties != nil || r.AdditionalProperties != nil || r.PatternProperties != nil
	switch name {
	case "allOf":
		return object || r.Items != nil
	case "patternProperties":
		return object
	case "prefixItems":
		return r.Items != nil
	}
	return false
}

// listed compares the enum of the writer with the types of the reader.
func (c *comparison) listed(r *node, ours []string, listed []any, path string) bool {
	before := len(c.found)
	for _, v := range listed {
		kind := kindOf(v)
		if !slices.Contains(ours, kind) && !(kind == "integer" && slices.Contains(ours, "number")) {
			c.report(path, "the reader's type does not accept a value of the writer", "reader %v, writer %.100s",
				ours, text(v))
		}
		if options(r) == nil && (kind == "array" && r.Items != nil || kind == "object" &&
			(r.Properties != nil || r.AdditionalProperties != nil)) {
			c.report(path, "compatibility cannot be decided", "writer %.100s", text(v))
		}
	}
	return len(c.found) == before
}

// kindOf returns the JSON Schema type of a value.
func kindOf(v any) string {
	switch v := v.(type) {
	case nil:
		return "null"
	case bool:
		return "boolean"
	case string:
		return "string"
	case json.Number:
		if rational(v).IsInt() {
			return "integer"
		}
		return "number"
	case []any:
		return "array"
	}
	return "object"
}
