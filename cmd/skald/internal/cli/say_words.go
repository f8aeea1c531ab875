package cli

import (
	"fmt"
	"strings"
	"time"
)

// Time is a time in one form, whatever zone this machine has: seconds, in UTC, as logs and --json have it.
func Time(at time.Time) string { return at.UTC().Format(time.RFC3339) }

// When is a time that may be none: then it is "".
func When(at *time.Time) string {
	if at == nil {
		return ""
	}
	return Time(*at)
}

// ShortKey keeps a key in its column.
func ShortKey(key string) string { return strings.Trim(fmt.Sprintf("%.60q", key), `"`) }

// Count is so many of what, 1 message or 2 messages.
func Count(n int, what string) string {
	if n != 1 {
		what += "s"
	}
	return fmt.Sprint(n, " ", what)
}
