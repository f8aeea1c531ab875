// Package backoff says how long to wait before the next attempt.
package backoff

import (
	"context"
	"math/rand/v2"
	"time"
)

// Soon is the wait of a client whose server is away, after so many failures. It is short, so that work goes
// on soon after the server is back.
func Soon(fails int) time.Duration { return After(fails, 35*time.Millisecond, 700*time.Millisecond) }

// After is the wait after the attempt of that number (1 is the first): it doubles from first up to most, and
// up to a half of it is added at random, so that those who failed together do not come back together.
func After(attempt int, first, most time.Duration) time.Duration {
	d := first
	for i := 1; i < attempt && d < most; i++ {
		d *= 2
	}
	d = min(d, most)
	return d + time.Duration(rand.Int64N(int64(d)/2+1))
}

// Sleep waits for d; false: ctx was done first.
func Sleep(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-t.C:
		return true
	}
}
