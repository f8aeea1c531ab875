package cloudevents

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// Printable tells whether v comes out of a header line as it went in.
func Printable(v string) bool {
	control := func(c rune) bool { return c < ' ' || c == 0x7f }
	return strings.TrimSpace(v) == v && utf8.ValidString(v) && !strings.ContainsFunc(v, control)
}

func visible(c byte) bool { return c > ' ' && c < 0x7f && c != '"' && c != '%' }

// escape writes v as the HTTP and NATS bindings want it: visible ASCII, all else by percent.
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

// unescape is the way back. What is no escape stays as it is, for not everybody writes them.
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
