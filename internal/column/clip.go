// This file cuts texts to the length that a column keeps.

package column

import "unicode/utf8"

// ClipReason is at most 1 KiB of s: a reason, or what the broker said.
func ClipReason(s string) string { return Clip(s, 1<<10) }

// Clip is at most so many bytes of s. No character is cut in two.
func Clip(s string, most int) string {
	if len(s) <= most {
		return s
	}
	n := most
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n]
}
