package sqlexec

import (
	"encoding/hex"
	"errors"
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"time"
)

// Inlined returns sql with its arguments as quoted literals in place of $1, $2, and so on. It exists because
// some drivers of database/sql can send several statements together only if they have no arguments.
// PostgreSQL derives the type of a literal from its context, as it does for a parameter.
func Inlined(sql string, args []any) (string, error) {
	literals := make([]string, len(args))
	for i, a := range args {
		text, null, err := asText(reflect.ValueOf(a))
		if err != nil {
			return "", fmt.Errorf("argument %d: %w", i+1, err)
		}
		if literals[i] = "NULL"; !null {
			literals[i] = Literal(text)
		}
	}
	var b strings.Builder
	quote := byte(0) // the open quote, 0 for none: $1 within quotes is not a parameter
	for i := 0; i < len(sql); i++ {
		c := sql[i]
		switch {
		case quote != 0:
			if c == quote {
				quote = 0
			}
		case c == '\'' || c == '"':
			quote = c
		case c == '$':
			end := i + 1
			for end < len(sql) && sql[end] >= '0' && sql[end] <= '9' {
				end++
			}
			n, err := strconv.Atoi(sql[i+1 : end])
			if err != nil || n < 1 || n > len(args) {
				return "", fmt.Errorf("a statement with %d arguments asks for %q", len(args), sql[i:end])
			}
			b.WriteString(literals[n-1])
			i = end - 1
			continue
		}
		b.WriteByte(c)
	}
	return b.String(), nil
}

// Literal returns s as an SQL literal, with a space before it. The literal is correct for both values of
// standard_conforming_strings.
func Literal(s string) string {
	quoted := strings.ReplaceAll(s, "'", "''")
	if strings.Contains(s, `\`) {
		return " E'" + strings.ReplaceAll(quoted, `\`, `\\`) + "'"
	}
	return " '" + quoted + "'"
}

// asText returns v in PostgreSQL's text format.
func asText(v reflect.Value) (text string, null bool, err error) {
	for v.Kind() == reflect.Pointer && !v.IsNil() {
		v = v.Elem()
	}
	switch v.Kind() {
	case reflect.Invalid, reflect.Pointer:
		return "", true, nil
	case reflect.String:
		if !Storable(v.String()) { // a NUL would end the statement
			return "", false, errors.New("a text is not UTF-8 or contains a NUL")
		}
		return v.String(), false, nil
	case reflect.Bool:
		return strconv.FormatBool(v.Bool()), false, nil
	case reflect.Int, reflect.Int16, reflect.Int32, reflect.Int64:
		return strconv.FormatInt(v.Int(), 10), false, nil
	case reflect.Slice:
		if v.IsNil() {
			return "", true, nil
		}
		if v.Type().Elem().Kind() == reflect.Uint8 {
			return `\x` + hex.EncodeToString(v.Bytes()), false, nil
		}
		text, err = arrayText(v)
		return text, false, err
	}
	if at, ok := v.Interface().(time.Time); ok {
		return at.UTC().Format("2006-01-02 15:04:05.999999Z07:00"), false, nil
	}
	return "", false, fmt.Errorf("%s has no text form", v.Type())
}

func arrayText(v reflect.Value) (string, error) {
	var b strings.Builder
	b.WriteByte('{')
	for i := range v.Len() {
		if i > 0 {
			b.WriteByte(',')
		}
		text, null, err := asText(v.Index(i))
		switch {
		case err != nil:
			return "", err
		case null:
			b.WriteString("NULL")
		default:
			b.WriteString(`"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(text) + `"`)
		}
	}
	b.WriteByte('}')
	return b.String(), nil
}
