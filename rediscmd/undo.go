// This file repeats commands in the background until Redis has executed them.

package rediscmd

import (
	"context"
	"time"

	"github.com/skald-go/skald/internal/backoff"
)

// undo is a command that is sent until Redis replies to it, or until its time is over.
type undo struct {
	command []string
	until   time.Time
	next    time.Time // the time of the next attempt
	tries   int
	again   bool // send the command again after the first reply
}

const (
	mostUndo       = 10_000 // maximum of waiting commands; further ones are dropped
	mostUndoAtOnce = 500    // maximum of commands in one call
)

// Undo sends commands in the background. It repeats each command until Redis replies without an error, or
// until the time limit is over. It also sends during a bypass.
func (g *Guard) Undo(commands [][]string, limit time.Duration) { g.addUndo(commands, limit, false) }

// addUndo queues commands. If twice is true, they are sent a second time, one second after their reply. The
// commands that they undo may still wait on another connection of a server that hung.
func (g *Guard) addUndo(commands [][]string, within time.Duration, twice bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	now := time.Now()
	for _, one := range commands {
		if len(g.undo) < mostUndo {
			g.undo = append(g.undo, undo{command: one, until: now.Add(within), next: now, again: twice})
		}
	}
	switch {
	case len(g.undo) == 0:
	case !g.undoing:
		g.undoing = true
		go g.undoAll()
	default:
		select {
		case g.wake <- struct{}{}:
		default:
		}
	}
}

// undoAll sends the queued commands. It ends when there are none.
func (g *Guard) undoAll() {
	for {
		due, wait, more := g.dueUndo()
		switch {
		case !more:
			return
		case len(due) > 0:
			g.sendUndo(due)
			continue
		}
		pause := time.NewTimer(wait)
		select {
		case <-pause.C:
		case <-g.wake:
			pause.Stop()
		}
	}
}

// dueUndo removes the commands that are due from the queue. If no command is due, the result wait is the
// time until the next command is due. It returns more=false if the queue was empty.
func (g *Guard) dueUndo() (due []undo, wait time.Duration, more bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	now := time.Now()
	var rest []undo
	for _, u := range g.undo {
		switch {
		case !now.Before(u.until):
		case !now.Before(u.next) && len(due) < mostUndoAtOnce:
			due = append(due, u)
		default:
			if d := u.next.Sub(now); len(rest) == 0 || d < wait {
				wait = d
			}
			rest = append(rest, u)
		}
	}
	g.undo = rest
	g.undoing = len(due)+len(rest) > 0
	return due, wait, g.undoing
}

func (g *Guard) sendUndo(due []undo) {
	commands := make([][]string, len(due))
	for i, u := range due {
		commands[i] = u.command
	}
	replies, err := g.Insist(context.Background(), commands)
	g.mu.Lock()
	defer g.mu.Unlock()
	now := time.Now()
	for i, u := range due {
		switch {
		case err != nil || replies[i].Err != nil:
			u.tries++
			u.next = now.Add(backoff.After(u.tries, 50*time.Millisecond, time.Second))
		case u.again:
			u.again, u.tries, u.next = false, 0, now.Add(time.Second)
		default:
			continue
		}
		g.undo = append(g.undo, u)
	}
}
