package page

import (
	"strconv"
	"strings"
	"time"
)

// Ago formats a duration for people, rounded to seconds, minutes or days.
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

// Exactly formats a duration, rounded to milliseconds, or to seconds from an hour on.
func Exactly(d time.Duration) string {
	if d >= time.Hour {
		return d.Round(time.Second).String()
	}
	return d.Round(time.Millisecond).String()
}

// Seconds converts seconds to a duration.
func Seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }

// Time formats t for a URL or a command. It returns "" for the zero time.
func Time(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(time.RFC3339Nano)
}
