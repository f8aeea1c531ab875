// This file finds values that a reader decodes without an error, but with another meaning.

package avro

import (
	"fmt"
	"slices"
	"strings"

	"github.com/twmb/avro"

	"github.com/skald-go/skald/schema"
)

// walk compares the schemas of a reader and a writer, in the order of Avro's schema resolution. It finds
// values that have the same bytes but another meaning for the reader. Avro's rules do not find these, because
// they compare types and ignore logical types.
type walk struct {
	reader, writer map[string]*avro.SchemaNode // named types
	seen           map[[2]*avro.SchemaNode]bool
	steps          int
}

const mostSteps = 200_000

// otherMeaning returns the first problem, or found=false if there is none. It returns a *schema.LimitError
// if the schemas have too many pairs of types.
func otherMeaning(reader, writer schema.Schema) (p schema.Problem, found bool, err error) {
	w := walk{seen: map[[2]*avro.SchemaNode]bool{}}
	r, named, err := rooted(reader)
	if err != nil {
		return p, false, err
	}
	wrote, theirs, err := rooted(writer)
	if err != nil {
		return p, false, err
	}
	w.reader, w.writer = named, theirs
	p, found = w.types(r, wrote, "", "", nil)
	if w.steps > mostSteps {
		return p, false, &schema.LimitError{What: fmt.Sprintf("the comparison takes more than %d steps",
			mostSteps)}
	}
	return p, found, nil
}

// rooted returns a schema as a tree, and its named types.
func rooted(s schema.Schema) (*avro.SchemaNode, map[string]*avro.SchemaNode, error) {
	named := map[string]*avro.SchemaNode{}
	var all avro.SchemaCache
	for _, i := range s.Imports {
		one, err := all.Parse(i.Text)
		if err != nil {
			return nil, nil, err
		}
		root := one.Root()
		collect(named, root)
	}
	one, err := all.Parse(s.Text)
	if err != nil {
		return nil, nil, err
	}
	root := one.Root()
	collect(named, root)
	return root, named, nil
}

func collect(named map[string]*avro.SchemaNode, n *avro.SchemaNode) {
	if n == nil {
		return
	}
	if n.Name != "" {
		named[fullName(n)] = n
	}
	collect(named, n.Items)
	collect(named, n.Values)
	for i := range n.Branches {
		collect(named, &n.Branches[i])
	}
	for i := range n.Fields {
		lift(&n.Fields[i])
		collect(named, &n.Fields[i].Type)
	}
}

// lift moves the logicalType of a field into the type of the field, as this package's decoder does. Java
// ignores it in the field.
func lift(f *avro.SchemaField) {
	logical, is := f.Props["logicalType"].(string)
	if !is {
		return
	}
	to := &f.Type
	if to.Type == "union" {
		i := slices.IndexFunc(to.Branches, func(b avro.SchemaNode) bool { return b.Type != "null" })
		if i < 0 {
			return
		}
		to = &to.Branches[i]
	}
	if to.LogicalType == "" {
		to.LogicalType = logical
	}
}

// logicalOf returns the logical type that decoders use for n. It returns "" if the logical type does not fit
// n.Type.
func logicalOf(n *avro.SchemaNode) string {
	l := n.LogicalType
	ok := false
	switch n.Type {
	case "int":
		ok = l == "date" || l == "time-millis"
	case "long":
		ok = l == "time-micros" || strings.HasPrefix(l, "timestamp-") || strings.HasPrefix(l,
			"local-timestamp-")
	case "bytes":
		ok = l == "decimal" || l == "big-decimal"
	case "fixed":
		ok = l == "decimal" || l == "duration" || l == "uuid"
	case "string":
		ok = l == "uuid"
	}
	if !ok {
		return ""
	}
	return l
}

func fullName(n *avro.SchemaNode) string {
	if n.Namespace == "" || strings.Contains(n.Name, ".") {
		return n.Name
	}
	return n.Namespace + "." + n.Name
}

// defined returns the definition of n, if n is a reference to a named type; otherwise n. It also returns the
// namespace inside that type.
func defined(named map[string]*avro.SchemaNode, n *avro.SchemaNode,
	within string) (*avro.SchemaNode, string) {
	if n.Name == "" {
		for _, name := range []string{within + "." + n.Type, n.Type} {
			if is := named[name]; is != nil {
				n = is
				break
			}
		}
	}
	if n.Name == "" {
		return n, within
	}
	full := fullName(n)
	return n, full[:max(strings.LastIndex(full, "."), 0)]
}

func (w *walk) types(r, wrote *avro.SchemaNode, in, wroteIn string,
	path []string) (p schema.Problem, found bool) {
	r, in = defined(w.reader, r, in)
	wrote, wroteIn = defined(w.writer, wrote, wroteIn)
	if w.seen[[2]*avro.SchemaNode{r, wrote}] {
		return p, false
	}
	w.seen[[2]*avro.SchemaNode{r, wrote}] = true
	if w.steps += 1 + len(r.Fields) + len(wrote.Fields) + len(r.Branches); w.steps > mostSteps {
		return p, false
	}
	switch {
	case wrote.Type == "union":
		for i := range wrote.Branches {
			if p, found = w.types(r, &wrote.Branches[i], in, wroteIn, path); found {
				return p, true
			}
		}
	case r.Type == "union":
		if one := w.branch(r, wrote, in); one != nil {
			return w.types(one, wrote, in, wroteIn, path)
		}
	case r.Items != nil && wrote.Items != nil:
		return w.types(r.Items, wrote.Items, in, wroteIn, append(path, "items"))
	case r.Values != nil && wrote.Values != nil:
		return w.types(r.Values, wrote.Values, in, wroteIn, append(path, "values"))
	case len(r.Fields) > 0:
		return w.fields(r, wrote, in, wroteIn, path)
	}
	if rule := differs(r, wrote); rule != "" {
		return schema.Problem{Field: short(strings.Join(path, ".")), Rule: rule,
			Observed: fmt.Sprintf("reader %s, writer %s", kindOf(r), kindOf(wrote))}, true
	}
	return p, false
}

