package say

import (
	"fmt"
	"strings"
)

// ShortKey keeps a key in its column.
func ShortKey(key string) string { return strings.Trim(fmt.Sprintf("%.60q", key), `"`) }

// Quoted is word as a shell takes it.
func Quoted(word string) string {
	if strings.ContainsAny(word, "?&;*$ '\"()<>|\\`#") {
		return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
	}
	return word
}

// Count is so many of what, 1 message or 2 messages.
func Count(n int, what string) string {
	if n != 1 {
		what += "s"
	}
	return fmt.Sprint(n, " ", what)
}
