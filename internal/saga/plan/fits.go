package plan

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Nothing is the shape of a type without a field: no data has to be given for it.
const Nothing = "{}"

// Fits tells why JSON cannot be a value of a shape; "" where it can, or where the shape does not tell. Null
// and an object that lacks fields can be one of any shape: encoding/json takes them, too.
func Fits(shape string, data []byte) string {
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		return "it is no JSON"
	}
	return fits(shape, v, "")
}

func fits(shape string, v any, at string) string {
	is, want := kindOf(v), shape
	o := members(shape)
	switch {
	case v == nil || shape == "" || shape == "any":
		return ""
	case o != nil:
		want = "object"
	case strings.HasPrefix(shape, "[") && strings.HasSuffix(shape, "]"):
		want = "array"
	case !slices.Contains([]string{"string", "number", "bool"}, shape):
		return "" // a type that writes itself
	}
	if is != want {
		return fmt.Sprintf("%sit is %s and has to be %s", place(at), article(is), article(want))
	}
	switch v := v.(type) {
	case []any:
		for i, one := range v {
			if why := fits(shape[1:len(shape)-1], one, fmt.Sprintf("%s[%d]", at, i)); why != "" {
				return why
			}
		}
	case map[string]any:
		return o.fits(v, at)
	}
	return ""
}

func (o *object) fits(v map[string]any, at string) string {
	each, free := o.of["*"]
	of, known := map[string]string{}, make([]string, len(o.names))
	for i, quoted := range o.names {
		known[i] = quoted
		if name, err := strconv.Unquote(quoted); err == nil {
			known[i], of[strings.ToLower(name)] = name, o.of[quoted]
		}
	}
	for name, one := range v {
		shape, ok := of[strings.ToLower(name)] // as encoding/json matches them
		switch {
		case free:
			shape = each
		case !ok && len(known) == 0:
			return fmt.Sprintf("%sit has the field %q, and none is known", place(at), name)
		case !ok:
			return fmt.Sprintf("%sit has the field %q; known are %s", place(at), name,
				strings.Join(known, ", "))
		}
		if why := fits(shape, one, strings.TrimPrefix(at+"."+name, ".")); why != "" {
			return why
		}
	}
	return ""
}

func kindOf(v any) string {
	switch v.(type) {
	case string:
		return "string"
	case json.Number:
		return "number"
	case bool:
		return "bool"
	case []any:
		return "array"
	}
	return "object"
}

func article(kind string) string {
	if kind == "array" || kind == "object" {
		return "an " + kind
	}
	return "a " + kind
}

func place(at string) string {
	if at == "" {
		return ""
	}
	return at + ": "
}
