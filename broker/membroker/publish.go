// This file publishes messages, and keeps the order of messages with the same key after failures.

package membroker

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/broker"
)

var (
	errTooLarge = errors.New("message too large")
)

// successors identifies the messages that a failed message holds back: those with its key, or all messages of
// the topic if the topic does not exist.
type successors struct {
	topic, key string
	all        bool
}

// pending is a completed call. After a failure it holds messages back until the caller has the error.
type pending struct {
	b        *Broker
	ctx      context.Context // when it has ended, the call holds no messages back
	err      error
	answered bool // the caller has the error
}

// Done returns a closed channel.
func (p *pending) Done() <-chan struct{} { return p.b.c.answered }

// Wait returns the result immediately.
func (p *pending) Wait(context.Context) error {
	p.b.c.mu.Lock()
	defer p.b.c.mu.Unlock()
	if p.err != nil && !p.answered {
		p.answered = true
		p.b.release()
	}
	return p.err
}

func (p *pending) over() bool { return p.answered || p.ctx.Err() != nil }

// Publish stores msgs before it returns. After a failure it holds back later messages with the failed keys,
// until Wait has returned or ctx has ended.
func (b *Broker) Publish(ctx context.Context, msgs []skald.Message, only ...broker.Topics) broker.Pending {
	p := &pending{b: b, ctx: ctx}
	b.c.mu.Lock()
	defer b.c.mu.Unlock()
	if b.closed {
		p.err = broker.ErrClosed
		return p
	}
	if err := ctx.Err(); err != nil {
		p.err = fmt.Errorf("publish: %w", err)
		return p
	}
	kept := arena{left: make([]byte, 0, sizeOf(msgs))}
	var bad broker.PublishError
	for i := range msgs {
		m := &msgs[i]
		refused, err := b.store(m, &kept, only)
		switch {
		case err == nil:
			continue
		case refused:
			bad.Refuse(i, err)
		default:
			bad.Fail(i, err)
		}
		b.hold(m, p)
	}
	if len(bad.Failed)+len(bad.Refused) > 0 {
		p.err = &bad
	}
	return p
}

// store adds m to its partition. If it returns an error, refused is true if a retry would fail too.
func (b *Broker) store(m *skald.Message, kept *arena, only []broker.Topics) (refused bool, err error) {
	t := b.c.topics[m.Topic]
	switch {
	case b.isHeld(m):
		return false, broker.ErrHeldBack
	case t == nil:
		return true, fmt.Errorf("publish to %q: %w", m.Topic, broker.ErrNoTopic)
	case len(only) > 0 && only[0][m.Topic] != t.id:
		return false, fmt.Errorf("publish to %q: %w", m.Topic, broker.ErrRecreated)
	case sizeOne(m) > b.c.opts.MaxBytes:
		return true, fmt.Errorf("publish to %q: %d bytes: %w", m.Topic, sizeOne(m), errTooLarge)
	}
	if b.c.opts.Fail != nil {
		if err := b.c.opts.Fail(m); err != nil {
			return errors.Is(err, ErrRefused), fmt.Errorf("publish to %q: %w", m.Topic, err)
		}
	}
	t.partitionOf(m.Key).append(kept.copy(m))
	return false, nil
}

func (b *Broker) isHeld(m *skald.Message) bool {
	if len(b.held) == 0 {
		return false
	}
	return b.holds(successors{topic: m.Topic, all: true}) ||
		m.Key != nil && b.holds(successors{topic: m.Topic, key: string(m.Key)})
}

func (b *Broker) holds(s successors) bool {
	return slices.ContainsFunc(b.held[s], func(p *pending) bool { return !p.over() })
}

// hold makes p hold back the successors of m.
func (b *Broker) hold(m *skald.Message, p *pending) {
	s := successors{topic: m.Topic, key: string(m.Key)}
	switch {
	case b.c.topics[m.Topic] == nil:
		s = successors{topic: m.Topic, all: true}
	case m.Key == nil:
		return
	}
	if !slices.Contains(b.held[s], p) {
		b.held[s] = append(b.held[s], p)
	}
}

// release removes the calls that no longer hold messages back.
func (b *Broker) release() {
	for s, ps := range b.held {
		ps = slices.DeleteFunc(ps, (*pending).over)
		if b.held[s] = ps; len(ps) == 0 {
			delete(b.held, s)
		}
	}
}

// arena stores the bytes of all messages of a call in one allocation.
type arena struct{ left []byte }

func (a *arena) copy(m *skald.Message) skald.Message {
	out := *m
	out.Key, out.Data = a.bytes(m.Key), a.bytes(m.Data)
	if m.Headers != nil {
		out.Headers = make([]skald.Header, len(m.Headers))
		for i, h := range m.Headers {
			out.Headers[i] = skald.Header{Name: h.Name, Value: a.bytes(h.Value)}
		}
	}
	return out
}

// bytes returns a copy of b, or nil if b is nil. It limits the capacity, so that appending to one copy cannot
// overwrite the next copy.
func (a *arena) bytes(b []byte) []byte {
	if b == nil {
		return nil
	}
	from := len(a.left)
	a.left = append(a.left, b...)
	return a.left[from:len(a.left):len(a.left)]
}

func sizeOf(msgs []skald.Message) (n int) {
	for i := range msgs {
		n += sizeOne(&msgs[i])
	}
	return n
}

func sizeOne(m *skald.Message) int {
	n := len(m.Key) + len(m.Data)
	for _, h := range m.Headers {
		n += len(h.Name) + len(h.Value)
	}
	return n
}
