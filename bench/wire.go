package main

import (
	"context"
	"fmt"
	"iter"
	"sync/atomic"
	"time"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/broker"
)

// A wire is one broker product: our driver for it, and what it is set beside on the same server.
type wire struct {
	b    *bench
	name string
	addr string
	rows int // messages of one turn, but for those that send them one by one

	open  func() (broker.Broker, error)
	topic func(ctx context.Context, partitions int) (string, error)
	send  func(ctx context.Context, topic string) ([]sender, error) // others' ways to publish
	take  func(topic string) []taker                                // others' ways to consume

	// ready fills a topic for a new group, and over removes the group, where a broker cannot rewind. Nil: a
	// topic is filled once.
	ready, over func(ctx context.Context, topic, group string) error
}

// A sender publishes pages and returns when each message of them is confirmed.
type sender struct {
	name string
	rows int
	send func(ctx context.Context, pages iter.Seq[[]skald.Message]) error
}

// A taker joins a group that is new, says when the first message is there, and returns when so many are
// acknowledged for good.
type taker struct {
	name string
	rows int
	take func(ctx context.Context, group string, rows int, first func()) error
}

// on has one's topic ready for it before its turn, and its group removed behind it.
func (m *meter) on(ctx context.Context, w *wire, topic string, one taker) error {
	if w.ready == nil {
		return m.take(ctx, name(), one)
	}
	group := name()
	if err := w.ready(ctx, topic, group); err != nil {
		return fmt.Errorf("fill topic: %w", err)
	}
	if err := m.take(ctx, group, one); err != nil {
		return err
	}
	return w.over(ctx, topic, group)
}

const (
	wirePartitions = 16
	wirePage       = 1000 // messages in a call
	wireCalls      = 20   // calls under way: with them the relay's own bound
)

// The names of contenders that bars speak of.
const (
	ours         = "skald"
	rawClient    = "raw client"
	rawAckAll    = "raw client, one ack for 500"
	watermill1   = "watermill, one publisher"
	watermill64  = "watermill, 64 publishers"
	watermillSub = "watermill"
)

func kafkaWire(_ context.Context, b *bench) (*wire, error) { return newKafkaWire(b), nil }

// products are the brokers that are measured: where each is, and how it is found there.
func products() []product {
	return []product{
		{"kafka", func(b *bench) bool { return b.kafka != "" }, kafkaWire},
		{"nats", func(*bench) bool { return true }, newNATSWire},
		{"rabbitmq", func(b *bench) bool { return b.rabbit != "" }, newRabbitWire},
	}
}

type product struct {
	name  string
	there func(*bench) bool
	wire  func(context.Context, *bench) (*wire, error)
}

// wires are the comparisons of all brokers.
func wires() (out []comparison) {
	for _, p := range products() {
		out = append(out, publishing(p), consuming(p), journeys(p), scales(p))
	}
	return out
}

// on is a comparison of contenders on one product, with the processor time of its server beside ours.
func (p product) on(name, title string, bars []bar,
	set func(ctx context.Context, w *wire) ([]contender, error)) comparison {
	return comparison{name: name + "-" + p.name, title: title, bars: bars, there: p.there,
		set: func(ctx context.Context, b *bench) ([]contender, error) {
			w, err := p.wire(ctx, b)
			if err != nil {
				return nil, err
			}
			b.beside(p.name, w.addr)
			return set(ctx, w)
		}}
}

func publishing(p product) comparison {
	bars := []bar{
		{what: "skald ÷ raw client", of: ours, to: []string{rawClient}, value: perSecond, least: 0.7},
		{what: "skald ÷ watermill's adapter, the better one", of: ours, to: []string{watermill1, watermill64},
			value: perSecond, least: 1},
	}
	return p.on("broker-publish",
		"messages of 250 bytes, 10,000 keys, 16 partitions, all confirmed: calls of 1,000, 20 under way",
		bars,
		func(ctx context.Context, w *wire) ([]contender, error) {
			topic, err := w.topic(ctx, wirePartitions)
			if err != nil {
				return nil, err
			}
			bus, err := w.bus()
			if err != nil {
				return nil, err
			}
			others, err := w.send(ctx, topic)
			if err != nil {
				return nil, err
			}
			msgs := wireMessages(topic)
			var out []contender
			for _, s := range append([]sender{{ours, w.rows, pipelined(bus)}}, others...) {
				out = append(out, contender{name: s.name, turn: func(ctx context.Context, m *meter) error {
					if err := s.send(ctx, pages(msgs, wirePage)); err != nil { // connections, metadata
						return err
					}
					if err := m.begin(ctx); err != nil {
						return err
					}
					err := s.send(ctx, pages(msgs, s.rows))
					m.end(ctx, s.rows)
					return err
				}})
			}
			return out, nil
		})
}

