package sqlexec

import (
	"errors"
	"fmt"
	"math"
	"time"
)

// Moment is nil for the zero time, which is none.
func Moment(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return &t
}

// OrZero is t in UTC, the zero time for NULL.
func OrZero(t *time.Time) time.Time {
	if t == nil {
		return time.Time{}
	}
	return t.UTC()
}

// AtMicros is a time in microseconds, which may be NULL.
func AtMicros(micros *int64) time.Time {
	if micros == nil {
		return time.Time{}
	}
	return time.UnixMicro(*micros).UTC()
}

// Past is so many milliseconds, or as many of them as a Duration has room for.
func Past(n int64) time.Duration {
	return time.Duration(min(n, int64(math.MaxInt64/time.Millisecond))) * time.Millisecond
}

// Seconds is n seconds.
func Seconds(n float64) time.Duration { return time.Duration(n * float64(time.Second)) }

// Sayable tells whether RFC 3339, and so every broker, has a form for at.
func Sayable(at time.Time) error {
	if year := at.Year(); year < 1 || year > 9999 {
		return errors.New("its time lies outside of the years 1 to 9999")
	}
	return nil
}

// An Instant takes whatever a driver makes of a timestamptz, infinity too, which time.Time does not.
type Instant struct{ is any }

// Scan takes what a driver of database/sql has read.
func (m *Instant) Scan(src any) error {
	if b, ok := src.([]byte); ok {
		src = string(b) // which is the driver's
	}
	m.is = src
	return nil
}

// Read is the time, or why it cannot be said.
func (m *Instant) Read() (time.Time, error) {
	at, ok := m.is.(time.Time)
	if !ok {
		return time.Time{}, fmt.Errorf("its time is %v", m.is)
	}
	return at.UTC(), Sayable(at.UTC())
}
