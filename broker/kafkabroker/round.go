package kafkabroker

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/skald-go/skald/broker"
	"github.com/skald-go/skald/broker/internal/cloudevents"
)

// segment is a part of a call.
type segment struct {
	call     *call
	from, to int
}

// extend adds message i of c to segs.
func extend(segs []segment, c *call, i int) []segment {
	if n := len(segs); n > 0 && segs[n-1].call == c && segs[n-1].to == i {
		segs[n-1].to++
		return segs
	}
	return append(segs, segment{c, i, i + 1})
}

// round is what one client was given at once.
type round struct {
	by   *sender
	segs []segment // not settled
	left int       // how many messages that are

	mu      sync.Mutex
	answers []answer // not settled
}

// answer is what Kafka, or franz-go, said to a record.
type answer struct {
	rec *kgo.Record
	err error
}

// sender is a client that publishes one round at a time.
type sender struct {
	cl    *kgo.Client
	fence *topicFence
	gate  *gate
	spent bool // no good any more; under the publisher's mu
}

// Two clients take turns, so that when a round hangs the other client knows its topics and has its
// connections: a new one would have to ask for all that, perhaps the very broker that does not answer.
const (
	usualSenders = 2
	maxSenders   = 4
)

// producing are the options of a client that publishes. Records are never given up while they may be on their
// way: that would break the sequence of the partition. An outage is answered by giveUp instead.
func (b *Broker) producing(f *topicFence) []kgo.Opt {
	return []kgo.Opt{
		kgo.RequiredAcks(kgo.AllISRAcks()),
		kgo.RecordPartitioner(f),
		kgo.ManualFlushing(),
		kgo.ProducerLinger(0),
		kgo.MaxBufferedRecords(b.opts.Round + 1),
		kgo.MaxBufferedBytes(0),
		kgo.ProducerBatchMaxBytesFn(b.limits.Of),
		kgo.ProduceRequestTimeout(10 * time.Second),
		kgo.WithHooks(&b.line),
	}
}

// dial makes a client that publishes.
func (b *Broker) dial() (*sender, error) {
	s := &sender{fence: newFence(b.with.partitioner), gate: &gate{}}
	cl, err := kgo.NewClient(b.client(append(b.producing(s.fence), s.gate.Through(b.cl)...)...)...)
	s.cl = cl
	s.fence.On(cl)
	return s, err
}

// start begins the rounds. Questions go by a client of their own: see fence.
func (p *publisher) start(asks *kgo.Client, dial func() (*sender, error)) {
	p.asks, p.dial = asks, dial
	go p.run()
}

// run does one round after the other.
func (p *publisher) run() {
	defer close(p.done)
	for {
		select {
		case <-p.wake:
		case <-p.ctx.Done():
			p.end()
			return
		}
		for p.turn() {
		}
	}
}

// end answers all that has no answer.
func (p *publisher) end() {
	p.wg.Wait()
	p.mu.Lock()
	segs := slices.Clone(p.queue)
	for _, h := range p.holds {
		segs = append(append(segs, h.waiting...), h.under()...)
	}
	p.mu.Unlock()
	p.giveUp(segs, broker.ErrClosed)
	for _, s := range p.senders {
		s.cl.Close()
	}
}

// turn is one round: everything queued, up to the bound. It reports whether there was anything.
func (p *publisher) turn() bool {
	p.endHolds()
	if p.ctx.Err() != nil {
		return false
	}
	segs := p.take()
	if len(segs) == 0 {
		return false
	}
	p.learn(segs)
	by := p.sender()
	segs = p.sift(segs, by)
	p.limits.Lapse(p.lapsed)
	p.lapsed = nil
	if len(segs) == 0 {
		p.rehire(by)
		return true
	}
	r := p.send(by, segs)
	if p.flush(r, p.stall) {
		p.settle(r)
		p.rehire(by)
		return true
	}
	p.leave(r)
	return true
}

// take cuts a round off the queue.
func (p *publisher) take() (segs []segment) {
	p.mu.Lock()
	defer p.mu.Unlock()
	n, bytes := 0, 0
	for len(p.queue) > 0 && n < p.round && bytes < maxBytesRound {
		s := &p.queue[0]
		from := s.from
		for ; s.from < s.to && n < p.round && bytes < maxBytesRound; s.from++ {
			n++
			bytes += s.call.sizes[s.from]
		}
		segs = append(segs, segment{s.call, from, s.from})
		if s.from == s.to {
			*s = segment{}
			p.queue = p.queue[1:]
		}
	}
	return segs
}

// sender is the next client that nothing hangs in; nil if there is none.
func (p *publisher) sender() *sender {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.idle = slices.DeleteFunc(p.idle, func(s *sender) bool {
		if s.spent {
			p.dismiss(s)
		}
		return s.spent
	})
	if len(p.senders) < usualSenders || len(p.idle) == 0 && len(p.senders) < maxSenders {
		if s, err := p.dial(); err == nil {
			p.senders, p.idle = append(p.senders, s), append(p.idle, s)
		}
	}
	if len(p.idle) == 0 {
		return nil
	}
	s := p.idle[0]
	p.idle = p.idle[1:]
	return s
}

// rehire makes s available for another round.
func (p *publisher) rehire(s *sender) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case s == nil:
	case s.spent, len(p.idle) >= usualSenders:
		p.dismiss(s)
	default:
		p.idle = append(p.idle, s)
	}
}

// dismiss ends a sender that has nothing on its way.
func (p *publisher) dismiss(s *sender) {
	p.senders = slices.DeleteFunc(p.senders, func(o *sender) bool { return o == s })
	p.wg.Go(s.cl.Close)
}

