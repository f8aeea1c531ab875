package inbox

import (
	"fmt"
	"sync"
	"time"

	"github.com/skald-go/skald/inbox/internal/partition"
)

// overdueEvery is how often Run looks for handlers that ignore that their time is over.
const overdueEvery = time.Second

// An act is a handler, or a call to the outside, that is running.
type act struct {
	e     *partition.Entry
	begun time.Time
	most  time.Duration
	told  bool
}

// acts are those that run now. They are for any goroutine.
type acts struct {
	mu  sync.Mutex
	now map[*act]bool
}

// begin notes that something of e begins that may take most; over says that it is done.
func (a *acts) begin(e *partition.Entry, most time.Duration) (over func()) {
	one := &act{e: e, begun: time.Now(), most: most}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.now == nil {
		a.now = map[*act]bool{}
	}
	a.now[one] = true
	return func() {
		a.mu.Lock()
		defer a.mu.Unlock()
		delete(a.now, one)
	}
}

// overdue lists what goes on although its time is over and its context has ended, and logs each once.
func (in *Inbox[TTx]) overdue() (out []Stuck) {
	in.acts.mu.Lock()
	defer in.acts.mu.Unlock()
	for a := range in.acts.now {
		took := time.Since(a.begun)
		if took < a.most+mercy {
			continue
		}
		e := a.e
		out = append(out, Stuck{Topic: e.Topic, Partition: e.Partition, Position: e.Position, ID: e.ID, Type: e.Type, Attempts: e.Again + 1, Since: a.begun, Uncharged: true,
			Error: fmt.Sprintf("its handler goes on although its context ended after %v", a.most)})
		if !a.told {
			a.told = true
			in.o.Logger.Warn("inbox: a handler ignores that its context ended; its key waits until it returns", "consumer", in.group, "topic", e.Topic,
				"partition", e.Partition, "position", e.Position, "id", e.ID, "type", e.Type, "after", took.Round(time.Second))
		}
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
				l.in.o.Logger.Warn("inbox: a handler ignores that its context ended; its message will come again", "consumer", l.in.group,
					"topic", e.Topic, "partition", e.Partition, "position", e.Position, "id", e.ID, "type", e.Type)
			}
			return
		}
	}
}
