package console

import (
	"fmt"
	"strconv"
)

// mostCounted is up to where counts are exact.
const mostCounted = 10_000

func counted(n int64) string {
	if n > mostCounted {
		return "about " + number(n)
	}
	return number(n)
}

// number writes n with its thousands apart.
func number(n int64) string {
	text := fmt.Sprint(n)
	for i := len(text) - 3; i > 0 && text[i-1] != '-'; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	return text
}

// some64 is so many of a thing.
func some64(n int64, of string) string { return number(n) + " " + of + plural(n) }

func plural(n int64) string {
	if n == 1 {
		return ""
	}
	return "s"
}

func text64(n int64) string {
	if n == 0 {
		return ""
	}
	return strconv.FormatInt(n, 10)
}

// times says how often.
func times(n int) string {
	if n == 1 {
		return "once"
	}
	return number(int64(n)) + " times"
}

func bytesText(n int) string {
	if n < 1024 {
		return fmt.Sprintf("%d bytes", n)
	}
	return fmt.Sprintf("%.1f KiB", float64(n)/1024)
}
