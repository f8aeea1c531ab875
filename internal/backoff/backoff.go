// Package backoff computes the pauses between attempts, and between repeated log lines.
package backoff

import (
	"context"
	"math/rand/v2"
	"time"
)

// Soon returns the pause of a client whose server does not answer, after this number of failures. The pause
// is at most about one second, so that work continues soon after the server answers again.
func Soon(fails int) time.Duration { return After(fails, 35*time.Millisecond, 700*time.Millisecond) }

// After returns the pause after an attempt; the first attempt has the number 1. The pause doubles with each
// attempt, from shortest to longest. After adds a random time of up to half the pause, so that clients that
// failed together do not retry together.
func After(attempt int, shortest, longest time.Duration) time.Duration {
	d := shortest
	for i := 1; i < attempt && d < longest; i++ {
		d *= 2
	}
	d = min(d, longest)
	return d + time.Duration(rand.Int64N(int64(d)/2+1))
}

// Sleep waits for the duration d. It returns false if ctx was done before that.
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
