// Package perkey implements the contract of broker.Publisher for a broker that answers each message
// separately. At most one message of a key is unanswered at a time. Messages of other keys are sent in
// parallel. A failed message holds back all later messages of its key until its caller has the error.
//
// A line is the queue of the unanswered messages of one key. The driver sends the first message of each line.
// A message is flying from the time when it is sent until its answer.
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

// Kind classifies an error of a message.
type Kind int

const (
	Failed  Kind = iota // a retry may succeed
	Refused             // a retry would fail too
	Outage              // the state of the message is unknown
)

// maxBytesFlying is the total size of flying messages above which no message is sent, in bytes.
const maxBytesFlying = 16 << 20

// Item is a message of a call in progress. M is the type of its encoded form.
type Item[M any] struct {
	Topic  string
	Type   string
	Key    []byte
	Since  time.Time
	Only   string // the expected id of the topic, if Fenced
	Fenced bool
	Out    M
	Err    error // the error of encoding it, or nil

	call *call[M]
	line *line[M]
	at   int // index in the call

	token    uint64
	size     int
	deadline time.Time
}

// Context returns the context of the call.
func (it *Item[M]) Context() context.Context { return it.call.ctx }

type lineKey struct{ topic, key string }

// line is the queue of the unanswered messages of one key. The first message is sent, and the others wait.
type line[M any] struct {
	key   lineKey
	loose bool // the line is for one message without a key
	queue []*Item[M]
	held  []*call[M] // failed calls that hold back messages of this line
}

// Lines has all lines of a driver, and uses the driver's lock. The caller holds the lock, except for Publish
// and the methods of broker.Pending.
type Lines[M any] struct {
	name   string // the name of the broker
	mu     *sync.Mutex
	rouse  func()
	lines  map[lineKey]*line[M]
	ready  []*line[M] // lines with a first message to send
	flying map[uint64]*Item[M]
	bytes  int // total size of the flying messages
	token  uint64
	closed bool
	// silent maps topics that do not answer to the time of the next attempt.
	silent map[string]time.Time
}

// New returns lines for the broker with that name. It calls rouse when Next may return a message.
func New[M any](name string, mu *sync.Mutex, rouse func()) *Lines[M] {
	return &Lines[M]{name: name, mu: mu, rouse: rouse, lines: map[lineKey]*line[M]{},
		flying: map[uint64]*Item[M]{}, silent: map[string]time.Time{}}
}

// Publish queues msgs after the messages of earlier calls.
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

// Next returns a message to send. It returns nil if there is no such message, or if at least limit messages
// are flying.
func (ls *Lines[M]) Next(limit int) *Item[M] {
	if len(ls.ready) == 0 || ls.closed || len(ls.flying) >= limit || ls.bytes >= maxBytesFlying {
		return nil
	}
	l := ls.ready[0]
	ls.ready = ls.ready[1:]
	return l.queue[0]
}

// First puts the message item back, as the next message to send.
func (ls *Lines[M]) First(item *Item[M]) { ls.ready = slices.Insert(ls.ready, 0, item.line) }

// SendLast puts the message item back, as the last message to send.
func (ls *Lines[M]) SendLast(item *Item[M]) {
	ls.ready = append(ls.ready, item.line)
	ls.rouse()
}

// Launch records that the message item, of size bytes, is sent. The broker must answer before deadline.
// Launch returns a token that identifies the message.
func (ls *Lines[M]) Launch(item *Item[M], size int, deadline time.Time) (token uint64) {
	ls.token++
	item.token, item.size, item.deadline = ls.token, size, deadline
	ls.flying[item.token] = item
	ls.bytes += size
	return item.token
}

// Flying returns the flying messages. The caller may call Land for them during the iteration.
func (ls *Lines[M]) Flying() iter.Seq[*Item[M]] { return maps.Values(ls.flying) }

// Aloft returns the flying message with that token. It returns nil if the message was answered, or if its
// deadline has passed.
func (ls *Lines[M]) Aloft(token uint64) *Item[M] { return ls.flying[token] }

