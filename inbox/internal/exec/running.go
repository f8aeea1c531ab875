package exec

import (
	"sync"
	"time"

	"github.com/skald-go/skald/inbox/internal/partition"
)

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

// An Overdue is a handler, or a call, that goes on although its time is over and its context has ended.
type Overdue struct {
	Entry *partition.Entry
	Begun time.Time
	Most  time.Duration // that it had
}

// Overdue lists what is overdue, and logs each once.
func (x *Executor[TTx]) Overdue() (out []Overdue) {
	x.acts.mu.Lock()
	defer x.acts.mu.Unlock()
	for a := range x.acts.now {
		took := time.Since(a.begun)
		if took < a.most+mercy {
			continue
		}
		e := a.e
		out = append(out, Overdue{Entry: e, Begun: a.begun, Most: a.most})
		if !a.told {
			a.told = true
			x.o.Logger.Warn("inbox: a handler ignores that its context ended; its key waits until it returns",
				"consumer", x.o.Group, "topic", e.Topic, "partition", e.Partition, "position",
				e.Position, "id", e.ID,
				"type", e.Type, "after", took.Round(time.Second))
		}
	}
	return out
}
