package jsonschema

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/skald-go/skald/schema"
)

// Format compares JSON Schemas.
type Format struct{}

var (
	_ schema.Format   = Format{}
	_ schema.Verifier = Format{}
)

// Name returns schema.JSON.
func (Format) Name() string { return schema.JSON }

// Problems compares the keywords that event schemas usually use. It reports a problem if it cannot decide,
// for example for two different conditions. It assumes that a writer writes only the properties that it
// declares, even if its schema allows others. So adding an optional property is not a problem.
func (Format) Problems(reader, writer schema.Schema) ([]schema.Problem, error) {
	if len(reader.Imports)+len(writer.Imports) > 0 {
		return nil,
			fmt.Errorf("a JSON Schema that refers to other schemas of the registry cannot be compared: put them into its $defs")
	}
	r, err := parse(reader.Text)
	if err != nil {
		return nil, err
	}
	w, err := parse(writer.Text)
	if err != nil {
		return nil, err
	}
	c := comparison{reader: r, writer: w, seen: map[pair]int{},
		steps: &steps{takes: map[pair]bool{}}}
	c.schemas(r, w, "$")
	if c.tooMany() {
		return nil, &schema.LimitError{What: fmt.Sprintf("the comparison takes more than %d steps",
			mostSteps)}
	}
	return c.found, nil
}

// Verify validates a payload against a schema. Its error does not contain values of the payload.
func (Format) Verify(s schema.Schema, data []byte) error {
	if len(s.Imports) > 0 {
		return errors.New("a JSON Schema that refers to other schemas of the registry cannot be read here")
	}
	h, err := newChecker(s.Text)
	if err != nil {
		return err
	}
	return h.validate(data)
}

// Readable returns data, because the payload is already JSON.
func (Format) Readable(_ schema.Schema, _ []int, data []byte) ([]byte, error) { return data, nil }

type pair struct{ r, w *node }

// comparison finds values that the writer allows and the reader does not accept.
type comparison struct {
	reader, writer *node // roots
	*steps
	found []schema.Problem
	// seen has the pairs for which a comparison has begun; a pair that occurs again counts as having no
	// problem. The value is the depth of the comparison, or of the outermost unfinished pair on which its
	// result depends.
	seen       map[pair]int
	depth, low int
}

// steps counts the steps of a comparison and of its nested comparisons.
type steps struct {
	taken int
	takes map[pair]bool // cached results of the method tries
}

const (
	mostSteps = 100_000
	mostFound = 1000
)

// tooMany returns true if the comparison has too many steps, and must stop.
func (s *steps) tooMany() bool { return s.taken > mostSteps }

func (c *comparison) report(path, rule, saw string, args ...any) {
	if len(c.found) < mostFound {
		c.found = append(c.found, schema.Problem{Field: fmt.Sprintf("%.300s", path), Rule: rule,
			Observed: fmt.Sprintf(saw, args...)})
	}
}

func isTrue(s *node) bool { return s == nil || s.tree == true || s.word != nil && len(s.word) == 0 }

func isFalse(s *node) bool { return s != nil && s.tree == false }

func text(v any) string {
	out, err := json.Marshal(v)
	if err != nil {
		return err.Error()
	}
	return string(out)
}

func (c *comparison) schemas(r, w *node, path string) {
	if isTrue(r) || isFalse(w) {
		return
	}
	if w == nil {
		w = &node{tree: map[string]any{}}
	}
	c.taken++
	both := pair{r, w}
	if at, seen := c.seen[both]; seen || c.tooMany() {
		c.low = min(c.low, at)
		return
	}
	c.depth++
	outer := c.low
	c.seen[both], c.low = c.depth, c.depth
	c.unseen(r, w, path)
	c.seen[both], c.low = c.low, min(outer, c.low)
	c.depth--
}

func (c *comparison) unseen(r, w *node, path string) {
	if r.Ref != "" || w.Ref != "" {
		if c.compareSiblings(r, w, path) {
			return
		}
	}
	r, okR := follow(c.reader, r)
	w, okW := follow(c.writer, w)
	switch {
	case !okR || !okW:
		c.report(path, "a $ref cannot be followed", "only references within the schema can be")
		return
	case isFalse(r):
		c.report(path, "the reader does not allow it", "reader false, writer %.100s", w.text())
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

// follow returns the part to which a reference within the same schema leads.
func follow(root, s *node) (*node, bool) {
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

// compareSiblings compares the keywords next to references. The result complete is true if there is nothing
// else to compare.
func (c *comparison) compareSiblings(r, w *node, path string) (complete bool) {
	same := func() bool { return c.meaning(c.reader, r.text()) == c.meaning(c.writer, w.text()) }
	ours, theirs := siblings(r), siblings(w)
	switch {
	case ours == nil && theirs == nil:
		return false
	case same():
		return true
	case theirs != nil:
		c.report(path, "compatibility cannot be decided", "the writer has keywords next to a $ref")
		return true
	}
	c.schemas(ours, w, path)
	return false
}

// branches compares alternatives. The reader must accept each alternative of the writer. The result
// complete is true if there is nothing else to compare.
func (c *comparison) branches(r, w *node, path string) (complete bool) {
	if r.OneOf != nil && c.meaning(c.reader, texts(r.OneOf)) == c.meaning(c.writer, texts(w.OneOf)) &&
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
		if c.accepts(one, w, path) {
			c.checkOneOf(r, w, one, path)
			return false
		}
	}
	c.report(path, "none of the reader's alternatives accepts it", "writer %.100s", w.text())
	return true
}

// accepts returns true if the schema r accepts all values that the schema w allows. It caches the result;
// otherwise nested alternatives would take exponential time. It does not cache a result that depends on an
// unfinished pair.
func (c *comparison) accepts(r, w *node, path string) bool {
	both := pair{r, w}
	if takes, known := c.takes[both]; known {
		return takes
	}
	try := comparison{reader: c.reader, writer: c.writer, steps: c.steps, seen: maps.Clone(c.seen),
		depth: c.depth, low: c.depth + 1}
	c.taken += len(c.seen) / 16
	try.schemas(r, w, path)
	takes := len(try.found) == 0
	switch {
	case c.tooMany():
	case !takes || try.low > c.depth:
		c.takes[both] = takes
	default:
		c.low = min(c.low, try.low)
	}
	return takes
}

// checkOneOf reports a problem if more than one alternative of a oneOf of the reader accepts w.
func (c *comparison) checkOneOf(r, w, takes *node, path string) {
	if !slices.Contains(r.OneOf, takes) {
		return
	}
	for _, one := range r.OneOf {
		if one == takes {
			continue
		}
		back := comparison{reader: c.writer, writer: c.reader, steps: c.steps, seen: map[pair]int{}}
		if c.accepts(one, w, path) || back.accepts(w, one, path) {
			c.report(path, "more than one of the reader's oneOf accepts it", "writer %.100s", w.text())
			return
		}
	}
}

func (c *comparison) types(r, w *node, path string) bool {
	ours, theirs := r.Type, w.Type
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
		c.report(path, "the reader's type does not accept the writer's", "reader %v, writer %v", ours, theirs)
		return false
	}
	return true
}
