package saga

import (
	"cmp"
	"context"
	"encoding"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/internal/saga/engine"
	"github.com/skald-go/skald/internal/saga/plan"
)

func typeOf[T any]() reflect.Type { return reflect.TypeFor[T]() }

// encode encodes v as JSON. It returns an error if the JSON has more bytes than the limit.
func encode(what string, v any, limit int) (json.RawMessage, error) {
	var m skald.Message
	if err := (skald.JSON{}).Encode(context.Background(), &m, v); err != nil {
		return nil, skald.Permanent(fmt.Errorf("encode %s: %w", what, err))
	}
	if err := engine.CheckSize(what, m.Data, limit); err != nil {
		return nil, err
	}
	return m.Data, nil
}

func encodeOutput(f *engine.Facts, out any) (json.RawMessage, error) {
	return encode("the output of the step "+f.Step, out, f.Definition.MaxBytes)
}

func decodeOutput[Out any](f *engine.Facts, data json.RawMessage) (out Out, err error) {
	if data == nil {
		return out, nil
	}
	if err := json.Unmarshal(data, &out); err != nil {
		return out, skald.Permanent(fmt.Errorf("read the output of the step %s: %w", f.Step, err))
	}
	return out, nil
}

// shapeOf returns the JSON structure of a type's values, for example {"id":string,"lines":[{"sku":string}]}.
// Types with the same shape can decode each other's values.
func shapeOf[T any]() string {
	var s shaper
	s.shape(typeOf[T](), nil)
	return s.String()
}

// readsOf returns the JSON structure that a type can decode, or "" if this is the same as shapeOf.
func readsOf[T any]() string {
	s := shaper{reads: true}
	s.shape(typeOf[T](), nil)
	if s.String() == shapeOf[T]() {
		return ""
	}
	return s.String()
}

// shaper writes the JSON structure of a type.
type shaper struct {
	strings.Builder
	reads bool // write the structure that the type decodes, not the one that it encodes
}

func (s *shaper) shape(t reflect.Type, within []reflect.Type) {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	name := t.String()
	if s.reads {
		name = "any"
	}
	if slices.Contains(within, t) || len(within) > 20 {
		s.WriteString(name)
		return
	}
	within = append(within, t)
	if own, as := s.ownEncoding(t); own {
		s.WriteString(cmp.Or(as, name))
		return
	}
	switch k := t.Kind(); {
	case k == reflect.Bool, k == reflect.String:
		s.WriteString(k.String())
	case k == reflect.Struct:
		s.fields(t, within)
	case k == reflect.Slice && t.Elem().Kind() == reflect.Uint8:
		s.WriteString(s.either("string", plan.Bytes))
	case k == reflect.Slice, k == reflect.Array:
		s.WriteByte('[')
		s.shape(t.Elem(), within)
		s.WriteByte(']')
	case k == reflect.Map:
		key := "*"
		if own, _ := s.ownEncoding(t.Key()); s.reads && !own && number(t.Key().Kind()) {
			key = sized(t.Key())
		}
		s.WriteString("{" + key + ":")
		s.shape(t.Elem(), within)
		s.WriteByte('}')
	case k == reflect.Interface:
		s.WriteString("any")
	case number(k):
		s.WriteString(s.either("number", sized(t)))
	default:
		s.WriteString(name) // the type has no JSON, so its encoding fails
	}
}

func (s *shaper) either(shape, reads string) string {
	if s.reads {
		return reads
	}
	return shape
}

func number(k reflect.Kind) bool { return k >= reflect.Int && k <= reflect.Float64 }

// sized returns the kind of a number with its bits. For an int it is int64.
func sized(t reflect.Type) string {
	kind := strings.TrimSuffix(strings.TrimRight(t.Kind().String(), "0123456789"), "ptr")
	return kind + strconv.Itoa(t.Bits())
}

// ownEncoding reports whether a type has its own JSON encoding, or decoding if s.reads is true. The result
// shape is the resulting structure, or "" if it is unknown.
func (s *shaper) ownEncoding(t reflect.Type) (hasOwn bool, shape string) {
	is := func(i reflect.Type) bool { return t.Implements(i) || reflect.PointerTo(t).Implements(i) }
	switch {
	case !s.reads:
		return is(reflect.TypeFor[json.Marshaler]()) || is(reflect.TypeFor[encoding.TextMarshaler]()), ""
	case t == reflect.TypeFor[time.Time]():
		return true, plan.Moment
	case t == reflect.TypeFor[json.Number]():
		return true, plan.Numeral
	case is(reflect.TypeFor[json.Unmarshaler]()):
		return true, ""
	case is(reflect.TypeFor[encoding.TextUnmarshaler]()):
		return true, "string"
	}
	return false, ""
}

func (s *shaper) fields(t reflect.Type, within []reflect.Type) {
	var out []string
	for _, f := range reflect.VisibleFields(t) {
		name, opts, _ := strings.Cut(f.Tag.Get("json"), ",")
		in := f.Type
		if in.Kind() == reflect.Pointer {
			in = in.Elem()
		}
		// VisibleFields also lists the fields of an embedded struct.
		embedded := f.Anonymous && name == "" && in.Kind() == reflect.Struct
		if !f.IsExported() || name == "-" && opts == "" || embedded || len(f.Index) > 1 &&
			!promoted(t, f.Index) {
			continue
		}
		if name == "" {
			name = f.Name
		}
		one := shaper{reads: s.reads}
		one.WriteString(strconv.Quote(name) + ":")
		if strings.Contains(","+opts+",", ",string,") {
			one.WriteString(s.inText(f.Type))
		} else {
			one.shape(f.Type, within)
		}
		out = append(out, one.String())
	}
	slices.Sort(out)
	s.WriteString("{" + strings.Join(out, ",") + "}")
}

// inText returns the structure of a field with the JSON option "string".
func (s *shaper) inText(t reflect.Type) string {
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	own, _ := s.ownEncoding(t)
	switch k := t.Kind(); {
	case !s.reads:
		return "string"
	case own:
		return "any"
	case k == reflect.Bool, k == reflect.String:
		return plan.Quoted + k.String()
	case number(k):
		return plan.Quoted + sized(t)
	}
	return "any"
}

// promoted reports whether JSON moves the fields of embedded structs to the outer object. It does so if none
// of the structs has a JSON name.
func promoted(t reflect.Type, index []int) bool {
	for i := 1; i < len(index); i++ {
		if f := t.FieldByIndex(index[:i]); f.Tag.Get("json") != "" {
			return false
		}
	}
	return true
}
