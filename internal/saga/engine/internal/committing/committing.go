// Package committing learns how long callers take, usually, from a saga's start to their commit.
package committing

import (
	"sync/atomic"
	"time"
)

// Soonest and latest bound what is learned.
const (
	Soonest = 100 * time.Microsecond
	latest  = 5 * time.Millisecond
)

// A Usual is such a time: who looks sooner looks in vain. One look in seven may, so that few wait longer than
// they must.
type Usual struct{ after atomic.Int64 }

// Usual is that time.
func (u *Usual) Usual() time.Duration {
	return min(max(time.Duration(u.after.Load()), Soonest), latest)
}

// Saw notes a look that found the commit.
func (u *Usual) Saw() { u.after.Store(int64(u.Usual() * 31 / 32)) }

// Missed notes one that did not.
func (u *Usual) Missed() { u.after.Store(int64(u.Usual() * 5 / 4)) }
