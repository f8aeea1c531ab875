package kafkabroker

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/skald-go/skald/broker"
)

// segment is the part of a call that is in one round.
type segment struct {
	call     *call
	from, to int
}

// failure is a record that Kafka, or franz-go, did not take.
type failure struct {
	rec *kgo.Record
	err error
}

// producing are the options of the client that publishes. Records are never given up while they may be on their
// way: that would break the sequence of the partition. An outage is answered by giveUp instead.
func (b *Broker) producing() []kgo.Opt {
	return []kgo.Opt{
		kgo.RequiredAcks(kgo.AllISRAcks()),
		kgo.RecordPartitioner(b.with.partitioner),
		kgo.ManualFlushing(),
		kgo.ProducerLinger(0),
		kgo.MaxBufferedRecords(b.opts.Round + 1),
		kgo.MaxBufferedBytes(0),
		kgo.ProducerBatchMaxBytesFn(b.limits.of),
		kgo.ProduceRequestTimeout(10 * time.Second),
		kgo.WithHooks(&b.line),
	}
}

func (p *publisher) start(cl *kgo.Client) {
	p.cl = cl
	go p.run()
}

// run does one round after the other.
func (p *publisher) run() {
	defer close(p.done)
	for {
		select {
		case <-p.wake:
		case <-p.ctx.Done():
			p.giveUp(nil, broker.ErrClosed)
			return
		}
		for p.turn() {
		}
	}
}

// turn is one round: everything queued, up to the bound. It reports whether there was anything.
func (p *publisher) turn() bool {
	segs := p.take()
	if len(segs) == 0 || p.ctx.Err() != nil {
		p.giveBack(segs)
		return false
	}
	if err := p.learn(segs); err != nil {
		p.giveUp(segs, err)
		return true
	}
	failures := p.send(segs)
	if p.flush(segs) {
		p.settle(segs, *failures)
		p.limits.purge(p.cl)
	}
	return true
}

// take cuts a round off the queue.
func (p *publisher) take() (segs []segment) {
	p.mu.Lock()
	defer p.mu.Unlock()
	n, bytes := 0, 0
	for len(p.queue) > 0 && n < p.round && bytes < maxBytesRound {
		c := p.queue[0]
		from := c.next
		for ; c.next < len(c.recs) && n < p.round && bytes < maxBytesRound; c.next++ {
			n++
			bytes += c.sizes[c.next]
		}
		segs = append(segs, segment{c, from, c.next})
		if c.next == len(c.recs) {
			p.queue[0] = nil
			p.queue = p.queue[1:]
		}
	}
	return segs
}

// giveBack answers what was taken when the publisher ended.
func (p *publisher) giveBack(segs []segment) {
	if len(segs) > 0 {
		p.giveUp(segs, broker.ErrClosed)
	}
}

// send buffers the round: all of it before any of it goes out. What cannot go is answered here, and so are its
// successors in the round.
func (p *publisher) send(segs []segment) *[]failure {
	failures := new([]failure)
	promise := func(r *kgo.Record, err error) { // one at a time, and all before flush returns
		if err != nil {
			*failures = append(*failures, failure{r, err})
		}
	}
	for _, s := range segs {
		p.sift(s)
		for i := s.from; i < s.to; i++ {
			if len(s.call.bad.Failed)+len(s.call.bad.Refused) > 0 && s.call.has(i) {
				continue
			}
			p.cl.Produce(context.Background(), &s.call.recs[i], promise)
		}
	}
	return failures
}

// sift answers what of s cannot be sent: what is held back, and what its topic cannot take.
func (p *publisher) sift(s segment) {
	p.mu.Lock()
	defer p.mu.Unlock()
	c := s.call
	var topic string
	var known limit
	for i := s.from; i < s.to; i++ {
		r := &c.recs[i]
		if r.Topic != topic || i == s.from {
			topic, known = r.Topic, p.limits.about(r.Topic)
		}
		switch {
		case c.has(i):
		case len(p.held) > 0 && r.Key != nil && p.held[p.successors(r)] > 0:
			p.fail(c, i, errHeldBack)
		case c.broken[i] != nil:
			p.fail(c, i, c.broken[i])
		case known.err != nil:
			p.fail(c, i, known.err)
		case c.sizes[i] > known.bytes:
			p.fail(c, i, fmt.Errorf("%w: up to %d bytes uncompressed, the topic takes %d", kerr.MessageTooLarge, c.sizes[i], known.bytes))
		}
	}
}

// flush sends the round and waits until all is answered. After patience the callers are told of an outage, yet
// the round goes on: it reports whether its answers still matter.
func (p *publisher) flush(segs []segment) bool {
	told := false
	for {
		ctx, cancel := context.WithTimeout(p.ctx, p.patience)
		err := p.cl.Flush(ctx)
		cancel()
		switch {
		case err == nil:
			return !told
		case p.ctx.Err() != nil:
			p.giveUp(segs, broker.ErrClosed)
			return false
		}
		p.giveUp(segs, fmt.Errorf("no answer from Kafka for %v: %w", p.patience, p.line.why(err)))
		told = true
	}
}

// settle answers the round, and holds back what was handed over behind its failures.
func (p *publisher) settle(segs []segment, failures []failure) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(failures) > 0 {
		p.blame(segs, failures)
	}
	for _, s := range segs {
		s.call.left -= s.to - s.from - s.call.badIn(s)
		if s.call.left == 0 {
			p.answer(s.call)
		}
	}
	if len(p.held) > 0 {
		p.holdBackQueue()
		p.release()
	}
}

// holdBackQueue fails what was handed over before anyone could know, even if meanwhile someone does.
func (p *publisher) holdBackQueue() {
	waiting := p.queue[:0]
	for _, c := range p.queue {
		if p.holdBack(c); c.left == 0 {
			p.answer(c)
			continue
		}
		waiting = append(waiting, c)
	}
	clear(p.queue[len(waiting):])
	p.queue = waiting
}

// badIn is how many messages of s are already counted as answered, by fail.
func (c *call) badIn(s segment) (n int) {
	if len(c.bad.Failed)+len(c.bad.Refused) == 0 {
		return 0
	}
	for i := s.from; i < s.to; i++ {
		if c.has(i) {
			n++
		}
	}
	return n
}

// blame finds whose record each failure is.
func (p *publisher) blame(segs []segment, failures []failure) {
	errs := make(map[*kgo.Record]error, len(failures))
	for _, f := range failures {
		errs[f.rec] = f.err
		if stale(f.err) {
			p.limits.forget(f.rec.Topic)
		}
	}
	for _, s := range segs {
		for i := s.from; i < s.to; i++ {
			if err := errs[&s.call.recs[i]]; err != nil {
				p.fail(s.call, i, err)
			}
		}
	}
}

// learn looks up the topics of the round that are not known, with one request for all of them.
func (p *publisher) learn(segs []segment) error {
	var last string
	var unknown []string
	for _, s := range segs {
		for i := s.from; i < s.to; i++ {
			if t := s.call.recs[i].Topic; t != last {
				if last = t; !p.limits.knows(t) {
					unknown = append(unknown, t)
				}
			}
		}
	}
	if len(unknown) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(p.ctx, p.patience)
	defer cancel()
	if err := p.limits.learn(ctx, p.cl, unknown); err != nil {
		if p.ctx.Err() != nil {
			return errors.Join(broker.ErrClosed, err)
		}
		return err
	}
	return nil
}
