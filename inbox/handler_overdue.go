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

// stuckInHandlers returns a message for each handler that still runs although its context has ended.
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

// countStuck counts the handlers that ignore the end of their context. If they are twice Options.Workers, no
// message begins: each of them keeps memory, and none of the workers' messages may end.
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

// survey notes which handlers ignore the end of their context, and renews the claims of late ones.
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

// hand is the state of a message that a worker has.
type hand struct {
	claimed bool
	begun   time.Time // when the worker got the message
	held    time.Time // by Options.Now: when the claim began or was renewed
}

// claimsToRenew returns claimed messages except others, if a worker has them for longer than
// Timeouts.Handle, for example in a batch. Each is due a third of its lease after its claim or renewal.
func (l *loop[TTx]) claimsToRenew(others []*partition.Entry) (out []*partition.Entry) {
	now, most := l.in.o.Now(), l.in.exec.Lease(exec.MaxWaitClaimed)/3
	for e, h := range l.hands {
		if h.claimed && time.Since(h.begun) >= l.in.o.Timeouts.Handle && now.Sub(h.held) >= most &&
			!slices.Contains(others, e) && !l.renewing.Load() {
			h.held = now
			l.hands[e] = h
			out = append(out, e)
		}
	}
	return out
}

// renew extends the claims of es. The handlers of the first late ones are past their time. If a renewal fails
// the claim may end: then another instance runs the message immediately.
func (l *loop[TTx]) renew(es []*partition.Entry, late int) {
	if len(es) == 0 || !l.renewing.CompareAndSwap(false, true) {
		return
	}
	go func() {
		defer l.renewing.Store(false)
		for i, e := range es {
			ctx, cancel := context.WithTimeout(l.hard, patience)
			err := l.in.exec.Renew(ctx, e, l.in.exec.Lease(exec.MaxWaitClaimed))
			cancel()
			// while the handler's transaction locks the row, other instances cannot claim it either
			if i >= late && errors.Is(err, context.DeadlineExceeded) {
				return // the transaction of its batch locks the rows of the others, too
			}
			if err != nil && l.hard.Err() == nil && !errors.Is(err, context.DeadlineExceeded) {
				l.in.o.Logger.Warn("inbox: the claim of a handler that still runs is not renewed",
					"consumer", l.in.group, "id", e.ID, "error", err)
			}
		}
	}()
}

// runningNow returns a function that reports whether a handler or a call still runs for a message, or is past
// its time with another message of the same key.
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

// abandon waits a second for handlers after their context has ended. Their messages are not acknowledged, and
// will be delivered again. Then they wait at the mark while the handler still runs.
func (l *loop[TTx]) abandon() {
	enough := time.NewTimer(patience)
	defer enough.Stop()
	for l.running > 0 {
		select {
		case rs := <-l.results:
			l.put(rs)
		case <-enough.C:
			for e := range l.hands {
				l.in.o.Logger.Warn(
					"inbox: a handler ignores that its context ended; its message will come again",
					"consumer", l.in.group,
					"topic", e.Topic, "partition", e.Partition, "position", e.Position, "id", e.ID,
					"type", e.Type)
			}
			return
		}
	}
}
