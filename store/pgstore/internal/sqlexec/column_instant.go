package sqlexec

import (
	"errors"
	"fmt"
	"math"
	"time"
)

// Moment returns nil for the zero time, so that the column is NULL.
func Moment(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return &t
}

// OrZero returns t in UTC, or the zero time for NULL.
func OrZero(t *time.Time) time.Time {
	if t == nil {
		return time.Time{}
	}
	return t.UTC()
}

// AtMicros converts microseconds since 1970 to a time. It returns the zero time for NULL.
func AtMicros(micros *int64) time.Time {
	if micros == nil {
		return time.Time{}
	}
	return time.UnixMicro(*micros).UTC()
}

// Past returns n milliseconds as a Duration. It returns the largest Duration if n is too large.
func Past(n int64) time.Duration {
	return time.Duration(min(n, int64(math.MaxInt64/time.Millisecond))) * time.Millisecond
}

// Seconds returns n seconds as a Duration.
func Seconds(n float64) time.Duration { return time.Duration(n * float64(time.Second)) }

// CheckRFC3339 returns an error if RFC 3339 cannot represent the time t. Messages on the broker have times
// in this format.
func CheckRFC3339(t time.Time) error {
	if year := t.Year(); year < 1 || year > 9999 {
		return errors.New("its time is outside of the years 1 to 9999")
	}
	return nil
}

// Instant scans a timestamptz of any driver. Unlike time.Time, it can scan infinity; Read then returns an
// error.
type Instant struct{ is any }

// Scan reads a value of a database/sql driver.
func (m *Instant) Scan(src any) error {
	if b, ok := src.([]byte); ok {
		src = string(b) // the bytes belong to the driver
	}
	m.is = src
	return nil
}

// Read returns the time, or an error if RFC 3339 cannot represent it.
func (m *Instant) Read() (time.Time, error) {
	at, ok := m.is.(time.Time)
	if !ok {
		return time.Time{}, fmt.Errorf("its time is %v", m.is)
	}
	return at.UTC(), CheckRFC3339(at.UTC())
}
