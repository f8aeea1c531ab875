package jsonschema

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/skald-go/skald/schema"
)

// Format compares JSON Schemas.
type Format struct{}

var (
	_ schema.Format   = Format{}
	_ schema.Verifier = Format{}
)

// Name is schema.JSON.
func (Format) Name() string { return schema.JSON }

func parse(text string) (*jsonschema.Schema, error) {
	var s jsonschema.Schema
	if err := json.Unmarshal([]byte(text), &s); err != nil {
		return nil, fmt.Errorf("no JSON Schema: %w", err)
	}
	if err := acyclic(&s); err != nil {
		return nil, fmt.Errorf("no JSON Schema: %w", err)
	}
	return &s, nil
}

// Problems are found by the rules that schemas of events use. What cannot be told, as of two conditions that
// differ, is a problem, too. A writer is taken to write the properties that it declares and no others, also
// where its schema allows them: adding an optional property is no problem.
func (Format) Problems(reader, writer schema.Schema) ([]schema.Problem, error) {
	if len(reader.Imports)+len(writer.Imports) > 0 {
		return nil, fmt.Errorf("a JSON Schema that refers to other schemas of the registry cannot be compared: put them into its $defs")
	}
	r, err := parse(reader.Text)
	if err != nil {
		return nil, err
	}
	w, err := parse(writer.Text)
	if err != nil {
		return nil, err
	}
	c := comparison{reader: r, writer: w, seen: map[pair]bool{}}
	c.schemas(r, w, "$")
	return c.found, nil
}

// Verify holds a payload to a schema. Its error does not have the value.
func (Format) Verify(s schema.Schema, data []byte) error {
	parsed, err := parse(s.Text)
	if err != nil {
		return err
	}
	resolved, err := parsed.Resolve(nil)
	if err != nil {
		return fmt.Errorf("no JSON Schema: %w", err)
	}
	return (&held{resolved: resolved}).validate(data)
}

// Readable is the payload: it is JSON.
func (Format) Readable(_ schema.Schema, _ []int, data []byte) ([]byte, error) { return data, nil }

type pair struct{ r, w *jsonschema.Schema }

// A comparison looks for what writer allows and reader does not.
type comparison struct {
	reader, writer *jsonschema.Schema // roots
	seen           map[pair]bool
	found          []schema.Problem
}

func (c *comparison) say(path, rule, saw string, args ...any) {
	c.found = append(c.found, schema.Problem{Field: path, Rule: rule, Saw: fmt.Sprintf(saw, args...)})
}

func isTrue(s *jsonschema.Schema) bool { return s == nil || text(s) == "true" || text(s) == "{}" }

func isFalse(s *jsonschema.Schema) bool { return s != nil && text(s) == "false" }

func text(v any) string {
	out, err := json.Marshal(v)
	if err != nil {
		return err.Error()
	}
	return string(out)
}

func (c *comparison) schemas(r, w *jsonschema.Schema, path string) {
	if isTrue(r) || isFalse(w) {
		return
	}
	if w == nil {
		w = &jsonschema.Schema{}
	}
	if both := (pair{r, w}); c.seen[both] {
		return
	} else {
		c.seen[both] = true
	}
	if r.Ref != "" || w.Ref != "" {
		if c.besides(r, w, path) {
			return
		}
	}
	r, okR := follow(c.reader, r)
	w, okW := follow(c.writer, w)
	switch {
	case !okR || !okW:
		c.say(path, "a $ref cannot be followed", "only references within the schema are")
		return
	case isFalse(r):
		c.say(path, "the reader does not allow it", "reader false, writer %.100s", text(w))
		return
	}
	if c.branches(r, w, path) {
		return
	}
	if !c.types(r, w, path) {
		return
	}
	c.values(r, w, path)
	c.objects(r, w, path)
	c.arrays(r, w, path)
	c.undecided(r, w, path)
}

// follow goes along references to parts of the same schema.
func follow(root, s *jsonschema.Schema) (*jsonschema.Schema, bool) {
	for range 32 {
		if s == nil || s.Ref == "" {
			return s, true
		}
		to, ok := target(root, s.Ref)
		if !ok {
			return nil, false
		}
		s = to
	}
	return nil, false
}

func definition(ref string) (name string, ok bool) {
	for _, p := range []string{"#/$defs/", "#/definitions/"} {
		if len(ref) > len(p) && ref[:len(p)] == p {
			return ref[len(p):], true
		}
	}
	return "", false
}

// besides compares what stands beside references, and tells whether that was all.
func (c *comparison) besides(r, w *jsonschema.Schema, path string) (all bool) {
	same := func() bool { return meaning(c.reader, text(r)) == meaning(c.writer, text(w)) }
	ours, theirs := beside(r), beside(w)
	switch {
	case ours == nil && theirs == nil:
		return false
	case same():
		return true
	case theirs != nil:
		c.say(path, "it cannot be told here whether the reader takes it", "the writer has more beside a $ref")
		return true
	}
	c.schemas(ours, w, path)
	return false
}

// branches compares alternatives, and tells whether that was all. Each that the writer has must be one that
// the reader takes.
func (c *comparison) branches(r, w *jsonschema.Schema, path string) (all bool) {
	if r.OneOf != nil && meaning(c.reader, text(r.OneOf)) == meaning(c.writer, text(w.OneOf)) &&
		r.AnyOf == nil && w.AnyOf == nil {
		return false
	}
	if theirs := slices.Concat(w.AnyOf, w.OneOf); len(theirs) > 0 {
		for i, one := range theirs {
			c.schemas(r, one, fmt.Sprintf("%s(%d)", path, i))
		}
		return true
	}
	ours := slices.Concat(r.AnyOf, r.OneOf)
	if len(ours) == 0 {
		return false
	}
	for _, one := range ours {
		try := comparison{reader: c.reader, writer: c.writer, seen: maps.Clone(c.seen)}
		if try.schemas(one, w, path); len(try.found) == 0 {
			c.only(r, w, one, path)
			return false
		}
	}
	c.say(path, "none of the reader's alternatives takes it", "writer %.100s", text(w))
	return true
}

// only: of the alternatives of a oneOf exactly one may take a value.
func (c *comparison) only(r, w, takes *jsonschema.Schema, path string) {
	if !slices.Contains(r.OneOf, takes) {
		return
	}
	for _, one := range r.OneOf {
		if one == takes {
			continue
		}
		all := comparison{reader: c.reader, writer: c.writer, seen: maps.Clone(c.seen)}
		all.schemas(one, w, path)
		part := comparison{reader: c.writer, writer: c.reader, seen: map[pair]bool{}}
		part.schemas(w, one, path)
		if len(all.found) == 0 || len(part.found) == 0 {
			c.say(path, "more than one of the reader's oneOf takes it", "writer %.100s", text(w))
			return
		}
	}
}

func typesOf(s *jsonschema.Schema) []string {
	if s.Type != "" {
		return []string{s.Type}
	}
	return s.Types
}

func (c *comparison) types(r, w *jsonschema.Schema, path string) bool {
	ours, theirs := typesOf(r), typesOf(w)
	if len(ours) == 0 {
		return true
	}
	if listed := options(w); listed != nil {
		return c.listed(r, ours, listed, path)
	}
	takes := func(t string) bool {
		return slices.Contains(ours, t) || t == "integer" && slices.Contains(ours, "number")
	}
	i := slices.IndexFunc(theirs, func(t string) bool { return !takes(t) })
	if i >= 0 || len(theirs) == 0 {
		c.say(path, "the reader's type does not take the writer's", "reader %v, writer %v", ours, theirs)
		return false
	}
	return true
}
