package inbox

import (
	"fmt"
	"time"
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
	if l.running == 0 {
		l.stuck = 0
	} else if now.Sub(l.stuckAt) >= overdueEvery || l.stuck > l.running {
		l.stuck, l.stuckAt = min(l.in.exec.CountOverdue(), l.running), now
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
