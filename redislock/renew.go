package redislock

import (
	"context"
	"time"
)

// clock is a time by the wall clock and by the monotonic clock. The monotonic clock stops while the machine
// is suspended, and an operator may set the wall clock. So the clock that has advanced more applies.
type clock struct{ mono, wall time.Time }

func now() clock {
	t := time.Now()
	return clock{t, t.Round(0)}
}

func (c clock) add(d time.Duration) clock { return clock{c.mono.Add(d), c.wall.Add(d)} }

// remaining returns the time from now until c.
func (c clock) remaining() time.Duration {
	n := now()
	return min(c.mono.Sub(n.mono), c.wall.Sub(n.wall))
}

// renewAll renews all leases together at intervals, until there are none. A lease is lost if another holder
// has it in Redis, or if no renewal succeeds before it expires.
func (k *Locker) renewAll() {
	every := time.NewTimer(k.o.TTL / 3)
	defer every.Stop()
	for {
		select {
		case <-every.C:
		case <-k.wake:
			if k.idle() {
				return
			}
			continue
		}
		k.renewOnce()
		if k.idle() {
			return
		}
		every.Reset(k.pause())
	}
}

// idle returns true if there is no lease to renew, so that renewAll ends.
func (k *Locker) idle() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	if len(k.held) == 0 {
		k.renewing = false
	}
	return !k.renewing
}

// pause returns the time until the next renewal, or until the first lease expires if that is sooner.
func (k *Locker) pause() time.Duration {
	k.mu.Lock()
	defer k.mu.Unlock()
	d := k.o.TTL / 3
	for l := range k.held {
		d = min(d, max(0, l.until.remaining()))
	}
	return d
}

func (k *Locker) renewOnce() {
	k.mu.Lock()
	var all []*Lease
	var commands [][]string
	for l := range k.held {
		if l.ctx.Err() != nil { // the context of Acquire has ended, so the lease must not be renewed
			delete(k.held, l)
			continue
		}
		all, commands = append(all, l), append(commands, k.perKey(l.keys, l.token, k.renew)...)
	}
	k.mu.Unlock()
	if len(all) == 0 {
		return
	}
	asked := now()
	replies, err := k.redis.Insist(context.Background(), commands)
	for _, l := range all {
		mine, taken := err == nil, false
		if err == nil {
			for _, r := range replies[:len(l.keys)] {
				mine = mine && r.Err == nil && r.Text == "1"
				taken = taken || r.Err == nil && r.Text == "0"
			}
			replies = replies[len(l.keys):]
		}
		k.renewed(l, asked, mine, taken)
	}
}

// renewed processes the result of a renewal. An error does not change the lease, because Redis may still have
// it, and the next renewal may succeed.
func (k *Locker) renewed(l *Lease, asked clock, mine, taken bool) {
	k.mu.Lock()
	if mine {
		l.until = asked.add(k.o.TTL)
	}
	lost := taken || l.until.remaining() <= 0
	k.mu.Unlock()
	if lost {
		k.lose(l)
	}
}

// lose ends a lease that has expired, or that another holder has. A renewal may be in progress, and some keys
// may remain in Redis, so lose also releases all keys.
func (k *Locker) lose(l *Lease) {
	if l.ctx.Err() == nil && k.end(l, ErrLost) {
		k.redis.Undo(k.perKey(l.keys, l.token, k.drop), k.o.TTL)
		k.o.Logger.Warn("redislock: a lease is lost; the context of its work is cancelled", "keys", l.keys)
	}
}
