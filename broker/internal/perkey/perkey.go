// Package perkey keeps the contract of broker.Publisher over a broker that answers each message by itself: of
// one key at most one message is unanswered at any time, while those of other keys fly beside it. A message
// that is not durable holds back all that stand behind it, until its caller knows.
package perkey

import (
	"context"
	"fmt"
	"iter"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/broker"
)

// A Kind is what an error means for the message.
type Kind int

const (
	Failed  Kind = iota // worth another try
	Refused             // it will be answered the same next time
	Outage              // nothing is known
)

const maxBytesFlying = 16 << 20

// An Item is one message of one call on its way; M is what its driver makes of it.
type Item[M any] struct {
	Topic  string
	Type   string
	Key    []byte
	Since  time.Time
	Only   string // the id that the topic must have, if it is fenced
	Fenced bool
	Out    M
	Err    error // it cannot travel

	call *call[M]
	line *line[M]
	at   int

	token    uint64
	size     int
	deadline time.Time
}

// Context is that of the call.
func (it *Item[M]) Context() context.Context { return it.call.ctx }

type lineKey struct{ topic, key string }

// A line is the messages of one key that are not answered yet. The first is sent, the others wait.
type line[M any] struct {
	key   lineKey
	loose bool // a message without a key: a line of its own, which nothing stands behind
	queue []*Item[M]
	held  []*call[M] // that failed, whose caller has not heard of it
}

// Lines are all that is on its way. Its lock, which it shares with its driver, is held by whoever calls it,
// but for Publish and what a Pending does.
type Lines[M any] struct {
	name   string // of the broker, for errors
	mu     *sync.Mutex
	rouse  func()
	lines  map[lineKey]*line[M]
	ready  []*line[M] // whose first message is to be sent
	flying map[uint64]*Item[M]
	bytes  int // of what flies
	token  uint64
	closed bool
	// silent are topics that do not answer, and when the next message may try one.
	silent map[string]time.Time
}

// New makes lines to the broker of that name; rouse is called when Next may have something.
func New[M any](name string, mu *sync.Mutex, rouse func()) *Lines[M] {
	return &Lines[M]{name: name, mu: mu, rouse: rouse, lines: map[lineKey]*line[M]{},
		flying: map[uint64]*Item[M]{}, silent: map[string]time.Time{}}
}

// Publish queues msgs behind what was published before.
func (ls *Lines[M]) Publish(ctx context.Context, msgs []skald.Message, only []broker.Topics,
	encode func(*skald.Message) (M, error)) broker.Pending {
	c := &call[M]{lines: ls, ctx: ctx, done: make(chan struct{}), left: len(msgs)}
	items, now := make([]*Item[M], len(msgs)), time.Now()
	for i := range msgs {
		m := &msgs[i]
		out, err := encode(m)
		items[i] = &Item[M]{call: c, at: i, Since: now, Topic: m.Topic, Type: m.Type,
			Key: slices.Clone(m.Key), Out: out, Err: err}
		if len(only) > 0 {
			items[i].Only, items[i].Fenced = only[0][m.Topic], true
		}
	}
	ls.mu.Lock()
	defer ls.mu.Unlock()
	if err := ctx.Err(); ls.closed || err != nil || len(msgs) == 0 {
		if ls.closed {
			err = broker.ErrClosed
		}
		c.fatal, c.left = err, 0
		c.finish()
		return c
	}
	for _, it := range items {
		ls.queue(it)
	}
	ls.rouse()
	return c
}

func (ls *Lines[M]) queue(it *Item[M]) {
	l := &line[M]{loose: true}
	if it.Key != nil {
		k := lineKey{it.Topic, string(it.Key)}
		if l = ls.lines[k]; l == nil {
			l = &line[M]{key: k}
			ls.lines[k] = l
		}
	}
	it.line = l
	if len(l.held) > 0 {
		it.settle(Failed, broker.ErrHeldBack)
		return
	}
	l.queue = append(l.queue, it)
	if len(l.queue) == 1 {
		ls.ready = append(ls.ready, l)
	}
}

// Next takes a message that may be sent now; nil: there is none, or most already fly.
func (ls *Lines[M]) Next(most int) *Item[M] {
	if len(ls.ready) == 0 || ls.closed || len(ls.flying) >= most || ls.bytes >= maxBytesFlying {
		return nil
	}
	l := ls.ready[0]
	ls.ready = ls.ready[1:]
	return l.queue[0]
}

// First makes it the next one again.
func (ls *Lines[M]) First(it *Item[M]) { ls.ready = slices.Insert(ls.ready, 0, it.line) }

// Again has it sent behind the others that wait.
func (ls *Lines[M]) Again(it *Item[M]) {
	ls.ready = append(ls.ready, it.line)
	ls.rouse()
}

// Launch notes that it is sent, with so many bytes, and that its answer is waited for until then. The token
// is its name among those that fly.
func (ls *Lines[M]) Launch(it *Item[M], size int, deadline time.Time) (token uint64) {
	ls.token++
	it.token, it.size, it.deadline = ls.token, size, deadline
	ls.flying[it.token] = it
	ls.bytes += size
	return it.token
}

// Flying are those that wait for an answer. They may land meanwhile.
func (ls *Lines[M]) Flying() iter.Seq[*Item[M]] { return maps.Values(ls.flying) }

