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

// segment is a range of the messages of a call: from is inclusive, to is exclusive.
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

// round has messages that one client sends together.
type round struct {
	by   *sender
	segs []segment // messages without an answer
	left int       // the number of messages in segs

	mu      sync.Mutex
	answers []answer // not processed yet
}

// answer is the result of one record: nil if Kafka stored it, else an error of Kafka or franz-go.
type answer struct {
	rec *kgo.Record
	err error
}

// sender is a client that sends one round at a time.
type sender struct {
	cl    *kgo.Client
	fence *topicFence
	gate  *gate
	spent bool // the client must not send another round; guarded by the publisher's mu
}

// usualSenders is the number of clients that take turns. If a round hangs, the other client already has the
// topics and connections. A new client would have to request them first, perhaps from the broker that does
// not answer.
const (
	usualSenders = 2
	maxSenders   = 4
)

// producing returns the options of a client that publishes. They let franz-go retry records without an end,
// because dropping a record that may be in flight would break the sequence of the partition. giveUp reports
// the outage to the callers.
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

// dial creates a client that publishes.
func (b *Broker) dial() (*sender, error) {
	s := &sender{fence: newFence(b.with.partitioner), gate: &gate{}}
	cl, err := kgo.NewClient(b.clientOptions(append(b.producing(s.fence), s.gate.Through(b.cl)...)...)...)
	s.cl = cl
	s.fence.On(cl)
	return s, err
}

// start starts run. The client metadataClient sends requests for metadata, because they must not go through
// a topicFence.
func (p *publisher) start(metadataClient *kgo.Client, dial func() (*sender, error)) {
	p.asks, p.dial = metadataClient, dial
	go p.run()
}

// run sends rounds, one after the other, until stop is called.
func (p *publisher) run() {
	defer close(p.done)
	for {
		select {
		case <-p.wake:
		case <-p.ctx.Done():
			p.end()
			return
		}
		for p.sendRound() {
		}
	}
}

// end answers the remaining messages with broker.ErrClosed, and closes the clients.
func (p *publisher) end() {
	p.wg.Wait()
	p.mu.Lock()
	segs := slices.Clone(p.queue)
	for _, h := range p.holds {
		segs = append(append(segs, h.waiting...), h.unanswered()...)
	}
	p.mu.Unlock()
	p.giveUp(segs, broker.ErrClosed)
	for _, s := range p.senders {
		s.cl.Close()
	}
}

// sendRound sends one round of queued messages. It returns false if the queue was empty.
func (p *publisher) sendRound() bool {
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
		p.reuse(by)
		return true
	}
	r := p.send(by, segs)
	if p.flush(r, p.stall) {
		p.settle(r)
		p.reuse(by)
		return true
	}
	p.detachRound(r)
	return true
}

// take removes the messages of one round from the queue.
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

// sender returns the next client without a hanging round, or nil if all clients hang.
func (p *publisher) sender() *sender {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.idle = slices.DeleteFunc(p.idle, func(s *sender) bool {
		if s.spent {
			p.closeSender(s)
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

// reuse makes s available for another round, or closes it if it is not needed.
func (p *publisher) reuse(s *sender) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case s == nil:
	case s.spent, len(p.idle) >= usualSenders:
		p.closeSender(s)
	default:
		p.idle = append(p.idle, s)
	}
}

// closeSender closes a client that has no unanswered messages.
func (p *publisher) closeSender(s *sender) {
	p.senders = slices.DeleteFunc(p.senders, func(o *sender) bool { return o == s })
	p.wg.Go(s.cl.Close)
}

// sift returns the messages of segs that the sender can send now. It fails messages that are held back, too
// large or otherwise unfit. It adds messages to a hold if they must wait for it. Without a sender, all
// messages wait with the last hold.
//
// If the sender has no metadata of a topic yet, sift returns only the first message of this topic. Otherwise
// franz-go would send records one by one that it buffered before it had the metadata.
func (p *publisher) sift(segs []segment, by *sender) (out []segment) {
	p.mu.Lock()
	defer p.mu.Unlock()
	var again []segment        // messages for the next round
	first := map[string]bool{} // topics that are new to the sender
	for _, s := range p.sendable(segs) {
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
			switch h, err := p.holdFor(r, by), p.unfit(c, i, known); { // the order of the cases matters
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

// unfit returns the reason why message i of c cannot be sent, or nil.
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
			return fmt.Errorf("%w: Options.Partition returned partition %d, but the topic has %d",
				cloudevents.ErrCannotCarry, at, known.Partitions)
		}
	}
	return nil
}

// send gives the whole round to the client. The client sends nothing until flush.
func (p *publisher) send(by *sender, segs []segment) *round {
	r := &round{by: by, segs: segs}
	for _, s := range segs {
		r.left += s.to - s.from
	}
	r.answers = make([]answer, 0, r.left)
	promise := func(rec *kgo.Record, err error) { // called for all records before flush returns true
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

// flush lets the client send the round. It returns true if all answers arrive within d.
func (p *publisher) flush(r *round, d time.Duration) bool {
	ctx, cancel := context.WithTimeout(p.ctx, d)
	defer cancel()
	return r.by.cl.Flush(ctx) == nil
}

// settle processes the answers that have arrived, and holds back messages behind failed messages.
func (p *publisher) settle(r *round) {
	r.mu.Lock()
	answers := r.answers
	r.answers = nil
	r.mu.Unlock()
	var settled map[*kgo.Record]bool // records with an answer; nil means all records
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
		c, over := s.call, s.call.isAnswered()
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
				c.countAnswer()
			}
		}
	}
	if len(p.held) > 0 {
		p.sweep()
	}
}

// blame returns the errors by record, and marks clients that must not send another round.
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
		case recreatedContext:
			a.err = broker.ErrRecreated
		case *expectedContext:
			if errors.Is(a.err, kerr.UnknownTopicID) {
				a.err = fmt.Errorf("%w: %w", broker.ErrRecreated, a.err)
			}
		}
		bad[a.rec] = a.err
		// If Kafka refuses a client a producer ID, the client never requests one again.
		by.spent = by.spent || isAny(a.err, kerr.ClusterAuthorizationFailed)
		if stale(a.err) {
			p.limits.Forget(a.rec.Topic)
			// A client does not read the metadata of its topics again, either. Purging the topic would
			// restart the client's sequence at 0. Kafka would then drop new messages as duplicates.
			for _, s := range p.senders {
				s.spent = s.spent || s.fence.TookUp(a.rec.Topic)
			}
		}
	}
	markShared(bad)
	return bad
}

// markShared wraps refusals in broker.ErrShared if several records of a partition were refused. Kafka refuses
// a whole batch because of one record.
func markShared(bad map[*kgo.Record]error) {
	type at struct {
		topic     string
		partition int32
	}
	n := map[at]int{}
	for rec, err := range bad {
		if ofBatch(err) {
			n[at{rec.Topic, rec.Partition}]++
		}
	}
	for rec, err := range bad {
		if ofBatch(err) && n[at{rec.Topic, rec.Partition}] > 1 {
			bad[rec] = fmt.Errorf("%w: %w", broker.ErrShared, err)
		}
	}
}

// ofBatch returns true if Kafka may have refused a whole batch with err because of one record.
func ofBatch(err error) bool {
	return isAny(err, kerr.MessageTooLarge, kerr.RecordListTooLarge, kerr.InvalidRecord,
		kerr.PolicyViolation, kerr.InvalidTimestamp)
}
