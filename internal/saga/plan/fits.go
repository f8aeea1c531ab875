package plan

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Nothing is the shape of a type without fields, which needs no data. A shape describes the type of JSON
// data: see Graph.
const Nothing = "{}"

// Fits returns the reason why JSON data does not have a shape, or "" if the data has the shape. Data that
// the shape does not determine has the shape. As in encoding/json, null and missing fields fit any shape.
func Fits(shape string, data []byte) string {
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		return "it is not JSON"
	}
	return fits(shape, v, "")
}

func fits(shape string, v any, at string) string {
	in, listed := strings.CutPrefix(shape, "[")
	in, closed := strings.CutSuffix(in, "]")
	want, o := "", members(shape)
	switch list, isList := v.([]any); {
	case v == nil:
	case o != nil:
		if fields, is := v.(map[string]any); is {
			return o.fits(fields, at)
		}
		want = "an object"
	case listed && closed && !isList:
		want = "an array"
	case listed && closed, shape == Bytes && isList:
		if shape == Bytes {
			in = "uint8"
		}
		for i, one := range list {
			if why := fits(in, one, fmt.Sprintf("%s[%d]", at, i)); why != "" {
				return why
			}
		}
	default:
		want = expectedKind(shape, v)
	}
	if want == "" {
		return ""
	}
	return fmt.Sprintf("%sit is %s and has to be %s", place(at), kindOf(v), want)
}

func (o *object) fits(v map[string]any, at string) string {
	each, free := o.of["*"]
	of, known := map[string]string{}, make([]string, len(o.names))
	for i, quoted := range o.names {
		known[i] = quoted
		if name, err := strconv.Unquote(quoted); err == nil {
			known[i], of[name] = name, o.of[quoted]
			if other := strings.ToLower(name); of[other] == "" { // as encoding/json matches names
				of[other] = o.of[quoted]
			}
		}
	}
	numbered := len(known) == 1 && integer(known[0]) && known[0] == o.names[0]
	for _, name := range slices.Sorted(maps.Keys(v)) {
		shape, ok := of[name]
		if !ok {
			shape, ok = of[strings.ToLower(name)]
		}
		switch {
		case numbered:
			if want := expectedKind(known[0], json.Number(name)); want != "" {
				return fmt.Sprintf("%sthe name of its field %q has to be %s", place(at), name, want)
			}
			shape = o.of[known[0]]
		case free:
			shape = each
		case !ok && len(known) == 0:
			return fmt.Sprintf("%sit has the field %q, and none is known", place(at), name)
		case !ok:
			return fmt.Sprintf("%sit has the field %q; known are %s", place(at), name,
				strings.Join(known, ", "))
		}
		if why := fits(shape, v[name], strings.TrimPrefix(at+"."+name, ".")); why != "" {
			return why
		}
	}
	return ""
}

// Further shapes of one value, in addition to string, number, bool and the sizes of numbers.
const (
	Bytes   = "bytes"   // in base64, or as an array
	Numeral = "numeral" // a number that keeps its text
	Moment  = "time"
	Quoted  = "quoted " // a prefix: the JSON is in a string
)

// expectedKind returns the expected kind of value if v does not have the shape. It returns "" if v fits, or
// if the shape does not determine that.
func expectedKind(shape string, v any) string {
	text, isText := v.(string)
	number, isNumber := v.(json.Number)
	ok, want := true, "a "+shape
	switch in, quoted := strings.CutPrefix(shape, Quoted); {
	case quoted:
		return wantedIn(in, text, isText)
	case shape == "string":
		ok = isText
	case shape == "bool":
		_, ok = v.(bool)
	case shape == "number":
		ok = isNumber
	case shape == Numeral:
		want = "a number"
		if isText {
			number, isNumber = json.Number(text), true
		}
		_, err := number.Float64()
		ok = isNumber && (err == nil || errors.Is(err, strconv.ErrRange))
	case shape == Moment:
		want = `a text such as "2006-01-02T15:04:05Z"`
		ok = isText && new(time.Time).UnmarshalText([]byte(text)) == nil
	case shape == Bytes:
		want = "a text in base64"
		_, err := base64.StdEncoding.DecodeString(text)
		ok = isText && err == nil
	case shape == "float32", shape == "float64":
		bits, _ := strconv.Atoi(shape[len("float"):])
		want = fmt.Sprintf("a number that a %s can be", shape)
		_, err := strconv.ParseFloat(string(number), bits)
		ok = isNumber && err == nil
	case integer(shape):
		ok, want = wantedInteger(shape, string(number))
		ok = ok && isNumber
	}
	if ok {
		return ""
	}
	return want
}

// wantedIn is like wanted, for JSON that is in a string.
func wantedIn(shape, text string, isText bool) string {
	d := json.NewDecoder(strings.NewReader(text))
	d.UseNumber()
	var v any
	if isText && json.Valid([]byte(text)) && d.Decode(&v) == nil && (v == nil || expectedKind(shape, v) == "") {
		return ""
	}
	return expectedKind(shape, nil) + " in quotes" // nil fits none of them
}

func integer(shape string) bool {
	sizes := []string{"int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"}
	return slices.Contains(sizes, shape)
}

// wantedInteger reports whether encoding/json accepts a number as an integer. It does not accept 1.0 and 1e3.
func wantedInteger(shape, number string) (ok bool, want string) {
	if size, unsigned := strings.CutPrefix(shape, "uint"); unsigned {
		bits, _ := strconv.Atoi(size)
		_, err := strconv.ParseUint(number, 10, bits)
		return err == nil, fmt.Sprintf("an integer from 0 to %d", uint64(math.MaxUint64)>>(64-bits))
	}
	bits, _ := strconv.Atoi(shape[len("int"):])
	_, err := strconv.ParseInt(number, 10, bits)
	return err == nil, fmt.Sprintf("an integer from %d to %d", int64(math.MinInt64)>>(64-bits),
		int64(math.MaxInt64)>>(64-bits))
}

func kindOf(v any) string {
	switch v.(type) {
	case string:
		return "a string"
	case json.Number:
		return "a number"
	case bool:
		return "a bool"
	case []any:
		return "an array"
	}
	return "an object"
}

func place(at string) string {
	if at == "" {
		return ""
	}
	return at + ": "
}
