package rediscmd

import (
	"context"
	"time"

	"github.com/skald-go/skald/internal/backoff"
)

// An undo is a command that is sent until it is answered, or its time is over.
type undo struct {
	command []string
	until   time.Time
	next    time.Time // when it is sent
	tries   int
	again   bool // one answer is not enough
}

const (
	mostUndo       = 10_000 // commands that wait; more of them are dropped
	mostUndoAtOnce = 500    // of one call
)

// Undo sends commands in the background, again until Redis answers each with no error, or within is over. It
// also asks while Redis is bypassed.
func (g *Guard) Undo(commands [][]string, within time.Duration) { g.addUndo(commands, within, false) }

// addUndo takes commands up. Again: they are sent once more a second after they were answered, as what they
// undo may still lie at a server that had hung, on another connection.
func (g *Guard) addUndo(commands [][]string, within time.Duration, again bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	now := time.Now()
	for _, one := range commands {
		if len(g.undo) < mostUndo {
			g.undo = append(g.undo, undo{command: one, until: now.Add(within), next: now, again: again})
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

// undoAll ends when there is nothing left.
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

// dueUndo takes out what is to be sent now. If that is nothing, more comes after wait, or there is no more.
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
