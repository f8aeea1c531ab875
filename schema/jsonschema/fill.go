// This file adds default values to payloads.

package jsonschema

import (
	"encoding/json"
	"slices"
	"strings"
)

// hasDefaults returns true if a property of the schema has a default.
func hasDefaults(s *node) bool {
	if s == nil {
		return false
	}
	return s.Default != nil || slices.ContainsFunc(directParts(s), hasDefaults)
}

// fill adds the defaults of missing properties. It also removes properties with a name that differs from a
// declared name only in case, because encoding/json would decode them. It keeps the notation of numbers.
func (c *checker) fill(data []byte) ([]byte, error) {
	v, err := decode(data)
	if err != nil {
		return nil, err
	}
	c.into(c.schema, v)
	return json.Marshal(v)
}

// certain maps each part of a schema to the parts that apply to the same value: the part itself, its
// references, and its allOf. It runs once per schema.
func certain(root *node) map[*node][]*node {
	all := map[*node][]*node{}
	for _, s := range allParts(root) {
		out := []*node{s}
		for i := 0; i < len(out); i++ { // grows
			more := slices.Clone(out[i].AllOf)
			if to, ok := target(root, out[i].Ref); ok {
				more = append(more, to)
			}
			for _, one := range more {
				if one != nil && !slices.Contains(out, one) {
					out = append(out, one)
				}
			}
		}
		all[s] = out
	}
	return all
}

// each calls visit for every value in v, with each schema that applies to the value.
func (c *checker) each(s *node, v any, visit func(s *node, v any)) {
	for _, part := range c.same[s] {
		switch v := v.(type) {
		case map[string]any:
			for name, in := range v {
				if p, declared := part.Properties[name]; declared {
					visit(p, in)
				} else if part.AdditionalProperties != nil {
					visit(part.AdditionalProperties, in)
				}
			}
		case []any:
			for i, in := range v {
				switch {
				case i < len(part.PrefixItems):
					visit(part.PrefixItems[i], in)
				case part.Items != nil:
					visit(part.Items, in)
				}
			}
		}
	}
}

func (c *checker) into(s *node, v any) {
	if object, is := v.(map[string]any); is {
		for _, name := range c.alike(s, object) {
			delete(object, name)
		}
	}
	c.each(s, v, c.into)
	object, is := v.(map[string]any)
	if !is {
		return
	}
	for _, part := range c.same[s] {
		for name, p := range part.Properties {
			if _, there := object[name]; there {
				continue
			}
			for _, one := range c.same[p] {
				if one.Default != nil {
					object[name] = *one.Default
					break
				}
			}
		}
	}
}

// alike returns the properties whose names differ from a declared name only in case. encoding/json decodes
// them as the declared property, but the schema does not validate them.
func (c *checker) alike(s *node, object map[string]any) (out []string) {
	parts := c.same[s]
	declared := func(name string) bool {
		return slices.ContainsFunc(parts,
			func(part *node) bool { _, is := part.Properties[name]; return is })
	}
	for name := range object {
		if declared(name) {
			continue
		}
		if slices.ContainsFunc(parts,
			func(part *node) bool { return folds(part.Properties, name) }) {
			out = append(out, name)
		}
	}
	return out
}

func folds(declared map[string]*node, name string) bool {
	for own := range declared {
		if strings.EqualFold(own, name) {
			return true
		}
	}
	return false
}

// folded returns true if v contains such properties; see alike.
func (c *checker) folded(s *node, v any) (found bool) {
	if object, is := v.(map[string]any); is && len(c.alike(s, object)) > 0 {
		return true
	}
	c.each(s, v, func(s *node, v any) { found = found || c.folded(s, v) })
	return found
}
