package inbox

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/skald-go/skald/inbox/internal/exec"
	"github.com/skald-go/skald/inbox/internal/partition"
	"github.com/skald-go/skald/store"
)

// overdueEvery is how often Run looks for handlers that ignore that their time is over.
const overdueEvery = time.Second

// stuckInHandlers are the messages whose handlers go on although their time is over.
func (in *Inbox[TTx]) stuckInHandlers() (out []Stuck) {
	for _, o := range in.exec.Overdue() {
		e := o.Entry
		out = append(out, Stuck{Topic: e.Topic, Partition: e.Partition, Position: e.Position, ID: e.ID,
			Type: e.Type, Attempts: e.Again + 1, Since: o.Begun, Uncharged: true,
			Error: fmt.Sprintf("its handler goes on although its context ended after %v", o.Most)})
	}
	return bySince(out)
}

// working is how many workers count towards Options.Workers: each that is stuck in a handler has a
// replacement, for at most as many as Options.Workers.
func (l *loop[TTx]) working() int { return l.running - min(l.stuck, l.in.o.Workers) }

// countStuck counts the workers whose handlers ignore that their context ended, and logs when no worker is
// left. A stuck message stays in hand: nothing of its key is begun.
func (l *loop[TTx]) countStuck() {
	now := time.Now()
	if l.running == 0 || now.Sub(l.stuckAt) >= overdueEvery || l.stuck > l.running {
		l.survey(now)
	}
	why := ""
	if most := 2 * l.in.o.Workers; l.stuck >= most {
		why = fmt.Sprintf(
			"nothing is handled: all %d workers, replacements included, are in handlers that ignore that their context ended",
			most)
	}
	switch was := l.in.allStuck; {
	case was == "" && why != "":
		l.in.o.Logger.Error("inbox: nothing is handled", "consumer", l.in.group, "why", why,
			"remedy", "let handlers end with their context, and restart the process")
	case was != "" && why == "":
		l.in.o.Logger.Info("inbox: messages are handled again: a handler returned", "consumer", l.in.group)
	}
	l.in.allStuck = why
}

// survey notes which handlers ignore that their context ended, and renews the claims of those past their
// time.
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
			hung[r.Entry.Identity()] = true
		}
		if r.Late && r.Entry.Parked != nil {
			late = append(late, r.Entry)
		}
	}
	l.stuck = min(l.stuck, l.running)
	l.in.parked.Hang(hung)
	l.in.retries.stuck = 0
	for e := range l.hands {
		if e.Retry && hung[e.Identity()] {
			l.in.retries.stuck++
		}
	}
	l.renew(late)
}

// renew extends the claims of es. A claim may end if its renewal fails: then another instance runs the
// message at once.
func (l *loop[TTx]) renew(es []*partition.Entry) {
	if len(es) == 0 || !l.renewing.CompareAndSwap(false, true) {
		return
	}
	go func() {
		defer l.renewing.Store(false)
		for _, e := range es {
			ctx, cancel := context.WithTimeout(l.hard, patience)
			err := l.in.exec.Renew(ctx, e, l.in.exec.Lease(exec.TurnOfClaimed))
			cancel()
			// while the handler's transaction locks the row, rivals do not claim it either
			if err != nil && l.hard.Err() == nil && !errors.Is(err, context.DeadlineExceeded) {
				l.in.o.Logger.Warn("inbox: the claim of a handler that goes on is not renewed",
					"consumer", l.in.group, "id", e.ID, "error", err)
			}
		}
	}()
}

// runningNow returns a function that reports whether a handler or a call still has a message, or is past its
// time with another message of its key.
func (in *Inbox[TTx]) runningNow() func(*store.Parked) bool {
	ids, keys := map[store.Identity]bool{}, map[string]bool{}
	for _, r := range in.exec.Running() {
		ids[r.Entry.Identity()] = true
		if r.Late && r.Entry.Key != nil {
			keys[r.Entry.Topic+"\x00"+string(r.Entry.Key)] = true
		}
	}
	return func(p *store.Parked) bool {
		return ids[p.Identity] || p.Message.Key != nil && keys[p.Message.Topic+"\x00"+string(p.Message.Key)]
	}
}

// abandon waits a little for handlers whose context has ended. What they did is not acknowledged: it comes
// again, and waits at its mark for a handler that still runs.
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
