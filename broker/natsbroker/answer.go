package natsbroker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/skald-go/skald/broker"
)

var errHeldBack = errors.New("held back: an earlier message of its key is not durable")

type kind int

const (
	failed  kind = iota // worth another try
	refused             // it will be answered the same next time
	outage              // nothing is known
)

// kindOf says what an error means that was not an answer to the message itself.
func kindOf(err error) kind {
	for _, no := range []error{broker.ErrNoTopic, errSetting, errCannotCarry, nats.ErrMaxPayload, nats.ErrBadSubject, nats.ErrBadHeaderMsg} {
		if errors.Is(err, no) {
			return refused
		}
	}
	return outage
}

// unsent is why nats.go did not take a message.
func (p *publisher) unsent(err error) error {
	if kindOf(err) == refused {
		return err
	}
	return p.orAway(err)
}

// forbid is told what NATS refused without an answer to the message: what went to that subject is refused.
func (p *publisher) forbid(err error) {
	if !errors.Is(err, nats.ErrPermissionViolation) {
		return // told by the calls that it hits
	}
	p.hear(err)
	p.mu.Lock()
	defer p.mu.Unlock()
	for token, f := range p.flying {
		if strings.Contains(strings.ToLower(err.Error()), `publish to "`+strings.ToLower(f.msg.Subject)+`"`) {
			p.land(token, f)
			p.fail(f.line, f.item, refused, fmt.Errorf("publish to %q: %w", f.topic, err))
		}
	}
}

// errTooLarge is JetStream's code for a message above its stream's max_msg_size.
const errTooLarge jetstream.ErrorCode = 10054

// answer hears from JetStream about one message.
func (p *publisher) answer(m *nats.Msg) {
	token := m.Subject[len(p.inbox):]
	p.mu.Lock()
	defer p.mu.Unlock()
	f := p.flying[token]
	if f == nil {
		return // its caller was told that nothing is known
	}
	p.land(token, f)
	var ack struct {
		Stream string              `json:"stream"`
		Error  *jetstream.APIError `json:"error"`
	}
	switch err := json.Unmarshal(m.Data, &ack); {
	case m.Header.Get("Status") == "503": // nobody listens: no such stream, or nobody leads it
		p.relook(f)
	case err != nil || ack.Error == nil && ack.Stream == "":
		p.fail(f.line, f.item, outage, fmt.Errorf("publish to %q: %w: an answer that is none of JetStream's", f.topic, broker.ErrAway))
	case ack.Error == nil:
		p.settle(f.line, f.item, failed, nil)
		p.advance(f.line)
	case ack.Error.ErrorCode == errTooLarge:
		p.fail(f.line, f.item, refused, fmt.Errorf("publish to %q: %w", f.topic, ack.Error))
	case ack.Error.Code >= 500:
		p.fail(f.line, f.item, outage, fmt.Errorf("publish to %q: %w: %w", f.topic, broker.ErrAway, ack.Error))
	default:
		delete(p.topics, f.topic)
		p.fail(f.line, f.item, failed, fmt.Errorf("publish to %q: %w", f.topic, ack.Error))
	}
}

// relook sends once more what nobody listened to, after another look at the topic.
func (p *publisher) relook(f *flight) {
	delete(p.topics, f.topic)
	if f.again || p.closed {
		p.fail(f.line, f.item, outage, fmt.Errorf("publish to %q: %w: nobody leads its stream", f.topic, broker.ErrAway))
		return
	}
	f.again = true
	p.ready = append(p.ready, f.line)
	p.rouse()
}

// land takes f out of what flies; the lock is held.
func (p *publisher) land(token string, f *flight) {
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
			return fmt.Errorf("wait for NATS: %w", ctx.Err())
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
