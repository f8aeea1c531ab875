package page

import (
	"strconv"
	"strings"
	"time"
)

// Ago is a duration as people say it.
func Ago(d time.Duration) string {
	switch {
	case d <= 0:
		return "–"
	case d < time.Minute:
		return d.Round(time.Second).String()
	case d < time.Hour:
		return d.Round(time.Second).String()
	case d < 48*time.Hour:
		return strings.TrimSuffix(d.Round(time.Minute).String(), "0s")
	}
	return strconv.Itoa(int(d.Hours()/24)) + " days"
}

// Exactly formats a duration with milliseconds, from an hour on with seconds.
func Exactly(d time.Duration) string {
	if d >= time.Hour {
		return d.Round(time.Second).String()
	}
	return d.Round(time.Millisecond).String()
}

// Seconds is a duration of so many.
func Seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }

// Time is t as an argument of a URL or a command; "": it is zero.
func Time(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(time.RFC3339Nano)
}
