package backoff

import (
	"log/slog"
	"time"
)

// LogLimit limits how often a lasting problem is logged: immediately, and then after pauses that double from
// First to Most.
type LogLimit struct {
	First, Most time.Duration

	said  time.Time
	pause time.Duration
	level slog.Level // the highest level of a line so far
}

// NewLogLimit returns the limit for the log lines of an outage.
func NewLogLimit() LogLimit { return LogLimit{First: 20 * time.Second, Most: 10 * time.Minute} }

// Due reports whether the caller should log the problem now. It then counts the line as logged.
func (r *LogLimit) Due(now time.Time) bool {
	if r.pause > 0 && now.Sub(r.said) < r.pause {
		return false
	}
	r.said, r.pause = now, min(max(2*r.pause, r.First), r.Most)
	return true
}

// DueAs is like Due, for a line of this level. The first line of a higher level is due immediately, so that
// the lines of an outage do not delay the line of a wrong setting.
func (r *LogLimit) DueAs(level slog.Level, now time.Time) bool {
	if level > r.level {
		r.pause = 0
	}
	r.level = max(r.level, level)
	return r.Due(now)
}

// Over records the end of the problem. It reports whether the problem was logged.
func (r *LogLimit) Over() (logged bool) {
	logged, r.pause, r.level = r.pause > 0, 0, 0
	return logged
}
