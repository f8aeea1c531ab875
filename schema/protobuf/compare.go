package protobuf

import (
	"fmt"

	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/skald-go/skald/schema"
)

type pair struct{ reader, writer protoreflect.FullName }

// comparison checks whether a reader decodes the bytes of a writer to the same values. It is stricter than
// most registries. It also reports values that change although the bytes can be read: a number that becomes
// narrower, and a field that keeps its name but has another number.
type comparison struct {
	seen  map[pair]bool
	found []schema.Problem
	steps int // the number of compared fields and values
}

const (
	mostSteps = 1_000_000
	mostFound = 1000
)

func (c *comparison) report(field, rule, saw string) {
	if len(c.found) < mostFound {
		c.found = append(c.found, schema.Problem{Field: field, Rule: rule, Observed: saw})
	}
}

// tooMany returns true if the comparison has too many steps, and must stop.
func (c *comparison) tooMany() bool { return c.steps > mostSteps }

// problems returns the problems, or an error if the comparison was stopped.
func (c *comparison) problems() ([]schema.Problem, error) {
	if c.tooMany() {
		return nil, &schema.LimitError{What: fmt.Sprintf("the comparison takes more than %d steps",
			mostSteps)}
	}
	return c.found, nil
}

func (c *comparison) messages(r, w protoreflect.MessageDescriptor, path string) {
	both := pair{r.FullName(), w.FullName()}
	if c.seen[both] {
		return
	}
	c.seen[both] = true
	if c.steps += 1 + r.Fields().Len() + w.Fields().Len(); c.tooMany() {
		return
	}
	for i := range w.Fields().Len() {
		wf := w.Fields().Get(i)
		rf := r.Fields().ByNumber(wf.Number())
		if rf != nil {
			c.fields(rf, wf, path+"."+string(rf.Name()))
		}
		if moved := r.Fields().ByName(wf.Name()); moved != nil && moved.Number() != wf.Number() {
			c.report(path+"."+string(wf.Name()), "field has another number",
				fmt.Sprintf("reader %d, writer %d", moved.Number(), wf.Number()))
		}
	}
	for i := range r.Fields().Len() {
		rf := r.Fields().Get(i)
		wf := w.Fields().ByNumber(rf.Number())
		if rf.Cardinality() == protoreflect.Required &&
			(wf == nil || wf.Cardinality() != protoreflect.Required) {
			c.report(path+"."+string(rf.Name()), "reader requires a field that the writer may leave out",
				fmt.Sprintf("number %d", rf.Number()))
		}
	}
	c.oneofs(r, w, path)
}

// oneofs reports fields that the writer can set together, but that are in one oneof of the reader. The reader
// would keep only one of them.
func (c *comparison) oneofs(r, w protoreflect.MessageDescriptor, path string) {
	for i := range r.Oneofs().Len() {
		o := r.Oneofs().Get(i)
		var first protoreflect.FieldDescriptor
		for j := range o.Fields().Len() {
			wf := w.Fields().ByNumber(o.Fields().Get(j).Number())
			switch {
			case wf == nil:
			case first == nil:
				first = wf
			case wf.ContainingOneof() == nil || wf.ContainingOneof() != first.ContainingOneof():
				c.report(path+"."+string(o.Name()), "fields of the writer moved into one oneof",
					fmt.Sprintf("%s and %s", first.Name(), wf.Name()))
			}
		}
	}
}

func (c *comparison) fields(r, w protoreflect.FieldDescriptor, path string) {
	saw := fmt.Sprintf("reader %s, writer %s", named(r), named(w))
	switch {
	case r.IsList() != w.IsList() || r.IsMap() != w.IsMap():
		c.report(path, "repeated, map and single are not the same", saw)
	case r.Kind() == protoreflect.MessageKind && w.Kind() == r.Kind(), r.Kind() == protoreflect.GroupKind &&
		w.Kind() == r.Kind():
		c.messages(r.Message(), w.Message(), path)
	case r.Kind() == protoreflect.EnumKind && w.Kind() == r.Kind():
		c.enums(r.Enum(), w.Enum(), path)
	case !sameValue(r.Kind(), w.Kind()):
		c.report(path, "the reader's type cannot hold the writer's", saw)
	}
}

func named(f protoreflect.FieldDescriptor) string {
	label := ""
	switch {
	case f.IsMap():
		return fmt.Sprintf("map of %s to %s", named(f.MapKey()), named(f.MapValue()))
	case f.IsList():
		label = "repeated "
	}
	switch f.Kind() {
	case protoreflect.MessageKind, protoreflect.GroupKind:
		return label + string(f.Message().Name())
	case protoreflect.EnumKind:
		return label + string(f.Enum().Name())
	}
	return label + f.Kind().String()
}

// sameValue returns true if each value of the writer's kind is the same value in the reader's kind.
func sameValue(r, w protoreflect.Kind) bool {
	if r == w {
		return true
	}
	switch w {
	case protoreflect.BoolKind:
		return r == protoreflect.Int32Kind || r == protoreflect.Int64Kind || r == protoreflect.Uint32Kind ||
			r == protoreflect.Uint64Kind
	case protoreflect.EnumKind:
		return r == protoreflect.Int32Kind || r == protoreflect.Int64Kind
	case protoreflect.Int32Kind:
		return r == protoreflect.Int64Kind
	case protoreflect.Uint32Kind:
		return r == protoreflect.Uint64Kind || r == protoreflect.Int64Kind
	case protoreflect.Sint32Kind:
		return r == protoreflect.Sint64Kind
	case protoreflect.StringKind:
		return r == protoreflect.BytesKind
	}
	return false
}

// enums reports lost and renumbered values. Only a closed enum (proto2) loses unknown values.
func (c *comparison) enums(r, w protoreflect.EnumDescriptor, path string) {
	if c.steps += w.Values().Len(); c.tooMany() {
		return
	}
	for i := range w.Values().Len() {
		wv := w.Values().Get(i)
		if r.IsClosed() && r.Values().ByNumber(wv.Number()) == nil {
			c.report(path, "closed enum of the reader lacks a value",
				fmt.Sprintf("%s = %d", wv.Name(), wv.Number()))
		}
		if moved := r.Values().ByName(wv.Name()); moved != nil && moved.Number() != wv.Number() &&
			r.Values().ByNumber(wv.Number()) != nil {
			c.report(path, "enum value has another number",
				fmt.Sprintf("%s: reader %d, writer %d", wv.Name(), moved.Number(), wv.Number()))
		}
	}
}
