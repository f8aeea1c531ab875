package cloudevents

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// Printable returns true if a text header transports v unchanged.
func Printable(v string) bool {
	control := func(c rune) bool { return c < ' ' || c == 0x7f }
	return strings.TrimSpace(v) == v && utf8.ValidString(v) && !strings.ContainsFunc(v, control)
}

func visible(c byte) bool { return c > ' ' && c < 0x7f && c != '"' && c != '%' }

// escape encodes v as visible ASCII with percent signs, as the HTTP and NATS bindings of CloudEvents require.
func escape(v string) string {
	for i := range len(v) {
		if visible(v[i]) {
			continue
		}
		var out strings.Builder
		for _, c := range []byte(v) {
			if visible(c) {
				out.WriteByte(c)
			} else {
				fmt.Fprintf(&out, "%%%02X", c)
			}
		}
		return out.String()
	}
	return v
}

// unescape reverses escape. It keeps invalid escapes unchanged, because some clients do not escape values.
func unescape(v string) string {
	if !strings.Contains(v, "%") {
		return v
	}
	out := make([]byte, 0, len(v))
	for i := 0; i < len(v); i++ {
		if v[i] == '%' && i+2 < len(v) {
			hi, lo := unhex(v[i+1]), unhex(v[i+2])
			if hi >= 0 && lo >= 0 {
				out = append(out, byte(hi<<4|lo))
				i += 2
				continue
			}
		}
		out = append(out, v[i])
	}
	return string(out)
}

func unhex(c byte) int { return strings.IndexByte("0123456789ABCDEF", c&^(c&0x40>>1)) }
