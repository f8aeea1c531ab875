package sqlexec

import (
	"database/sql"
	"math"
	"time"
)

// Layout of a time sorts as text, and has what PostgreSQL keeps.
const Layout = "2006-01-02T15:04:05.000000Z"

// ReadTime reads what SQLite calls a time; other text is the zero time.
func ReadTime(s string) time.Time {
	t, _ := ParseTime(s)
	return t
}

// ParseTime reads what SQLite calls a time; false: it is none.
func ParseTime(s string) (time.Time, bool) {
	for _, layout := range []string{time.RFC3339Nano, "2006-01-02 15:04:05.999999999Z07:00",
		"2006-01-02 15:04:05.999999999", "2006-01-02T15:04:05.999999999"} {
		if t, err := time.Parse(layout, s); err == nil {
			return t.UTC(), true
		}
	}
	return time.Time{}, false
}

// Moment is a time as text, NULL where it is zero.
func Moment(t time.Time) any {
	if t.IsZero() {
		return nil
	}
	return t.UTC().Format(time.RFC3339Nano)
}

// Millis is a time in milliseconds, NULL where it is zero.
func Millis(t time.Time) sql.NullInt64 {
	return sql.NullInt64{Int64: t.UnixMilli(), Valid: !t.IsZero()}
}

// OfMillis is a time that Millis wrote.
func OfMillis(n sql.NullInt64) time.Time {
	if !n.Valid {
		return time.Time{}
	}
	return time.UnixMilli(n.Int64).UTC()
}

// Milliseconds returns d in milliseconds, rounded up: a short time never becomes none.
func Milliseconds(d time.Duration) int64 {
	n := d.Milliseconds()
	if time.Duration(n)*time.Millisecond < d {
		n++
	}
	return n
}

// Past is so many milliseconds, or as many of them as a Duration has room for.
func Past(n int64) time.Duration {
	return time.Duration(min(n, int64(math.MaxInt64/time.Millisecond))) * time.Millisecond
}
