package page

import (
	"fmt"
	"strconv"
)

// Exact is up to where counts are exact.
const Exact = 10_000

// Counted writes a count, which is exact up to Exact.
func Counted(n int64) string {
	if n > Exact {
		return "about " + Number(n)
	}
	return Number(n)
}

// Number writes n with its thousands apart.
func Number(n int64) string {
	text := fmt.Sprint(n)
	for i := len(text) - 3; i > 0 && text[i-1] != '-'; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	return text
}

// Count is so many of a thing.
func Count(n int64, of string) string { return Number(n) + " " + of + Plural(n) }

// Plural is what the name of so many things ends with.
func Plural(n int64) string {
	if n == 1 {
		return ""
	}
	return "s"
}

// Digits writes n as a command or a URL takes it; "": it is zero.
func Digits(n int64) string {
	if n == 0 {
		return ""
	}
	return strconv.FormatInt(n, 10)
}

// Times says how often.
func Times(n int) string {
	if n == 1 {
		return "once"
	}
	return Number(int64(n)) + " times"
}

// Bytes writes a size.
func Bytes(n int) string {
	if n < 1024 {
		return fmt.Sprintf("%d bytes", n)
	}
	return fmt.Sprintf("%.1f KiB", float64(n)/1024)
}
