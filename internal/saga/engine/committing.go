// This file learns how long callers take, usually, from a saga's start to their commit.

package engine

import (
	"sync/atomic"
	"time"
)

// Soonest and latest bound what is learned.
const (
	soonest = 100 * time.Microsecond
	latest  = 5 * time.Millisecond
)

// A usual is such a time: who looks sooner looks in vain. One look in seven may, so that few wait longer than
// they must.
type usual struct{ after atomic.Int64 }

// Usual is that time.
func (u *usual) Usual() time.Duration {
	return min(max(time.Duration(u.after.Load()), soonest), latest)
}

// Saw notes a look that found the commit.
func (u *usual) Saw() { u.after.Store(int64(u.Usual() * 31 / 32)) }

// Missed notes one that did not.
func (u *usual) Missed() { u.after.Store(int64(u.Usual() * 5 / 4)) }
