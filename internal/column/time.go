package column

import (
	"encoding/json"
	"fmt"
	"time"
)

// Time returns t in UTC and true. If the year of t is not from 1 to 9999, which is the range of RFC 3339 and
// of databases, it returns the zero time and false.
func Time(t time.Time) (time.Time, bool) {
	t = t.UTC()
	if y := t.Year(); y < 1 || y > 9999 {
		return time.Time{}, false
	}
	return t, true
}

// ParseTime parses a time of RFC 3339 with a year, in UTC, from 1 to 9999.
func ParseTime(s string) (time.Time, error) {
	t, err := time.Parse(time.RFC3339Nano, s)
	if err != nil {
		return time.Time{}, err
	}
	t, ok := Time(t)
	if !ok {
		return t, fmt.Errorf("the year of %q in UTC is not from 1 to 9999", s)
	}
	return t, nil
}

// instant is a time in JSON. It is a text of RFC 3339, or {"unix": seconds, "nanos": nanoseconds} for a time
// out of the range of RFC 3339.
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