// sift answers the messages of segs that cannot be sent: those held back, and those too large for their
// topic. What a hold keeps waits there. The rest is for the sender; without one it waits with the last hold.
// The first message of a sender to a topic goes alone: what franz-go got before it knew the topic, it hands
// over record by record.
func (p *publisher) sift(segs []segment, by *sender) (out []segment) {
	p.mu.Lock()
	defer p.mu.Unlock()
	var again []segment        // forgotten since learn, or after a first one
	first := map[string]bool{} // topics that the sender takes up
	for _, s := range p.rest(segs) {
		c := s.call
		var topic string
		var known limit
		var up bool
		for i := s.from; i < s.to; i++ {
			r := &c.recs[i]
			if r.Topic != topic || i == s.from {
				topic, known = r.Topic, p.limits.About(r.Topic)
				up = by != nil && by.fence.TookUp(topic)
			}
			switch h, err := p.keeper(r, by), p.unfit(c, i, known); { // in this order
			case p.heldBack(r):
				p.fail(c, i, failed, broker.ErrHeldBack)
			case h != nil:
				h.keep(p, c, i)
			case known.Bytes == 0 || first[topic]:
				again = extend(again, c, i)
			case err != nil:
				what, err := classify(topic, err)
				p.fail(c, i, what, err)
				if known.Err != nil {
					p.lapsed = append(p.lapsed, topic)
				}
			default:
				out = extend(out, c, i)
				if !up {
					first[topic] = true
				}
			}
		}
	}
	p.queue = append(again, p.queue...)
	return out
}

// unfit says why message i of c cannot be sent.
func (p *publisher) unfit(c *call, i int, known limit) error {
	switch r := &c.recs[i]; {
	case c.broken[i] != nil:
		return c.broken[i]
	case known.Err != nil:
		return known.Err
	case c.sizes[i] > known.Bytes:
		return fmt.Errorf("%w: up to %d bytes uncompressed, the topic takes %d", kerr.MessageTooLarge,
			c.sizes[i], known.Bytes)
	case p.checked && r.Key != nil && known.Partitions > 0:
		if at := p.place(r.Topic, r.Key, known.Partitions); at < 0 || at >= known.Partitions {
			return fmt.Errorf("%w: Options.Partition puts it on partition %d, the topic has %d",
				cloudevents.ErrCannotCarry, at, known.Partitions)
		}
	}
	return nil
}

// send buffers the round: all of it before any of it goes out.
func (p *publisher) send(by *sender, segs []segment) *round {
	r := &round{by: by, segs: segs}
	for _, s := range segs {
		r.left += s.to - s.from
	}
	r.answers = make([]answer, 0, r.left)
	promise := func(rec *kgo.Record, err error) { // all of them before flush returns
		r.mu.Lock()
		defer r.mu.Unlock()
		r.answers = append(r.answers, answer{rec, err})
	}
	by.gate.Lock()
	defer by.gate.Unlock()
	for _, s := range segs {
		for i := s.from; i < s.to; i++ {
			by.cl.Produce(context.Background(), &s.call.recs[i], promise)
		}
	}
	return r
}

// flush sends the round, and reports whether all of it is answered within d.
func (p *publisher) flush(r *round, d time.Duration) bool {
	ctx, cancel := context.WithTimeout(p.ctx, d)
	defer cancel()
	return r.by.cl.Flush(ctx) == nil
}

// settle takes the answers that are there, and holds back what was handed over behind failures.
func (p *publisher) settle(r *round) {
	r.mu.Lock()
	answers := r.answers
	r.answers = nil
	r.mu.Unlock()
	var settled map[*kgo.Record]bool // all, if it is nil
	if len(answers) < r.left {
		settled = make(map[*kgo.Record]bool, len(answers))
		for _, a := range answers {
			settled[a.rec] = true
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	bad := p.blame(r.by, answers)
	segs := r.segs
	r.segs, r.left = nil, r.left-len(answers)
	for _, s := range segs {
		c, over := s.call, s.call.over()
		for i := s.from; i < s.to; i++ {
			rec := &c.recs[i]
			switch {
			case settled != nil && !settled[rec]:
				r.segs = extend(r.segs, c, i)
			case over:
			case len(bad) > 0 && bad[rec] != nil:
				what, err := classify(rec.Topic, bad[rec])
				p.fail(c, i, what, err)
			default:
				c.durable[i] = true
				c.one()
			}
		}
	}
	if len(p.held) > 0 {
		p.sweep()
	}
}

// blame finds the failures, and what they say about their sender.
func (p *publisher) blame(by *sender, answers []answer) map[*kgo.Record]error {
	var bad map[*kgo.Record]error
	for _, a := range answers {
		if a.err == nil {
			continue
		}
		if bad == nil {
			bad = map[*kgo.Record]error{}
		}
		switch a.rec.Context.(type) {
		case astray:
			a.err = broker.ErrRecreated
		case *meant:
			if errors.Is(a.err, kerr.UnknownTopicID) {
				a.err = fmt.Errorf("%w: %w", broker.ErrRecreated, a.err)
			}
		}
		bad[a.rec] = a.err
		// A client that was refused a producer id once does not ask again, whatever rights are given.
		by.spent = by.spent || faultAny(a.err, kerr.ClusterAuthorizationFailed)
		if stale(a.err) {
			p.limits.Forget(a.rec.Topic)
			// Nor does it ask again about a topic that it took up. If it were told to forget it, it would
			// count from 0 again: Kafka takes that for what it has already, and says so, and the message is
			// lost.
			for _, s := range p.senders {
				s.spent = s.spent || s.fence.TookUp(a.rec.Topic)
			}
		}
	}
	return bad
}