// Land removes the message item from the flying messages. The caller then calls Done, Fail, First or
// SendLast.
func (ls *Lines[M]) Land(item *Item[M]) {
	delete(ls.flying, item.token)
	ls.bytes -= item.size
	ls.rouse()
}

// Down calls Land and Fail for the message item, unless the message is not flying any more.
func (ls *Lines[M]) Down(item *Item[M], k Kind, err error) {
	if ls.flying[item.token] == item {
		ls.Land(item)
		ls.Fail(item, k, err)
	}
}

// Overdue fails the flying messages with a passed deadline. The function errorOf returns the error of a
// message.
func (ls *Lines[M]) Overdue(now time.Time, errorOf func(*Item[M]) error) {
	for it := range ls.Flying() {
		if now.After(it.deadline) {
			ls.Down(it, Outage, errorOf(it))
		}
	}
}

// anyDueBefore returns true if a flying message has a deadline before the time t.
func (ls *Lines[M]) anyDueBefore(t time.Time) bool {
	for it := range ls.Flying() {
		if it.deadline.Before(t) {
			return true
		}
	}
	return false
}

// markSilent fails the flying messages with a deadline before the time t. Their topics count as silent until
// the time end.
func (ls *Lines[M]) markSilent(t, end time.Time) {
	for it := range ls.Flying() {
		if it.deadline.Before(t) {
			ls.silent[it.Topic] = end
			ls.Down(it, Failed, fmt.Errorf("publish to %q: %w", it.Topic, ErrSilent))
		}
	}
}

// isSilent returns true if a topic does not answer. After each interval it returns false once, so that one
// message tests the topic.
func (ls *Lines[M]) isSilent(topic string, now time.Time, every time.Duration) bool {
	until, silent := ls.silent[topic]
	if silent && !now.Before(until) {
		ls.silent[topic] = now.Add(every)
		return false
	}
	return silent
}

// Done reports to the caller that the message item is durable. The next message of its line can then be
// sent.
func (ls *Lines[M]) Done(item *Item[M]) {
	l := item.line
	delete(ls.silent, item.Topic)
	item.settle(Failed, nil)
	l.queue = l.queue[1:]
	if len(l.queue) > 0 {
		ls.ready = append(ls.ready, l)
		ls.rouse()
	}
	ls.forget(l)
}

// Fail reports err to the caller of the message item, and holds back all later messages of its line.
func (ls *Lines[M]) Fail(item *Item[M], k Kind, err error) {
	l := item.line
	behind := l.queue[1:]
	l.queue = nil
	item.settle(k, err)
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

// Shut closes the lines. It returns false if they were closed already.
func (ls *Lines[M]) Shut() bool {
	was := ls.closed
	ls.closed = true
	return !was
}

// Closed returns true after Shut.
func (ls *Lines[M]) Closed() bool { return ls.closed }

// End answers all remaining messages with an outage. The driver must send no message after it.
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

// settle records the answer to one message in its call.
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

// call is a call of Publish; it implements broker.Pending. After a failure it holds messages back until the
// caller has the error, or until ctx has ended.
type call[M any] struct {
	lines *Lines[M]
	ctx   context.Context
	done  chan struct{}

	// The fields below are guarded by the lock.

	left  int
	fatal error
	bad   broker.PublishError
	holds []*line[M]
	err   error
}

// finish completes the call when every message has its answer.
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
		case <-c.done: // the answers arrived at the same time
		default:
			return fmt.Errorf("wait for %s: %w", c.lines.name, ctx.Err())
		}
	}
	c.release()
	return c.err
}

// release ends the holding back of messages by this call.
func (c *call[M]) release() {
	c.lines.mu.Lock()
	defer c.lines.mu.Unlock()
	for _, l := range c.holds {
		l.held = slices.DeleteFunc(l.held, func(o *call[M]) bool { return o == c })
		c.lines.forget(l)
	}
	c.holds = nil
}
