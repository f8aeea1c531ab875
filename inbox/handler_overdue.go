// This file finds handlers that run past their time limit, and renews the claims of their messages.

package inbox

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/skald-go/skald/inbox/internal/exec"
	"github.com/skald-go/skald/inbox/internal/partition"
	"github.com/skald-go/skald/store"
)

// overdueEvery is how often Run looks for handlers that ignore the end of their context.
const overdueEvery = time.Second

// stuckInHandlers returns an entry for each handler that still runs although its context has ended.
func (in *Inbox[TTx]) stuckInHandlers() (out []Stuck) {
	for _, o := range in.exec.Overdue() {
		e, why := o.Entries[0], fmt.Sprintf("its handler still runs although its context ended after %v", o.Most)
		if n := len(o.Entries) - 1; n > 0 {
			why += fmt.Sprintf("; %d more messages are in the same call", n)
		}
		out = append(out, Stuck{Topic: e.Topic, Partition: e.Partition, Position: e.Position, ID: e.ID,
			Type: e.Type, Attempts: e.Again + 1, Since: o.Begun, Uncounted: true, Error: why})
	}
	return bySince(out)
}

// countStuck counts the handlers that ignore the end of their context. If there are twice as many of them as
// Options.Workers, no message starts any more: each such handler keeps memory, and more messages would only
// add handlers.
func (l *loop[TTx]) countStuck() {
	if now := time.Now(); l.running == 0 || now.Sub(l.stuckAt) >= overdueEvery {
		l.survey(now)
	}
	why := ""
	if most := 2 * l.in.o.Workers; l.stuck >= most {
		why = fmt.Sprintf("nothing is handled: %d handlers ignore that their context ended", l.stuck)
	}
	switch was := l.in.allStuck; {
	case was == "" && why != "":
		l.stuckSince = l.in.o.Now()
		l.in.o.Logger.Error("inbox: nothing is handled", "consumer", l.in.group, "why", why,
			"remedy", "make each handler return when its context ends, and restart the process")
	case was != "" && why == "":
		l.in.o.Logger.Info("inbox: messages are handled again: a handler returned", "consumer", l.in.group)
	}
	l.in.allStuck = why
}

// survey finds the handlers that ignore the end of their context. It renews the claims of messages with a
// handler that is past its time limit, but still has time to return.
func (l *loop[TTx]) survey(now time.Time) {
	if l.running == 0 && l.stuck == 0 && len(l.in.parked.hung) == 0 {
		return
	}
	hung := map[store.Identity]bool{}
	var late []*partition.Entry
	l.stuck, l.stuckAt = 0, now
	for _, r := range l.in.exec.Running() {
		if r.Stuck {
			l.stuck++
			for _, e := range r.Entries {
				hung[e.Identity()] = true
			}
		}
		if e := r.Entries[0]; r.Late && !r.Stuck && e.Parked != nil {
			late = append(late, e)
		}
	}
	l.in.parked.Hang(hung)
	l.renew(append(late, l.claimsToRenew(late)...), len(late))
}

// assignment has the state of a message that a worker has.
type assignment struct {
	claimed bool
	begun   time.Time // when the worker got the message
	held    time.Time // by Options.Now: when the claim began or was renewed
}

// claimsToRenew returns the claimed messages that workers have had for longer than Timeouts.Handle, for
// example in a batch. It omits the messages in excluded. A message is due when a third of its lease has
// passed since its claim or its last renewal.
func (l *loop[TTx]) claimsToRenew(excluded []*partition.Entry) (out []*partition.Entry) {
	now, most := l.in.o.Now(), l.in.exec.Lease(exec.MaxWaitClaimed)/3
	for e, h := range l.assigned {
		if h.claimed && time.Since(h.begun) >= l.in.o.Timeouts.Handle && now.Sub(h.held) >= most &&
			!slices.Contains(excluded, e) && !l.renewing.Load() {
			h.held = now
			l.assigned[e] = h
			out = append(out, e)
		}
	}
	return out
}

// renew extends the claims of the messages es in the background. The first messages of es, with the count
// overdue, have handlers that are past their time limit. If a renewal fails, the claim may end, and another
// instance then handles the message.
func (l *loop[TTx]) renew(es []*partition.Entry, overdue int) {
	if len(es) == 0 || !l.renewing.CompareAndSwap(false, true) {
		return
	}
	go func() {
		defer l.renewing.Store(false)
		for i, e := range es {
			ctx, cancel := context.WithTimeout(l.hard, patience)
			err := l.in.exec.Renew(ctx, e, l.in.exec.Lease(exec.MaxWaitClaimed))
			cancel()
			// While the handler's transaction locks the row, other instances cannot claim it either.
			if i >= overdue && errors.Is(err, context.DeadlineExceeded) {
				return // the transaction of its batch locks the rows of the others, too
			}
			if err != nil && l.hard.Err() == nil && !errors.Is(err, context.DeadlineExceeded) {
				l.in.o.Logger.Warn("inbox: the claim of a handler that still runs is not renewed",
					"consumer", l.in.group, "id", e.ID, "error", err)
			}
		}
	}()
}

// runningNow returns a function that reports whether a handler or a call still runs for a message. The
// function also returns true if a handler is past its time limit with another message of the same key.
func (in *Inbox[TTx]) runningNow() func(*store.Parked) bool {
	ids, keys := map[store.Identity]bool{}, map[string]bool{}
	for _, r := range in.exec.Running() {
		for _, e := range r.Entries {
			ids[e.Identity()] = true
			if r.Late && e.Key != nil {
				keys[e.Topic+"\x00"+string(e.Key)] = true
			}
		}
	}
	return func(p *store.Parked) bool {
		return ids[p.Identity] || p.Message.Key != nil && keys[p.Message.Topic+"\x00"+string(p.Message.Key)]
	}
}

// abandon waits a second for handlers after their context has ended. The inbox does not acknowledge their
// messages, so the broker delivers them again. A redelivered message then waits for its mark while the old
// handler still runs.
func (l *loop[TTx]) abandon() {
	enough := time.NewTimer(patience)
	defer enough.Stop()
	for l.running > 0 {
		select {
		case rs := <-l.results:
			l.unassign(rs)
		case <-enough.C:
			for e := range l.assigned {
				l.in.o.Logger.Warn(
					"inbox: a handler ignores that its context ended; the broker will deliver its message again",
					"consumer", l.in.group,
					"topic", e.Topic, "partition", e.Partition, "position", e.Position, "id", e.ID,
					"type", e.Type)
			}
			return
		}
	}
}
