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
