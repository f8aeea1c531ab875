// Package reconnect says how soon a driver tries again to reach its broker.
package reconnect

import (
	"math/rand/v2"
	"time"
)

// After is short, so that work goes on soon after the broker is back: 50 ms doubled up to 1 s, less up to a
// quarter so that many clients do not come at once.
func After(fails int) time.Duration {
	d := min(50*time.Millisecond<<min(max(fails-1, 0), 10), time.Second)
	return d - time.Duration(rand.Int64N(int64(d)/4))
}