// Aloft is the one with that token, if it still waits for its answer; nil: its caller was told that nothing
// is known.
func (ls *Lines[M]) Aloft(token uint64) *Item[M] { return ls.flying[token] }

// Land takes it out of what flies; Done, Fail or Again follows.
func (ls *Lines[M]) Land(it *Item[M]) {
	delete(ls.flying, it.token)
	ls.bytes -= it.size
	ls.rouse()
}

// Down lands it and fails it, unless it was answered already.
func (ls *Lines[M]) Down(it *Item[M], k Kind, err error) {
	if ls.flying[it.token] == it {
		ls.Land(it)
		ls.Fail(it, k, err)
	}
}

// Overdue fails all whose answer has not come in time, with what why says of each.
func (ls *Lines[M]) Overdue(now time.Time, why func(*Item[M]) error) {
	for it := range ls.Flying() {
		if now.After(it.deadline) {
			ls.Down(it, Outage, why(it))
		}
	}
}

// waits reports whether a message in flight has a deadline before late.
func (ls *Lines[M]) waits(late time.Time) bool {
	for it := range ls.Flying() {
		if it.deadline.Before(late) {
			return true
		}
	}
	return false
}

// silence fails the messages in flight that have a deadline before late. Their topics are silent until then.
func (ls *Lines[M]) silence(late, until time.Time) {
	for it := range ls.Flying() {
		if it.deadline.Before(late) {
			ls.silent[it.Topic] = until
			ls.Down(it, Failed, fmt.Errorf("publish to %q: %w", it.Topic, ErrSilent))
		}
	}
}

// isSilent reports whether a topic does not answer. Every so often it lets one message try.
func (ls *Lines[M]) isSilent(topic string, now time.Time, every time.Duration) bool {
	until, silent := ls.silent[topic]
	if silent && !now.Before(until) {
		ls.silent[topic] = now.Add(every)
		return false
	}
	return silent
}

// Done answers it, and lets the next one of its key go.
func (ls *Lines[M]) Done(it *Item[M]) {
	l := it.line
	delete(ls.silent, it.Topic)
	it.settle(Failed, nil)
	l.queue = l.queue[1:]
	if len(l.queue) > 0 {
		ls.ready = append(ls.ready, l)
		ls.rouse()
	}
	ls.forget(l)
}

// Fail answers it, and holds back all that stand behind it.
func (ls *Lines[M]) Fail(it *Item[M], k Kind, err error) {
	l := it.line
	behind := l.queue[1:]
	l.queue = nil
	it.settle(k, err)
	for _, b := range behind {
		b.settle(Failed, broker.ErrHeldBack)
	}
	ls.forget(l)
}

func (ls *Lines[M]) forget(l *line[M]) {
	if !l.loose && len(l.queue) == 0 && len(l.held) == 0 {
		delete(ls.lines, l.key)
	}
}

// Shut takes no more; it reports whether it was open.
func (ls *Lines[M]) Shut() bool {
	was := ls.closed
	ls.closed = true
	return !was
}

// Closed tells whether it is shut.
func (ls *Lines[M]) Closed() bool { return ls.closed }

// End answers all that is left with an outage, once nothing is sent any more.
func (ls *Lines[M]) End() {
	for it := range ls.Flying() {
		ls.Down(it, Outage, broker.ErrClosed)
	}
	for _, l := range ls.ready {
		if len(l.queue) > 0 {
			ls.Fail(l.queue[0], Outage, broker.ErrClosed)
		}
	}
	ls.ready = nil
}

// settle notes the answer to one message.
func (it *Item[M]) settle(k Kind, err error) {
	c, l := it.call, it.line
	switch {
	case err == nil:
	case k == Outage:
		c.fatal = err
	case k == Refused:
		c.bad.Refuse(it.at, err)
	default:
		c.bad.Fail(it.at, err)
	}
	if err != nil && !l.loose && !slices.Contains(l.held, c) {
		l.held = append(l.held, c)
		c.holds = append(c.holds, l)
	}
	if c.left--; c.left == 0 {
		c.finish()
	}
}

// A call is a broker.Pending. What it holds back, it holds back until the caller has the answer, or has gone:
// a caller whose context ended will not ask.
type call[M any] struct {
	lines *Lines[M]
	ctx   context.Context
	done  chan struct{}

	// under the lock
	left  int
	fatal error
	bad   broker.PublishError
	holds []*line[M]
	err   error
}

// finish is called once, when every message is answered.
func (c *call[M]) finish() {
	switch {
	case c.fatal != nil:
		c.err = c.fatal
	case len(c.bad.Failed)+len(c.bad.Refused) > 0:
		c.err = &c.bad
	}
	if len(c.holds) > 0 {
		context.AfterFunc(c.ctx, c.release)
	}
	close(c.done)
}

func (c *call[M]) Done() <-chan struct{} { return c.done }

func (c *call[M]) Wait(ctx context.Context) error {
	select {
	case <-c.done:
	case <-ctx.Done():
		select {
		case <-c.done: // it is answered all the same
		default:
			return fmt.Errorf("wait for %s: %w", c.lines.name, ctx.Err())
		}
	}
	c.release()
	return c.err
}

// release lets the successors of what failed go.
func (c *call[M]) release() {
	c.lines.mu.Lock()
	defer c.lines.mu.Unlock()
	for _, l := range c.holds {
		l.held = slices.DeleteFunc(l.held, func(o *call[M]) bool { return o == c })
		c.lines.forget(l)
	}
	c.holds = nil
}
