package avro

import (
	"fmt"
	"slices"
	"strings"

	"github.com/twmb/avro"

	"github.com/skald-go/skald/schema"
)

// isTime tells the logical types of a time. A number that was written as one of them is another time as
// another one, which the rules of Avro let pass.
func isTime(logical string) bool {
	return logical == "date" || strings.HasPrefix(logical, "time-") ||
		strings.HasPrefix(logical, "timestamp-") ||
		strings.HasPrefix(logical, "local-timestamp-")
}

// A walk goes along a reader's and a writer's schema that resolve.
type walk struct {
	reader, writer map[string]*avro.SchemaNode // the types that have names
	seen           map[[2]*avro.SchemaNode]bool
}

// otherTimes looks for a time that the reader would take for another one.
func otherTimes(reader, writer schema.Schema) (schema.Problem, bool) {
	w := walk{seen: map[[2]*avro.SchemaNode]bool{}}
	r, named, err := rooted(reader)
	if err != nil {
		return schema.Problem{}, false
	}
	wrote, theirs, err := rooted(writer)
	if err != nil {
		return schema.Problem{}, false
	}
	w.reader, w.writer = named, theirs
	return w.types(r, wrote, "", "", nil)
}

// rooted is a schema as a tree, with all types that have names.
func rooted(s schema.Schema) (*avro.SchemaNode, map[string]*avro.SchemaNode, error) {
	named := map[string]*avro.SchemaNode{}
	var all avro.SchemaCache
	for _, i := range s.Imports {
		one, err := all.Parse(i.Text)
		if err != nil {
			return nil, nil, err
		}
		collect(named, one.Root())
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
		collect(named, &n.Fields[i].Type)
	}
}

func fullName(n *avro.SchemaNode) string {
	if n.Namespace == "" || strings.Contains(n.Name, ".") {
		return n.Name
	}
	return n.Namespace + "." + n.Name
}

// defined is what n stands for, if it is the name of a type, and the namespace within it.
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
	case isTime(r.LogicalType) && isTime(wrote.LogicalType) && r.LogicalType != wrote.LogicalType:
		return schema.Problem{Field: short(strings.Join(path, ".")),
			Rule: "the reader takes it for another time",
			Saw:  fmt.Sprintf("reader %s, writer %s", r.LogicalType, wrote.LogicalType)}, true
	}
	return p, false
}

func (w *walk) fields(r, wrote *avro.SchemaNode, in, wroteIn string,
	path []string) (p schema.Problem, found bool) {
	for i := range r.Fields {
		f := &r.Fields[i]
		names := append([]string{f.Name}, f.Aliases...)
		for _, name := range names {
			at := slices.IndexFunc(wrote.Fields, func(one avro.SchemaField) bool { return one.Name == name })
			if at < 0 {
				continue
			}
			if p, found = w.types(&f.Type, &wrote.Fields[at].Type, in, wroteIn,
				append(slices.Clip(path), f.Name)); found {
				return p, true
			}
			break
		}
	}
	return p, false
}

// branch is the one of the reader's union that a value of that type is read as: the first of the same type,
// else the first that it can become.
func (w *walk) branch(r, wrote *avro.SchemaNode, in string) *avro.SchemaNode {
	become := map[string][]string{"int": {"long", "float", "double"}, "long": {"float", "double"}}
	var promoted *avro.SchemaNode
	for i := range r.Branches {
		one, _ := defined(w.reader, &r.Branches[i], in)
		same := one.Type == wrote.Type
		if same && one.Name != "" {
			same = fullName(one) == fullName(wrote) || len(r.Branches) <= 2
		}
		if same {
			return &r.Branches[i]
		}
		if promoted == nil && slices.Contains(become[wrote.Type], one.Type) {
			promoted = &r.Branches[i]
		}
	}
	return promoted
}
