package backoff

import (
	"log/slog"
	"time"
)

// LogLimit says when to speak of something that goes on: at once, then after pauses that double from First up
// to Most. The zero value of what is not exported is ready.
type LogLimit struct {
	First, Most time.Duration

	said  time.Time
	pause time.Duration
	level slog.Level // the highest so far
}

// NewLogLimit is how often to speak of an outage while it lasts.
func NewLogLimit() LogLimit { return LogLimit{First: 20 * time.Second, Most: 10 * time.Minute} }

// Due tells whether to speak now.
func (r *LogLimit) Due(now time.Time) bool {
	if r.pause > 0 && now.Sub(r.said) < r.pause {
		return false
	}
	r.said, r.pause = now, min(max(2*r.pause, r.First), r.Most)
	return true
}

// DueAs is Due for a line of a level. The first line of a higher level is due at once, so that the lines of
// an outage do not delay the line of a wrong setting.
func (r *LogLimit) DueAs(level slog.Level, now time.Time) bool {
	if level > r.level {
		r.pause = 0
	}
	r.level = max(r.level, level)
	return r.Due(now)
}

// Over says that it goes on no more, and tells whether it was spoken of.
func (r *LogLimit) Over() (spoken bool) {
	spoken, r.pause, r.level = r.pause > 0, 0, 0
	return spoken
}
