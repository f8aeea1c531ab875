package cli

import (
	"fmt"
	"strings"
	"time"
)

// Time formats a time in UTC with seconds, in the same form as logs and --json.
func Time(at time.Time) string { return at.UTC().Format(time.RFC3339) }

// When formats a time, or returns "" if at is nil.
func When(at *time.Time) string {
	if at == nil {
		return ""
	}
	return Time(*at)
}

// ShortKey returns a quoted key of at most 60 characters.
func ShortKey(key string) string { return strings.Trim(fmt.Sprintf("%.60q", key), `"`) }

// Count returns a number with its noun: "1 message", "2 messages".
func Count(n int, what string) string {
	if n != 1 {
		what += "s"
	}
	return fmt.Sprint(n, " ", what)
}
