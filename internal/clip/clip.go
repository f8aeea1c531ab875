// Package clip cuts texts to what a row keeps of them.
package clip

import "unicode/utf8"

// Reason is at most 1 KiB of s: a reason, or what the broker said.
func Reason(s string) string { return To(s, 1<<10) }

// To is at most so many bytes of s. No character is cut in two.
func To(s string, most int) string {
	if len(s) <= most {
		return s
	}
	n := most
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n]
}
