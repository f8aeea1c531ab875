package column

import (
	"encoding/json"
	"fmt"
	"time"
)

// Time is t in UTC, and whether its year is one that RFC 3339 can write and that databases keep: 1 to 9999.
// If not, the time is zero.
func Time(t time.Time) (time.Time, bool) {
	t = t.UTC()
	if y := t.Year(); y < 1 || y > 9999 {
		return time.Time{}, false
	}
	return t, true
}

// ParseTime reads a time of RFC 3339 whose year, in UTC, is 1 to 9999.
func ParseTime(s string) (time.Time, error) {
	t, err := time.Parse(time.RFC3339Nano, s)
	if err != nil {
		return time.Time{}, err
	}
	t, ok := Time(t)
	if !ok {
		return t, fmt.Errorf("the year of %q is, in UTC, not one of 1 to 9999", s)
	}
	return t, nil
}

// An instant is a time in JSON, as text of RFC 3339; where that cannot hold it, {"unix": seconds, "nanos":
// nanoseconds}.
type instant time.Time

type seconds struct {
	Unix  int64 `json:"unix"`
	Nanos int   `json:"nanos,omitempty"`
}

func (i instant) MarshalJSON() ([]byte, error) {
	t := time.Time(i)
	for _, t := range []time.Time{t, t.UTC()} {
		if text, err := t.MarshalJSON(); err == nil {
			return text, nil
		}
	}
	return json.Marshal(seconds{t.Unix(), t.Nanosecond()})
}

func (i *instant) UnmarshalJSON(b []byte) error {
	if len(b) > 0 && b[0] == '{' {
		var s seconds
		err := json.Unmarshal(b, &s)
		*i = instant(time.Unix(s.Unix, int64(s.Nanos)).UTC())
		return err
	}
	return json.Unmarshal(b, (*time.Time)(i))
}