func consuming(p product) comparison {
	bars := []bar{
		{what: "skald ÷ raw client", of: ours, to: []string{rawClient}, value: perSecond, least: 0.7},
		{what: "skald ÷ raw client, one ack for 500", of: ours, to: []string{rawAckAll}, value: perSecond},
		{what: "skald ÷ watermill's adapter", of: ours, to: []string{watermillSub},
			value: perSecond, least: 1},
	}
	return p.on("broker-consume",
		"messages of 250 bytes, 16 partitions, taken and acknowledged by one member of a new group, from the first message on", bars,
		func(ctx context.Context, w *wire) ([]contender, error) {
			topic, err := w.filled(ctx, wirePartitions)
			if err != nil {
				return nil, err
			}
			var out []contender
			for _, one := range append([]taker{{ours, w.rows, w.members(topic, 1)}}, w.take(topic)...) {
				out = append(out, contender{name: one.name,
					turn: func(ctx context.Context, m *meter) error { return m.on(ctx, w, topic, one) }})
			}
			return out, nil
		})
}

// take measures from the first message to the last acknowledgement; the processor time is that of joining,
// too.
func (m *meter) take(ctx context.Context, group string, one taker) error {
	if err := m.begin(ctx); err != nil {
		return err
	}
	var at atomic.Pointer[time.Time]
	first := func() { now := time.Now(); at.CompareAndSwap(nil, &now) }
	ctx, cancel := context.WithTimeout(ctx, 5*m.b.limit)
	defer cancel()
	if err := one.take(ctx, group, one.rows, first); err != nil {
		return err
	}
	m.end(ctx, one.rows)
	if from := at.Load(); from != nil {
		m.r.Seconds -= from.Sub(m.a.at).Seconds()
		m.r.PerSecond = float64(one.rows) / m.r.Seconds
	}
	return nil
}

// bus is a client of ours, until the end of the comparison.
func (w *wire) bus() (broker.Broker, error) {
	bus, err := w.open()
	if err != nil {
		return nil, err
	}
	w.b.later(bus.Close)
	return bus, nil
}

// filled is a topic with a turn's messages.
func (w *wire) filled(ctx context.Context, partitions int) (string, error) {
	topic, err := w.topic(ctx, partitions)
	if err != nil {
		return "", err
	}
	if w.ready != nil {
		return topic, nil
	}
	bus, err := w.bus()
	if err != nil {
		return "", err
	}
	if err := pipelined(bus)(ctx, pages(wireMessages(topic), w.rows)); err != nil {
		return "", fmt.Errorf("fill topic: %w", err)
	}
	return topic, nil
}

// wireMessages are as a relay hands them over, one of each key.
func wireMessages(topic string) []skald.Message {
	out := make([]skald.Message, keys)
	for i := range out {
		out[i] = newMessage(int64(i), []byte(encoded(int64(i))))
		out[i].Topic, out[i].Sequence = topic, fmt.Sprintf("%020d", i)
	}
	return out
}

// pages goes round msgs until there were so many.
func pages(msgs []skald.Message, rows int) iter.Seq[[]skald.Message] {
	return func(yield func([]skald.Message) bool) {
		for at := 0; at < rows; {
			from := at % len(msgs)
			n := min(wirePage, rows-at, len(msgs)-from)
			if !yield(msgs[from : from+n]) {
				return
			}
			at += n
		}
	}
}

// pipelined publishes as a relay does.
func pipelined(bus broker.Publisher) func(context.Context, iter.Seq[[]skald.Message]) error {
	return func(ctx context.Context, pages iter.Seq[[]skald.Message]) error {
		var under []broker.Pending
		for page := range pages {
			if len(under) == wireCalls {
				if err := under[0].Wait(ctx); err != nil {
					return err
				}
				under = under[1:]
			}
			under = append(under, bus.Publish(ctx, page))
		}
		for _, p := range under {
			if err := p.Wait(ctx); err != nil {
				return err
			}
		}
		return nil
	}
}

// members are n of ours in one group, each a client by itself.
func (w *wire) members(topic string, n int) func(context.Context, string, int, func()) error {
	return func(ctx context.Context, group string, rows int, first func()) error {
		var taken atomic.Int64
		errs := make(chan error, n)
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		for range n {
			go func() {
				errs <- w.member(ctx, broker.Group{Name: group, Topics: []string{topic}}, int64(rows),
					&taken, first)
			}()
		}
		var bad error
		for range n {
			if err := <-errs; err != nil && bad == nil {
				bad = err
				cancel()
			}
		}
		return bad
	}
}

func (w *wire) member(ctx context.Context, g broker.Group, rows int64, taken *atomic.Int64,
	first func()) (err error) {
	bus, err := w.open()
	if err != nil {
		return err
	}
	defer bus.Close()
	sub, err := joined(ctx, bus, g)
	if err != nil {
		return err
	}
	tick := time.NewTicker(5 * time.Millisecond) // another member may take the last one
	defer tick.Stop()
	for taken.Load() < rows {
		b, err := sub.Receive(ctx, 500)
		if err != nil {
			return err
		}
		if len(b.Deliveries) > 0 {
			first()
			taken.Add(int64(len(b.Deliveries)))
			if err := sub.Ack(ctx, b.Deliveries); err != nil {
				return err
			}
			continue
		}
		select {
		case <-sub.Ready():
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("%d of %d came: %w", taken.Load(), rows, ctx.Err())
		}
	}
	return sub.Close(ctx)
}
