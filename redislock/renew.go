package redislock

import (
	"context"
	"time"
)

// A clock is a time by the wall and by the monotonic clock, whichever has gone farther: the one stands still
// while a machine sleeps, the other may be set.
type clock struct{ mono, wall time.Time }

func now() clock {
	t := time.Now()
	return clock{t, t.Round(0)}
}

func (c clock) add(d time.Duration) clock { return clock{c.mono.Add(d), c.wall.Add(d)} }

// left is how long it is until c.
func (c clock) left() time.Duration {
	n := now()
	return min(c.mono.Sub(n.mono), c.wall.Sub(n.wall))
}

// renewAll renews all leases, in one call for all of them, until there is none. A lease that Redis does not
// know as ours is lost, and so is one that could not be renewed for as long as it lasts.
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

// idle tells whether there is nothing to renew; then the goroutine ends.
func (k *Locker) idle() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	if len(k.held) == 0 {
		k.renewing = false
	}
	return !k.renewing
}

// pause is how long it is until the next renewal, or until the first lease ends, if that is sooner.
func (k *Locker) pause() time.Duration {
	k.mu.Lock()
	defer k.mu.Unlock()
	d := k.o.TTL / 3
	for l := range k.held {
		d = min(d, max(0, l.until.left()))
	}
	return d
}

func (k *Locker) renewOnce() {
	k.mu.Lock()
	var all []*Lease
	var commands [][]string
	for l := range k.held {
		if l.ctx.Err() != nil { // the caller's own context ended: the lease is released, or ends by itself
			delete(k.held, l)
			continue
		}
		all, commands = append(all, l), append(commands, k.each(l.keys, l.token, k.renew)...)
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

// renewed takes up an answer. One that says neither, such as an error, leaves the lease what it is: Redis may
// still have it, and the next renewal may succeed.
func (k *Locker) renewed(l *Lease, asked clock, mine, taken bool) {
	k.mu.Lock()
	if mine {
		l.until = asked.add(k.o.TTL)
	}
	lost := taken || l.until.left() <= 0
	k.mu.Unlock()
	if lost {
		k.lose(l)
	}
}

// lose ends a lease that ran out, or that is somebody else's. A renewal may still be on its way, and other
// keys of it may be there: they are taken back.
func (k *Locker) lose(l *Lease) {
	if l.ctx.Err() == nil && k.end(l, ErrLost) {
		k.redis.Undo(k.each(l.keys, l.token, k.drop), k.o.TTL)
		k.o.Logger.Warn("redislock: a lease is lost; its work is told to stop", "keys", l.keys)
	}
}
