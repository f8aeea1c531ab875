// This file cuts texts to the maximum length of a column.

package column

import "unicode/utf8"

// ClipReason returns at most 1 KiB of s, for a reason or a broker's error.
func ClipReason(s string) string { return Clip(s, 1<<10) }

// Clip returns the first bytes of s, up to the limit. It does not cut a character in two, so the result may
// be shorter.
func Clip(s string, limit int) string {
	if len(s) <= limit {
		return s
	}
	n := limit
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n]
}
