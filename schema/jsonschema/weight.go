// This file limits the time of a validation.

package jsonschema

import (
	"fmt"
	"maps"
	"reflect"
	"slices"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/skald-go/skald/schema"
)

// mostVisits is the maximum number of visits of values in a validation. Nested alternatives multiply the
// visits, so that a small payload could take hours.
const mostVisits = 2_000_000

// weighing computes the number of visits of a validation in advance. It counts each pair of schema and value
// once, and multiplies.
type weighing struct {
	known map[visit]int
	steps int
}

// visit is a pair of a schema and a value. The value is identified by its address, or by 0 if it has no
// members.
type visit struct {
	s  *jsonschema.Schema
	at uintptr
}

// checkWeight returns a *schema.LimitError if the validation of v needs too many visits.
func checkWeight(s *jsonschema.Schema, v any) error {
	w := weighing{known: map[visit]int{}}
	if w.visits(s, v) < mostVisits {
		return nil
	}
	return &schema.LimitError{What: fmt.Sprintf("its validation takes more than %d steps", mostVisits)}
}

func (w *weighing) visits(s *jsonschema.Schema, v any) int {
	if s == nil {
		return 0
	}
	one := visit{s, address(v)}
	if n, known := w.known[one]; known {
		return n
	}
	if w.steps++; w.steps >= mostVisits {
		return mostVisits
	}
	w.known[one] = 1 // for a cycle; validation stops there
	n := 1
	if s.Enum != nil {
		n += len(s.Enum.Values)
	}
	for _, same := range sameValueOf(s) {
		n = min(n+w.visits(same, v), mostVisits)
	}
	switch v := v.(type) {
	case map[string]any:
		n = min(n+w.members(s, v), mostVisits)
	case []any:
		n = min(n+w.items(s, v), mostVisits)
	}
	w.known[one] = n
	return n
}

func address(v any) uintptr {
	switch v := v.(type) {
	case map[string]any:
		if len(v) > 0 {
			return reflect.ValueOf(v).Pointer()
		}
	case []any:
		if len(v) > 0 {
			return reflect.ValueOf(v).Pointer()
		}
	}
	return 0
}

// sameValueOf returns the other schemas that apply to a value of s.
func sameValueOf(s *jsonschema.Schema) []*jsonschema.Schema {
	out := slices.Concat(s.AllOf, s.AnyOf, s.OneOf, []*jsonschema.Schema{s.Ref, s.RecursiveRef, s.Not, s.If,
		s.Then, s.Else})
	if s.DynamicRef != nil {
		out = append(out, s.DynamicRef.Ref)
	}
	for _, d := range s.Dependencies {
		if one, is := d.(*jsonschema.Schema); is {
			out = append(out, one)
		}
	}
	return slices.AppendSeq(out, maps.Values(s.DependentSchemas))
}

func (w *weighing) members(s *jsonschema.Schema, v map[string]any) (n int) {
	additional, _ := s.AdditionalProperties.(*jsonschema.Schema)
	for name, in := range v {
		n += w.visits(s.PropertyNames, name) + w.visits(s.UnevaluatedProperties, in) +
			len(s.PatternProperties)
		own, declared := s.Properties[name]
		n += w.visits(own, in)
		if !declared {
			n += w.visits(additional, in)
		}
		for pattern, one := range s.PatternProperties {
			if pattern.MatchString(name) {
				n += w.visits(one, in)
			}
		}
		if n = min(n, mostVisits); n == mostVisits {
			return n
		}
	}
	return n
}

func (w *weighing) items(s *jsonschema.Schema, v []any) (n int) {
	all, _ := s.Items.(*jsonschema.Schema)
	places, _ := s.Items.([]*jsonschema.Schema)
	places = append(slices.Clip(places), s.PrefixItems...)
	additional, _ := s.AdditionalItems.(*jsonschema.Schema)
	for i, in := range v {
		n += w.visits(all, in) + w.visits(s.Contains, in) + w.visits(s.UnevaluatedItems, in)
		if i < len(places) {
			n += w.visits(places[i], in)
		} else {
			n += w.visits(additional, in) + w.visits(s.Items2020, in)
		}
		if n = min(n, mostVisits); n == mostVisits {
			return n
		}
	}
	return n
}

// alwaysFast returns true if no payload takes long to validate: the schema is not recursive, and few paths
// lead from its root to its parts.
func alwaysFast(root *node) bool {
	const mostWays = 1000
	known := map[*node]int{}
	var ways func(n *node) int
	ways = func(n *node) int {
		if out, is := known[n]; is {
			return out
		}
		known[n] = mostWays // for a path that leads back to n, which is recursion
		out := 1 + len(n.Enum)
		next := directParts(n)
		if n.Ref != "" {
			to, ok := target(root, n.Ref)
			if !ok {
				return mostWays // the target of a reference is unknown
			}
			next = append(next, to)
		}
		if n.word["$dynamicRef"] != nil || n.word["$recursiveRef"] != nil {
			return mostWays
		}
		for _, one := range next {
			if one != nil {
				out = min(out+ways(one), mostWays)
			}
		}
		known[n] = out
		return out
	}
	return ways(root) < mostWays
}
