package sqlexec

import (
	"database/sql"
	"math"
	"time"
)

// Layout is the format in which columns store a time. It sorts as text, and has microseconds, as PostgreSQL
// does.
const Layout = "2006-01-02T15:04:05.000000Z"

// ReadTime parses a time in any format of SQLite. It returns the zero time for other text.
func ReadTime(s string) time.Time {
	t, _ := ParseTime(s)
	return t
}

// ParseTime parses a time in any format of SQLite. It returns false if s is no time.
func ParseTime(s string) (time.Time, bool) {
	for _, layout := range []string{time.RFC3339Nano, "2006-01-02 15:04:05.999999999Z07:00",
		"2006-01-02 15:04:05.999999999", "2006-01-02T15:04:05.999999999"} {
		if t, err := time.Parse(layout, s); err == nil {
			return t.UTC(), true
		}
	}
	return time.Time{}, false
}

// Moment returns a time as text, or NULL for the zero time.
func Moment(t time.Time) any {
	if t.IsZero() {
		return nil
	}
	return t.UTC().Format(time.RFC3339Nano)
}

// Millis returns a time in milliseconds, or NULL for the zero time.
func Millis(t time.Time) sql.NullInt64 {
	return sql.NullInt64{Int64: t.UnixMilli(), Valid: !t.IsZero()}
}

// OfMillis returns the time that Millis stored.
func OfMillis(n sql.NullInt64) time.Time {
	if !n.Valid {
		return time.Time{}
	}
	return time.UnixMilli(n.Int64).UTC()
}

// Milliseconds returns d in milliseconds, rounded up, so that a short time does not become 0.
func Milliseconds(d time.Duration) int64 {
	n := d.Milliseconds()
	if time.Duration(n)*time.Millisecond < d {
		n++
	}
	return n
}

// Past returns n milliseconds as a Duration. It returns the largest Duration if n is too large.
func Past(n int64) time.Duration {
	return time.Duration(min(n, int64(math.MaxInt64/time.Millisecond))) * time.Millisecond
}
