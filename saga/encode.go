package saga

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/internal/saga/body"
)

func typeOf[T any]() reflect.Type { return reflect.TypeFor[T]() }

// encode checks a size when a value is written.
func encode(what string, v any, most int) (json.RawMessage, error) {
	data, err := json.Marshal(v)
	if err != nil {
		return nil, skald.Permanent(fmt.Errorf("encode %s as JSON: %w", what, err))
	}
	if err := body.Fits(what, data, most); err != nil {
		return nil, err
	}
	return data, nil
}

func encodeOutput(f *body.Facts, out any) (json.RawMessage, error) {
	return encode("the output of the step "+f.Step, out, f.Definition.MaxBytes)
}

func decodeOutput[Out any](f *body.Facts, data json.RawMessage) (out Out, err error) {
	if data == nil {
		return out, nil
	}
	if err := json.Unmarshal(data, &out); err != nil {
		return out, skald.Permanent(fmt.Errorf("read the output of the step %s: %w", f.Step, err))
	}
	return out, nil
}

// shapeOf is how values of a type look as JSON: {"id":string,"lines":[{"sku":string}]}. Two types of one
// shape read each other.
func shapeOf[T any]() string {
	var b strings.Builder
	shape(&b, typeOf[T](), nil)
	return b.String()
}

func shape(b *strings.Builder, t reflect.Type, within []reflect.Type) {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if slices.Contains(within, t) || len(within) > 20 {
		b.WriteString(t.String())
		return
	}
	within = append(within, t)
	if own(t) {
		b.WriteString(t.String())
		return
	}
	switch t.Kind() {
	case reflect.Bool:
		b.WriteString("bool")
	case reflect.String:
		b.WriteString("string")
	case reflect.Struct:
		fields(b, t, within)
	case reflect.Slice, reflect.Array:
		if t.Elem().Kind() == reflect.Uint8 && t.Kind() == reflect.Slice {
			b.WriteString("string")
			return
		}
		b.WriteByte('[')
		shape(b, t.Elem(), within)
		b.WriteByte(']')
	case reflect.Map:
		b.WriteString("{*:")
		shape(b, t.Elem(), within)
		b.WriteByte('}')
	case reflect.Interface:
		b.WriteString("any")
	default:
		if t.Kind() >= reflect.Int && t.Kind() <= reflect.Float64 {
			b.WriteString("number")
			return
		}
		b.WriteString(t.String()) // no JSON: encoding fails
	}
}

// own tells of a type that writes itself.
func own(t reflect.Type) bool {
	for _, i := range []reflect.Type{reflect.TypeFor[json.Marshaler](),
		reflect.TypeFor[interface{ MarshalText() ([]byte, error) }]()} {
		if t.Implements(i) || reflect.PointerTo(t).Implements(i) {
			return true
		}
	}
	return false
}

func fields(b *strings.Builder, t reflect.Type, within []reflect.Type) {
	var out []string
	for _, f := range reflect.VisibleFields(t) {
		name, opts, _ := strings.Cut(f.Tag.Get("json"), ",")
		embedded := f.Anonymous && name == "" // its fields are visible themselves
		if !f.IsExported() || name == "-" && opts == "" || embedded || len(f.Index) > 1 &&
			!promoted(t, f.Index) {
			continue
		}
		if name == "" {
			name = f.Name
		}
		var one strings.Builder
		one.WriteString(strconv.Quote(name) + ":")
		if strings.Contains(","+opts+",", ",string,") {
			one.WriteString("string")
		} else {
			shape(&one, f.Type, within)
		}
		out = append(out, one.String())
	}
	slices.Sort(out)
	b.WriteString("{" + strings.Join(out, ",") + "}")
}

// promoted tells of a field of embedded structs whether JSON shows it on the outside: none of them has a name
// of its own.
func promoted(t reflect.Type, index []int) bool {
	for i := 1; i < len(index); i++ {
		if f := t.FieldByIndex(index[:i]); f.Tag.Get("json") != "" {
			return false
		}
	}
	return true
}
