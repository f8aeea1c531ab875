// This file follows references within a schema.

package jsonschema

import (
	"errors"
	"maps"
	"slices"
	"strings"
)

// errCircle is returned if a part of the schema refers to itself for the same value, because validation would
// not end.
var errCircle = errors.New("a $ref of the schema leads back to itself")

// acyclic returns errCircle if a part leads back to itself without going to a member of the value.
func acyclic(root *node) error {
	const under, done = 1, 2
	state := map[*node]int{}
	var at func(s *node) error
	at = func(s *node) error {
		if s == nil || state[s] == done {
			return nil
		}
		if state[s] == under {
			return errCircle
		}
		state[s] = under
		for _, one := range sameValue(root, s) {
			if err := at(one); err != nil {
				return err
			}
		}
		state[s] = done
		return nil
	}
	for _, part := range allParts(root) {
		if err := at(part); err != nil {
			return err
		}
	}
	return nil
}

// allParts returns all parts of a schema, beginning with root.
func allParts(root *node) []*node {
	parts, seen := []*node{root}, map[*node]bool{nil: true, root: true}
	for i := 0; i < len(parts); i++ { // grows
		for _, one := range directParts(parts[i]) {
			if !seen[one] {
				seen[one] = true
				parts = append(parts, one)
			}
		}
	}
	return parts
}

// sameValue returns the other parts that apply to a value of s.
func sameValue(root, s *node) []*node {
	out := slices.Concat(s.AllOf, s.AnyOf, s.OneOf, []*node{s.Not, s.If, s.Then, s.Else})
	if s.Ref != "" {
		if to, ok := target(root, s.Ref); ok {
			out = append(out, to)
		}
	}
	return slices.DeleteFunc(out, func(one *node) bool { return one == nil })
}

// directParts returns the direct parts of s.
func directParts(s *node) []*node {
	out := slices.Concat(s.AllOf, s.AnyOf, s.OneOf, s.PrefixItems, s.ItemsArray,
		[]*node{s.Not, s.If, s.Then, s.Else, s.Items, s.AdditionalItems, s.AdditionalProperties,
			s.Contains, s.PropertyNames, s.UnevaluatedItems, s.UnevaluatedProperties})
	for _, all := range []map[string]*node{s.Properties, s.PatternProperties, s.Defs,
		s.Definitions, s.DependentSchemas} {
		out = slices.AppendSeq(out, maps.Values(all))
	}
	return out
}

// target returns the part to which a reference leads.
func target(root *node, ref string) (*node, bool) {
	switch name, defs := definition(ref); {
	case ref == "#":
		return root, true
	case defs && root.Defs[name] != nil:
		return root.Defs[name], true
	case defs && root.Definitions[name] != nil:
		return root.Definitions[name], true
	}
	return nil, false
}

// meaning returns the text of a schema, with everything that it refers to. If two texts are equal, the
// schemas have the same meaning. It counts steps.
func (c *comparison) meaning(root *node, own string) string {
	all, todo := map[string]string{"": own}, []string{own}
	for len(todo) > 0 && !c.tooMany() {
		c.steps.taken += 1 + len(todo[0])/64
		tree, _ := decode([]byte(todo[0])) // valid, because it was parsed before
		todo = todo[1:]
		for _, ref := range references(tree) {
			if _, known := all[ref]; known {
				continue
			}
			to, ok := target(root, ref)
			if !ok {
				to = root // for an unknown reference, use the whole schema
			}
			all[ref] = to.text()
			todo = append(todo, all[ref])
		}
	}
	return text(all)
}

func references(tree any) (out []string) {
	switch tree := tree.(type) {
	case map[string]any:
		for name, v := range tree {
			if ref, is := v.(string); is && strings.HasSuffix(strings.ToLower(name), "ref") {
				out = append(out, ref)
			}
			out = append(out, references(v)...)
		}
	case []any:
		for _, v := range tree {
			out = append(out, references(v)...)
		}
	}
	return out
}

// siblings returns the keywords next to a reference, or nil if there are none.
func siblings(s *node) *node {
	if s.Ref == "" {
		return nil
	}
	if s.siblings == nil {
		s.siblings = s.omit("$ref", "$defs", "definitions", "$id", "$schema", "$anchor", "$comment",
			"$vocabulary", "title", "description", "default", "examples", "deprecated", "readOnly",
			"writeOnly",
			"format")
	}
	return s.siblings
}
