package fingerprint

import (
	"encoding/json"
	"reflect"
	"slices"
	"sync"
	"unicode/utf8"
)

// Texts checks that all strings in a value are UTF-8. It skips values of types for which Own returns true,
// and fields with the value "-" for the tag Tag. It is safe for concurrent use.
type Texts struct {
	Tag   string
	Own   func(reflect.Type) bool
	plans sync.Map // by type
}

// textPlan has the checks for the values of a type.
type textPlan struct {
	kind   reflect.Kind
	never  bool  // values of the type have no strings to check
	fields []int // the fields of a struct to check
}

// In reports whether all strings in v are UTF-8.
func (t *Texts) In(v reflect.Value) bool {
	if !v.IsValid() {
		return true
	}
	plan := t.plan(v.Type())
	switch {
	case plan.never:
	case plan.kind == reflect.String:
		return utf8.ValidString(v.String())
	case plan.kind == reflect.Pointer, plan.kind == reflect.Interface:
		return t.In(v.Elem())
	case plan.kind == reflect.Map:
		for all := v.MapRange(); all.Next(); { // Seq2 would allocate memory for each value
			if !t.In(all.Key()) || !t.In(all.Value()) {
				return false
			}
		}
	case plan.kind == reflect.Struct:
		for _, i := range plan.fields {
			if !t.In(v.Field(i)) {
				return false
			}
		}
	default:
		for i := range v.Len() {
			if !t.In(v.Index(i)) {
				return false
			}
		}
	}
	return true
}

func (t *Texts) plan(of reflect.Type) *textPlan {
	if known, ok := t.plans.Load(of); ok {
		return known.(*textPlan)
	}
	p := &textPlan{kind: of.Kind(), never: t.Own(of)}
	switch p.kind {
	case reflect.String, reflect.Pointer, reflect.Interface, reflect.Map:
	case reflect.Slice, reflect.Array:
		p.never = p.never || of.Elem().Kind() == reflect.Uint8
	case reflect.Struct:
		for i := range of.NumField() {
			f := of.Field(i)
			if (f.IsExported() || f.Anonymous) && f.Tag.Get(t.Tag) != "-" {
				p.fields = append(p.fields, i)
			}
		}
	default:
		p.never = true
	}
	t.plans.Store(of, p)
	return p
}

// HoldsNull reports whether JSON null can be decoded into a value. The argument ptr is the type of a
// pointer to the value. encoding/json leaves other values unchanged, without an error.
func HoldsNull(ptr reflect.Type) bool {
	if ptr == nil || ptr.Kind() != reflect.Pointer || ptr.Implements(reflect.TypeFor[json.Unmarshaler]()) {
		return true
	}
	switch ptr.Elem().Kind() {
	case reflect.Pointer, reflect.Map, reflect.Slice, reflect.Interface:
		return true
	case reflect.Struct: // a struct without exported fields accepts any JSON
		return !slices.ContainsFunc(reflect.VisibleFields(ptr.Elem()), reflect.StructField.IsExported)
	}
	return false
}
