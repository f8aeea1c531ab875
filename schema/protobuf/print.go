package protobuf

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"

	"github.com/skald-go/skald/schema"
)

// builtIn returns true if every registry and compiler has the file.
func builtIn(path string) bool { return strings.HasPrefix(path, "google/protobuf/") }

func addImports(s *schema.Schema, f protoreflect.FileDescriptor) error {
	for i := range f.Imports().Len() {
		one := f.Imports().Get(i)
		if builtIn(one.Path()) || slices.ContainsFunc(s.Imports,
			func(i schema.Import) bool { return i.Name == one.Path() }) {
			continue
		}
		if err := addImports(s, one.FileDescriptor); err != nil {
			return err
		}
		text, err := printed(one.FileDescriptor)
		if err != nil {
			return err
		}
		add := schema.Import{Name: one.Path(), Text: text}
		for j := range one.Imports().Len() {
			if path := one.Imports().Get(j).Path(); !builtIn(path) {
				add.Needs = append(add.Needs, path)
			}
		}
		s.Imports = append(s.Imports, add)
	}
	return nil
}

// printer prints a file as .proto text. It omits everything that does not change the format of payloads:
// comments, services and options for languages.
type printer struct {
	strings.Builder
	depth  int
	proto3 bool
	err    error
}

func printed(f protoreflect.FileDescriptor) (string, error) {
	d := protodesc.ToFileDescriptorProto(f)
	p := printer{proto3: d.GetSyntax() == "proto3"}
	if d.GetSyntax() == "editions" {
		return "",
			fmt.Errorf(
				"%s: its syntax is an edition, which is not supported: use proto3 or proto2",
				d.GetName())
	}
	if len(d.Extension) > 0 {
		return "", fmt.Errorf("%s: it extends messages, which is not supported", d.GetName())
	}
	syntax := "proto2"
	if p.proto3 {
		syntax = "proto3"
	}
	p.line("syntax = %q;", syntax)
	if d.GetPackage() != "" {
		p.line("package %s;", d.GetPackage())
	}
	for i, path := range d.Dependency {
		how := ""
		if slices.Contains(d.PublicDependency, int32(i)) {
			how = "public "
		}
		p.line("import %s%q;", how, path)
	}
	for _, m := range d.MessageType {
		p.message(m)
	}
	for _, e := range d.EnumType {
		p.enum(e)
	}
	return p.String(), p.err
}

func (p *printer) line(format string, args ...any) {
	p.WriteString(strings.Repeat("  ", p.depth))
	fmt.Fprintf(p, format, args...)
	p.WriteString("\n")
}

func (p *printer) message(m *descriptorpb.DescriptorProto) {
	p.line("message %s {", m.GetName())
	p.depth++
	entries := map[string]*descriptorpb.DescriptorProto{}
	for _, n := range m.NestedType {
		if n.GetOptions().GetMapEntry() {
			entries[n.GetName()] = n
		} else {
			p.message(n)
		}
	}
	for _, e := range m.EnumType {
		p.enum(e)
	}
	if len(m.Extension) > 0 {
		p.err = fmt.Errorf("message %s: it extends messages, which is not supported", m.GetName())
	}
	begun := map[int32]bool{}
	for _, f := range m.Field {
		switch {
		case f.OneofIndex == nil || f.GetProto3Optional():
			p.field(f, entries, p.label(f))
		case !begun[f.GetOneofIndex()]:
			begun[f.GetOneofIndex()] = true
			p.oneof(m, f.GetOneofIndex())
		}
	}
	for _, r := range m.ExtensionRange {
		p.line("extensions %s;", span(r.GetStart(), r.GetEnd()-1))
	}
	for _, r := range m.ReservedRange {
		p.line("reserved %s;", span(r.GetStart(), r.GetEnd()-1))
	}
	for _, n := range m.ReservedName {
		p.line("reserved %q;", n)
	}
	p.depth--
	p.line("}")
}

func span(first, last int32) string {
	switch {
	case first == last:
		return strconv.Itoa(int(first))
	case last >= 1<<29-1: // the maximum of fields; that of enums is larger
		return fmt.Sprintf("%d to max", first)
	}
	return fmt.Sprintf("%d to %d", first, last)
}

func (p *printer) oneof(m *descriptorpb.DescriptorProto, index int32) {
	p.line("oneof %s {", m.OneofDecl[index].GetName())
	p.depth++
	for _, f := range m.Field {
		if f.OneofIndex != nil && f.GetOneofIndex() == index {
			p.field(f, nil, "")
		}
	}
	p.depth--
	p.line("}")
}

func (p *printer) label(f *descriptorpb.FieldDescriptorProto) string {
	switch f.GetLabel() {
	case descriptorpb.FieldDescriptorProto_LABEL_REPEATED:
		return "repeated "
	case descriptorpb.FieldDescriptorProto_LABEL_REQUIRED:
		return "required "
	}
	if !p.proto3 || f.GetProto3Optional() {
		return "optional "
	}
	return ""
}

func (p *printer) field(f *descriptorpb.FieldDescriptorProto,
	entries map[string]*descriptorpb.DescriptorProto, label string) {
	if f.GetType() == descriptorpb.FieldDescriptorProto_TYPE_GROUP {
		p.err = fmt.Errorf("field %s: it is a group, which is not supported: use a message",
			f.GetName())
	}
	typ := typeName(f)
	if e := entries[lastOf(f.GetTypeName())]; e != nil && label == "repeated " {
		label, typ = "", fmt.Sprintf("map<%s, %s>", typeName(e.Field[0]), typeName(e.Field[1]))
	}
	p.line("%s%s %s = %d%s;", label, typ, f.GetName(), f.GetNumber(), options(f))
}

func lastOf(name string) string { return name[strings.LastIndexByte(name, '.')+1:] }

func typeName(f *descriptorpb.FieldDescriptorProto) string {
	if f.TypeName != nil {
		return f.GetTypeName()
	}
	return strings.ToLower(strings.TrimPrefix(f.GetType().String(), "TYPE_"))
}

func options(f *descriptorpb.FieldDescriptorProto) string {
	var out []string
	if f.DefaultValue != nil {
		v := f.GetDefaultValue()
		switch f.GetType() {
		case descriptorpb.FieldDescriptorProto_TYPE_STRING:
			v = strconv.Quote(v)
		case descriptorpb.FieldDescriptorProto_TYPE_BYTES: // escaped already
			v = `"` + v + `"`
		}
		out = append(out, "default = "+v)
	}
	if f.Options != nil && f.Options.Packed != nil {
		out = append(out, fmt.Sprintf("packed = %t", f.Options.GetPacked()))
	}
	if f.GetOptions().GetDeprecated() {
		out = append(out, "deprecated = true")
	}
	if len(out) == 0 {
		return ""
	}
	return " [" + strings.Join(out, ", ") + "]"
}

func (p *printer) enum(e *descriptorpb.EnumDescriptorProto) {
	p.line("enum %s {", e.GetName())
	p.depth++
	if e.GetOptions().GetAllowAlias() {
		p.line("option allow_alias = true;")
	}
	for _, v := range e.Value {
		p.line("%s = %d;", v.GetName(), v.GetNumber())
	}
	for _, r := range e.ReservedRange {
		p.line("reserved %s;", span(r.GetStart(), r.GetEnd()))
	}
	for _, n := range e.ReservedName {
		p.line("reserved %q;", n)
	}
	p.depth--
	p.line("}")
}
