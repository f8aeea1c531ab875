package page

import (
	"fmt"
	"strconv"
)

// Exact is the largest number that the store counts exactly. Larger numbers are estimates.
const Exact = 10_000

// Counted formats a count, with "about" above Exact.
func Counted(n int64) string {
	if n > Exact {
		return "about " + Number(n)
	}
	return Number(n)
}

// CountOf formats a count with its noun, in the singular or the plural.
func CountOf(n int64, singular, plural string) string {
	if n == 1 {
		plural = singular
	}
	return Counted(n) + " " + plural
}

// Number formats n with thousands separators.
func Number(n int64) string {
	text := fmt.Sprint(n)
	for i := len(text) - 3; i > 0 && text[i-1] != '-'; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	return text
}

// Count formats a number with a regular noun: "1 message", "2 messages".
func Count(n int64, of string) string { return Number(n) + " " + of + Plural(n) }

// Plural returns the ending of a noun for n things: "" or "s".
func Plural(n int64) string {
	if n == 1 {
		return ""
	}
	return "s"
}

// Digits formats n for a command or a URL. It returns "" for 0.
func Digits(n int64) string {
	if n == 0 {
		return ""
	}
	return strconv.FormatInt(n, 10)
}

// Times formats a number of repetitions: "once", "2 times".
func Times(n int) string {
	if n == 1 {
		return "once"
	}
	return Number(int64(n)) + " times"
}

// Bytes formats a size in bytes or KiB.
func Bytes(n int) string {
	if n < 1024 {
		return fmt.Sprintf("%d bytes", n)
	}
	return fmt.Sprintf("%.1f KiB", float64(n)/1024)
}