// differs returns a description of the other meaning that a value of the writer has for the reader, or "".
// If only one side has a logical type, the number or the bytes are the same, so there is no problem. The
// exception is a string and a decimal.
func differs(r, writer *avro.SchemaNode) string {
	ours, theirs := logicalOf(r), logicalOf(writer)
	switch {
	case ours != "" && theirs != "" && ours != theirs:
		return "the reader takes it for another value"
	case writer.Type == "string" && strings.HasSuffix(ours, "decimal"):
		return "the reader takes a text for the bytes of a number"
	case r.Type == "string" && strings.HasSuffix(theirs, "decimal"):
		return "the reader takes the bytes of a number for a text"
	}
	return ""
}

func kindOf(n *avro.SchemaNode) string {
	if l := logicalOf(n); l != "" {
		return fmt.Sprintf("%.100s of type %.100s", l, n.Type)
	}
	return short(n.Type)
}

func (w *walk) fields(r, wrote *avro.SchemaNode, in, wroteIn string,
	path []string) (p schema.Problem, found bool) {
	for i := range r.Fields {
		f := &r.Fields[i]
		names := append([]string{f.Name}, f.Aliases...)
		written := false
		for _, name := range names {
			at := slices.IndexFunc(wrote.Fields, func(one avro.SchemaField) bool { return one.Name == name })
			if at < 0 {
				continue
			}
			written = true
			if p, found = w.types(&f.Type, &wrote.Fields[at].Type, in, wroteIn,
				append(slices.Clip(path), f.Name)); found {
				return p, true
			}
			break
		}
		if !written && f.HasDefault && w.spelled(&f.Type, f.Default, in, 0) {
			return schema.Problem{Field: short(strings.Join(append(slices.Clip(path), f.Name), ".")),
				Rule:     "the default of a decimal is the text of a number, and has to be the bytes of the unscaled one",
				Observed: "reader " + kindOf(&f.Type)}, true
		}
	}
	return p, false
}

// isNumber returns true if text has the form of a decimal number.
func isNumber(text []byte) bool {
	digits := strings.TrimLeft(string(text), "+-")
	return strings.ContainsAny(digits, "0123456789") && strings.Trim(digits, "0123456789.,") == ""
}

// spelled returns true if the default of a decimal is the text of a number. It should be the bytes of the
// number.
func (w *walk) spelled(n *avro.SchemaNode, v any, in string, depth int) bool {
	n, in = defined(w.reader, n, in)
	if depth > 50 {
		return false
	}
	switch v := v.(type) {
	case []byte:
		decimal := func(n *avro.SchemaNode) bool { return n.Type == "bytes" && logicalOf(n) == "decimal" }
		in := func(b avro.SchemaNode) bool { return decimal(&b) }
		return isNumber(v) && (decimal(n) || slices.ContainsFunc(n.Branches, in))
	case []any:
		return n.Items != nil && slices.ContainsFunc(v, func(one any) bool {
			return w.spelled(n.Items, one,
				in, depth+1)
		})
	case map[string]any:
		for name, one := range v {
			if n.Values != nil && w.spelled(n.Values, one, in, depth+1) {
				return true
			}
			i := slices.IndexFunc(n.Fields, func(f avro.SchemaField) bool { return f.Name == name })
			if i >= 0 && w.spelled(&n.Fields[i].Type, one, in, depth+1) {
				return true
			}
		}
	}
	return false
}

// branch returns the branch of the reader's union that reads a value of the writer. It is the branch with
// the same name, or else with the same name without the namespace, or else the first branch to which the
// writer's type can be promoted.
func (w *walk) branch(r, writer *avro.SchemaNode, in string) *avro.SchemaNode {
	become := map[string][]string{"int": {"long", "float", "double"}, "long": {"float", "double"},
		"float": {"double"}, "string": {"bytes"}, "bytes": {"string"}}
	for _, fits := range []func(one *avro.SchemaNode) bool{
		func(one *avro.SchemaNode) bool {
			return one.Type == writer.Type && (one.Name == "" || fullName(one) == fullName(writer) ||
				slices.Contains(one.Aliases, fullName(writer)))
		},
		func(one *avro.SchemaNode) bool {
			return one.Type == writer.Type && (one.Name == writer.Name || slices.Contains(one.Aliases,
				writer.Name))
		},
		func(one *avro.SchemaNode) bool { return slices.Contains(become[writer.Type], one.Type) },
	} {
		for i := range r.Branches {
			if one, _ := defined(w.reader, &r.Branches[i], in); fits(one) {
				return &r.Branches[i]
			}
		}
	}
	return nil
}
