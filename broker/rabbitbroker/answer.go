package rabbitbroker

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/skald-go/skald/broker"
)

var (
	errHeldBack = errors.New("held back: an earlier message of its key is not durable")
	errRejected = errors.New("a queue of it is full, or has no majority, and rejected it")
)

type kind int

const (
	failed  kind = iota // worth another try
	refused             // it will be answered the same next time
	outage              // nothing is known
)

// kindOf says what an error means that was not an answer to the message itself.
func kindOf(err error) kind {
	if errors.Is(err, broker.ErrNoTopic) || errors.Is(err, ErrSettings) || errors.Is(err, errCannotCarry) || code(err) == amqp.AccessRefused {
		return refused
	}
	return outage
}

// confirmed hears from RabbitMQ about one message.
func (p *publisher) confirmed(token uint64, f *flight, acked bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.drain(f.wire)
	if p.flying[token] != f || !acked && f.wire.ch.IsClosed() {
		return // its caller was told that nothing is known, or will be
	}
	p.land(token, f)
	p.careful = max(p.careful-1, 0)
	switch {
	case f.returned != "":
		delete(p.topics, f.topic)
		p.fail(f.line, f.item, refused, fmt.Errorf("publish to %q under %q: no queue is bound to it, for no group has joined yet (RabbitMQ says %s): %w", f.topic, f.route, f.returned, broker.ErrNoTopic))
	case !acked:
		p.fail(f.line, f.item, failed, fmt.Errorf("publish to %q: %w", f.topic, errRejected))
	default:
		p.settle(f.line, f.item, failed, nil)
		p.advance(f.line)
	}
}

// drain takes up what was returned. Whatever is alike in all that can be seen may stand for the other.
func (p *publisher) drain(w *wire) {
	for {
		select {
		case r, ok := <-w.returns:
			if !ok {
				w.returns = nil
				return
			}
			for _, f := range p.flying {
				if f.wire == w && f.returned == "" && f.topic == r.Exchange && f.route == r.RoutingKey && f.msg.MessageId == r.MessageId && bytes.Equal(f.msg.Body, r.Body) {
					f.returned = r.ReplyText
					break
				}
			}
		default:
			return
		}
	}
}

// land takes f out of what flies; the lock is held.
func (p *publisher) land(token uint64, f *flight) {
	delete(p.flying, token)
	p.bytes -= f.size
	p.rouse()
}

func (p *publisher) refuse(l *line, it *item, k kind, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.fail(l, it, k, err)
}

// fail answers the first message of l, and holds back all that stand behind it; the lock is held.
func (p *publisher) fail(l *line, it *item, k kind, err error) {
	behind := l.queue[1:]
	l.queue = nil
	p.settle(l, it, k, err)
	for _, b := range behind {
		p.settle(l, b, failed, errHeldBack)
	}
	p.forget(l)
}

// advance lets the next message of l go; the lock is held.
func (p *publisher) advance(l *line) {
	l.queue = l.queue[1:]
	if len(l.queue) > 0 {
		p.ready = append(p.ready, l)
		p.rouse()
	}
	p.forget(l)
}

func (p *publisher) forget(l *line) {
	if !l.loose && len(l.queue) == 0 && len(l.held) == 0 {
		delete(p.lines, l.key)
	}
}

// settle notes the answer to one message; the lock is held.
func (p *publisher) settle(l *line, it *item, k kind, err error) {
	call := it.p
	switch {
	case err == nil:
	case k == outage:
		call.fatal = err
	case k == refused:
		note(&call.bad.Refused, it.at, err)
	default:
		note(&call.bad.Failed, it.at, err)
	}
	if err != nil && !l.loose && !slices.Contains(l.held, call) {
		l.held = append(l.held, call)
		call.holds = append(call.holds, l)
	}
	if call.left--; call.left == 0 {
		call.finish()
	}
}

func note(m *map[int]error, i int, err error) {
	if *m == nil {
		*m = map[int]error{}
	}
	(*m)[i] = err
}

// pending is a call under way. What it holds back, it holds back until the caller has the answer, or has gone: a
// caller whose context ended will not ask.
type pending struct {
	pub  *publisher
	ctx  context.Context
	done chan struct{}

	// under the publisher's lock
	left  int
	fatal error
	bad   broker.PublishError
	holds []*line
	err   error
}

// finish is called once, when every message is answered; the lock is held.
func (c *pending) finish() {
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

func (c *pending) Done() <-chan struct{} { return c.done }

func (c *pending) Wait(ctx context.Context) error {
	select {
	case <-c.done:
	case <-ctx.Done():
		select {
		case <-c.done: // it is answered all the same
		default:
			return fmt.Errorf("wait for RabbitMQ: %w", ctx.Err())
		}
	}
	c.release()
	return c.err
}

// release lets the successors of what failed go.
func (c *pending) release() {
	c.pub.mu.Lock()
	defer c.pub.mu.Unlock()
	for _, l := range c.holds {
		l.held = slices.DeleteFunc(l.held, func(p *pending) bool { return p == c })
		c.pub.forget(l)
	}
	c.holds = nil
}
