package connect

import (
	"fmt"
	"time"

	"github.com/skald-go/skald/cmd/skald/internal/cli"
)

// Moment parses the value of a flag for a time: a time, or a duration before now. The zero time means that
// text is empty.
func Moment(flag, text string) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	if ago, err := time.ParseDuration(text); err == nil && ago >= 0 {
		return time.Now().Add(-ago), nil
	}
	at, err := time.Parse(time.RFC3339, text)
	if err != nil {
		err = &cli.UsageError{What: fmt.Sprintf(
			"--%s %q: give a time such as 2026-01-31T08:00:00Z, or an age such as 2h", flag, text)}
	}
	return at, err
}
