package jsonschema

import (
	"encoding/json"
	"slices"
	"strings"
)

// hasDefaults tells whether a property has one, anywhere in the schema.
func hasDefaults(s *node) bool {
	if s == nil {
		return false
	}
	return s.Default != nil || slices.ContainsFunc(below(s), hasDefaults)
}

// fill puts defaults in the place of properties that are missing, and leaves out those that Go would take for
// a declared one though they are called otherwise. Numbers stay as they were written.
func (h *held) fill(data []byte) ([]byte, error) {
	v, err := decode(data)
	if err != nil {
		return nil, err
	}
	h.into(h.schema, v)
	return json.Marshal(v)
}

// certain are, for each part of a schema, the schemas that a value of it is held to for certain: the part,
// what it refers to, and allOf. They are found once, not for each payload.
func certain(root *node) map[*node][]*node {
	all := map[*node][]*node{}
	for _, s := range within(root) {
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

// each calls see for every value below v, with a schema that it is held to.
func (h *held) each(s *node, v any, see func(s *node, v any)) {
	for _, part := range h.same[s] {
		switch v := v.(type) {
		case map[string]any:
			for name, in := range v {
				if p, declared := part.Properties[name]; declared {
					see(p, in)
				} else if part.AdditionalProperties != nil {
					see(part.AdditionalProperties, in)
				}
			}
		case []any:
			for i, in := range v {
				switch {
				case i < len(part.PrefixItems):
					see(part.PrefixItems[i], in)
				case part.Items != nil:
					see(part.Items, in)
				}
			}
		}
	}
}

func (h *held) into(s *node, v any) {
	if object, is := v.(map[string]any); is {
		for _, name := range h.alike(s, object) {
			delete(object, name)
		}
	}
	h.each(s, v, h.into)
	object, is := v.(map[string]any)
	if !is {
		return
	}
	for _, part := range h.same[s] {
		for name, p := range part.Properties {
			if _, there := object[name]; there {
				continue
			}
			for _, one := range h.same[p] {
				if one.Default != nil {
					object[name] = *one.Default
					break
				}
			}
		}
	}
}

// alike are the properties that differ from a declared one in their letters' case alone: encoding/json takes
// them for it, and no rule of the schema holds them.
func (h *held) alike(s *node, object map[string]any) (out []string) {
	parts := h.same[s]
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

// folded tells whether there are such properties anywhere in v.
func (h *held) folded(s *node, v any) (found bool) {
	if object, is := v.(map[string]any); is && len(h.alike(s, object)) > 0 {
		return true
	}
	h.each(s, v, func(s *node, v any) { found = found || h.folded(s, v) })
	return found
}
