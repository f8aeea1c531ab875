package plan

import (
	"fmt"
	"strings"
)

// shapeChange returns the differences if JSON data of the old shape is decoded to a type of the current
// shape, and their class. It returns "" if there are no differences. A field that only one shape has is
// ignored, or zero. But if each shape has a field that the other lacks, the field was probably renamed, and
// its data would be lost.
func shapeChange(old, current string) (why string, class Class) {
	if old == current || old == "" || current == "" || current == "any" {
		return "", Compatible
	}
	from, to := members(old), members(current)
	if from == nil || to == nil {
		if in, ok := strings.CutPrefix(old, "["); ok && strings.HasPrefix(current, "[") {
			return shapeChange(strings.TrimSuffix(in, "]"), strings.TrimSuffix(current[1:], "]"))
		}
		return fmt.Sprintf("%.100s is read as %.100s", old, current), Refuses
	}
	var gone, came []string
	for _, name := range from.names {
		other, ok := to.of[name]
		if !ok {
			gone = append(gone, name)
		} else if why, class := shapeChange(from.of[name], other); class == Refuses {
			return name + ": " + why, class
		}
	}
	for _, name := range to.names {
		if _, ok := from.of[name]; !ok {
			came = append(came, name)
		}
	}
	switch {
	case len(gone) > 0 && len(came) > 0:
		return fmt.Sprintf("%s was removed and %s was added: was it renamed? Older sagas have the older name",
			strings.Join(gone, ", "), strings.Join(came, ", ")), Refuses
	case len(gone) > 0:
		return strings.Join(gone, ", ") + " is not read any more", Compatible
	case len(came) > 0:
		return strings.Join(came, ", ") + " is new, and zero in older sagas", Compatible
	}
	return "", Compatible
}

type object struct {
	names []string          // quoted, in order
	of    map[string]string // shape of each member, by name
}

// members parses the shape of an object. It returns nil for other shapes.
func members(shape string) *object {
	in, ok := strings.CutPrefix(shape, "{")
	if !ok || !strings.HasSuffix(in, "}") {
		return nil
	}
	o := &object{of: map[string]string{}}
	for _, part := range split(strings.TrimSuffix(in, "}")) {
		at := nameEnd(part)
		if at < 0 {
			return nil
		}
		o.names = append(o.names, part[:at])
		o.of[part[:at]] = part[at+1:]
	}
	return o
}

// nameEnd returns the index of the colon after a member's name, or -1.
func nameEnd(part string) int {
	quoted := false
	for i := 0; i < len(part); i++ {
		switch {
		case part[i] == '\\':
			i++
		case part[i] == '"':
			quoted = !quoted
		case part[i] == ':' && !quoted:
			return i
		}
	}
	return -1
}

// split splits members at the commas that are not within other members.
func split(s string) (out []string) {
	depth, start, quoted := 0, 0, false
	for i := 0; i < len(s); i++ {
		switch c := s[i]; {
		case c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case quoted:
		case c == '{' || c == '[':
			depth++
		case c == '}' || c == ']':
			depth--
		case c == ',' && depth == 0:
			out, start = append(out, s[start:i]), i+1
		}
	}
	if start < len(s) {
		out = append(out, s[start:])
	}
	return out
}
