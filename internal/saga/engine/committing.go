// This file estimates the usual time from a saga's start to the caller's commit.

package engine

import (
	"sync/atomic"
	"time"
)

// soonest and latest limit the estimate.
const (
	soonest = 100 * time.Microsecond
	latest  = 5 * time.Millisecond
)

// usual estimates the time after which a poll finds the commit. About one poll in seven may be too early; a
// longer estimate would let most sagas wait too long.
type usual struct{ after atomic.Int64 }

// Usual returns the estimate. It is between soonest and latest.
func (u *usual) Usual() time.Duration {
	return min(max(time.Duration(u.after.Load()), soonest), latest)
}

// Observed lowers the estimate after a poll that found the commit.
func (u *usual) Observed() { u.after.Store(int64(u.Usual() * 31 / 32)) }

// Missed raises the estimate after a poll that was too early.
func (u *usual) Missed() { u.after.Store(int64(u.Usual() * 5 / 4)) }
