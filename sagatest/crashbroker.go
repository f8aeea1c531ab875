package sagatest

import (
	"context"
	"fmt"
	"strings"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/broker"
)

// CrashBroker wraps b. Each call of b, and of the results of b, is an I/O of the current session of p. A
// crash kills subscriptions that have a Kill method, such as those of membroker. It closes other
// subscriptions.
func CrashBroker(p *Process, b broker.Broker) broker.Broker {
	return &crashBroker{Broker: b, p: p}
}

type crashBroker struct {
	broker.Broker
	p *Process
}

func (c *crashBroker) Incarnation(ctx context.Context) (name string, err error) {
	err = c.p.io(call{act: "Incarnation"}, func() (err error) {
		name, err = c.Broker.Incarnation(ctx)
		return err
	})
	return name, err
}

func (c *crashBroker) Topics(ctx context.Context, names ...string) (ids broker.Topics, err error) {
	err = c.p.io(call{act: "Topics", note: func() string { return strings.Join(names, " ") }},
		func() (err error) {
			ids, err = c.Broker.Topics(ctx, names...)
			return err
		})
	return ids, err
}

// Publish follows the contract of broker.Broker, also with a fault: after it omits a message, it publishes no
// later message with the same key.
func (c *crashBroker) Publish(ctx context.Context, msgs []skald.Message,
	only ...broker.Topics) broker.Pending {
	p := &crashPending{p: c.p}
	what := msgs
	switch mode := c.p.nextFault(); {
	case len(msgs) < 2:
	case mode == PartFirst:
		what = msgs[:len(msgs)/2]
	case mode == PartLast:
		what, p.part = withoutKeyOf(msgs)
	}
	p.less = len(what) < len(msgs)
	p.err = c.p.io(call{act: "Publish", effect: true, parts: len(msgs), keyed: true,
		note: func() string { return rowNote(msgs) }}, func() error {
		p.inner = c.Broker.Publish(ctx, what, only...)
		return nil
	})
	return p
}

// withoutKeyOf returns msgs without the messages that have the key of the first message.
func withoutKeyOf(msgs []skald.Message) (rest []skald.Message, left map[int]error) {
	left = map[int]error{}
	for i := range msgs {
		if i == 0 || msgs[0].Key != nil && msgs[i].Topic == msgs[0].Topic &&
			string(msgs[i].Key) == string(msgs[0].Key) {
			left[i] = ErrInjected
			continue
		}
		rest = append(rest, msgs[i])
	}
	return rest, left
}

type crashPending struct {
	p     *Process
	inner broker.Pending // nil if nothing was published
	err   error          // the error of Publish
	part  map[int]error  // errors of omitted messages, by index, if Wait returns them
	less  bool           // some messages were omitted
}

func (c *crashPending) Done() <-chan struct{} {
	if c.inner == nil {
		return answered()
	}
	return c.inner.Done()
}

func (c *crashPending) Wait(ctx context.Context) error {
	if c.inner == nil {
		return c.err
	}
	err := c.p.io(call{act: "Wait"}, func() error { return c.inner.Wait(ctx) })
	switch {
	case err != nil && !c.less:
		return err
	case err != nil:
		// Return an outage, because the indexes in err differ from those of the caller's messages.
		return fmt.Errorf("of a part: %v: %w", err, ErrInjected)
	case c.part != nil:
		return &broker.PublishError{Failed: c.part}
	}
	return c.err
}

func (c *crashBroker) Subscribe(ctx context.Context, g broker.Group) (s broker.Subscription, err error) {
	var inner broker.Subscription
	err = c.p.io(call{act: "Subscribe", effect: true, note: func() string { return g.Name }},
		func() (err error) {
			if inner, err = c.Broker.Subscribe(ctx, g); err == nil {
				c.p.opened(inner, func() { lose(inner) })
			}
			return err
		})
	if err != nil && inner != nil {
		c.p.closed(inner)
		lose(inner)
	}
	if err != nil {
		return nil, err
	}
	return &crashSubscription{p: c.p, s: inner}, nil
}

// lose ends a subscription when its process dies.
func lose(s broker.Subscription) {
	if k, ok := s.(interface{ Kill() }); ok {
		k.Kill()
		return
	}
	_ = s.Close(context.Background()) // the process is dead, so no caller gets the error
}

type crashSubscription struct {
	p *Process
	s broker.Subscription
}

func (c *crashSubscription) Ready() <-chan struct{} { return c.s.Ready() }

// Receive injects an error before the call, so that the deliveries stay in the client and are not lost.
func (c *crashSubscription) Receive(ctx context.Context, most int) (b broker.Batch, err error) {
	fails := c.p.nextFault() == ErrorAfter
	err = c.p.io(call{act: "Receive"}, func() (err error) {
		if fails {
			return nil
		}
		b, err = c.s.Receive(ctx, most)
		c.p.addResult(len(b.Deliveries)+len(b.Gained)+len(b.Lost) > 0, " %s", batchNote{&b})
		return err
	})
	return b, err
}

type batchNote struct{ b *broker.Batch }

func (n batchNote) String() (out string) {
	for _, l := range n.b.Lost {
		out += " −" + l.Name
	}
	for _, l := range n.b.Gained {
		out += " +" + l.Name
	}
	for i := range n.b.Deliveries {
		d := &n.b.Deliveries[i]
		out += fmt.Sprintf(" %s:%d:%s", d.Partition, d.Position, shortID(d.ID))
	}
	return out
}

func (c *crashSubscription) Ack(ctx context.Context, ds []broker.Delivery) error {
	note := func() string { return batchNote{&broker.Batch{Deliveries: ds}}.String() }
	return c.p.io(call{act: "Ack", effect: true, note: note}, func() error { return c.s.Ack(ctx, ds) })
}

func (c *crashSubscription) Alarm() string { return c.s.Alarm() }

func (c *crashSubscription) Pause(partitions ...string) {
	_ = c.p.io(call{act: "Pause"}, func() error { // Pause and Resume return no error
		c.s.Pause(partitions...)
		return nil
	})
}

func (c *crashSubscription) Resume(partitions ...string) {
	_ = c.p.io(call{act: "Resume"}, func() error { // Pause and Resume return no error
		c.s.Resume(partitions...)
		return nil
	})
}

func (c *crashSubscription) Close(ctx context.Context) error {
	return c.p.io(call{act: "Close", effect: true}, func() error {
		c.p.closed(c.s)
		return c.s.Close(ctx)
	})
}
