package jsonschema

import (
	"errors"
	"maps"
	"slices"
	"strings"
)

// errCircle is of a schema that no value can be held to: the way of its references has no end.
var errCircle = errors.New("a $ref of the schema leads back to itself")

// acyclic looks for a way that leads from a part to itself while it stays at one value.
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
	for _, part := range within(root) {
		if err := at(part); err != nil {
			return err
		}
	}
	return nil
}

// within are all parts of a schema, itself first.
func within(root *node) []*node {
	parts, seen := []*node{root}, map[*node]bool{nil: true, root: true}
	for i := 0; i < len(parts); i++ { // grows
		for _, one := range below(parts[i]) {
			if !seen[one] {
				seen[one] = true
				parts = append(parts, one)
			}
		}
	}
	return parts
}

// sameValue are the parts that a value of s is held to as well.
func sameValue(root, s *node) []*node {
	out := slices.Concat(s.AllOf, s.AnyOf, s.OneOf, []*node{s.Not, s.If, s.Then, s.Else})
	if s.Ref != "" {
		if to, ok := target(root, s.Ref); ok {
			out = append(out, to)
		}
	}
	return slices.DeleteFunc(out, func(one *node) bool { return one == nil })
}

// below are the parts that stand within s.
func below(s *node) []*node {
	out := slices.Concat(s.AllOf, s.AnyOf, s.OneOf, s.PrefixItems, s.ItemsArray,
		[]*node{s.Not, s.If, s.Then, s.Else, s.Items, s.AdditionalItems, s.AdditionalProperties,
			s.Contains, s.PropertyNames, s.UnevaluatedItems, s.UnevaluatedProperties})
	for _, all := range []map[string]*node{s.Properties, s.PatternProperties, s.Defs,
		s.Definitions, s.DependentSchemas} {
		out = slices.AppendSeq(out, maps.Values(all))
	}
	return out
}

// target is the part of the schema that a reference leads to.
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

// meaning is a text of a schema with all that it refers to: two that have one meaning are the same. Its steps
// are counted.
func (c *comparison) meaning(root *node, own string) string {
	all, todo := map[string]string{"": own}, []string{own}
	for len(todo) > 0 && !c.over() {
		c.steps.taken += 1 + len(todo[0])/64
		tree, _ := decode([]byte(todo[0])) // of what was read before
		todo = todo[1:]
		for _, ref := range references(tree) {
			if _, known := all[ref]; known {
				continue
			}
			to, ok := target(root, ref)
			if !ok {
				to = root // it is somewhere in there
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

// beside are the keywords that stand beside a reference and narrow what is allowed; nil: there are none.
func beside(s *node) *node {
	if s.Ref == "" {
		return nil
	}
	if s.beside == nil {
		s.beside = s.without("$ref", "$defs", "definitions", "$id", "$schema", "$anchor", "$comment",
			"$vocabulary", "title", "description", "default", "examples", "deprecated", "readOnly",
			"writeOnly",
			"format")
	}
	return s.beside
}
