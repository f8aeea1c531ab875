package kafkabroker

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/skald-go/skald/broker/internal/feed"
)

// hold has messages that wait, and the condition for which they wait. There are two kinds. One kind waits for
// a round that has no answer yet, because later messages of its keys must not overtake it. The other kind
// waits for the metadata of topics. Messages without a hold continue.
type hold struct {
	round      *round          // nil if the hold waits for metadata
	topics     map[string]bool // the topics of the request for metadata
	keys       map[successors]bool
	partitions map[partitionID]bool // the partitions of the round's messages
	waiting    []segment            // guarded by the publisher's mu, like keys and over
	over       bool                 // the condition is met
}

type partitionID struct {
	topic     string
	partition int
}

// unanswered returns the messages of the round that have no answer.
func (h *hold) unanswered() []segment {
	if h.round == nil {
		return nil
	}
	return h.round.segs
}

// holdFor returns the hold that r must wait for, or nil. Without a sender, r waits for the last hold. The
// caller holds mu.
func (p *publisher) holdFor(r *kgo.Record, by *sender) *hold {
	if len(p.holds) == 0 {
		return nil
	}
	for _, h := range p.holds {
		switch {
		case h.topics[r.Topic]:
			return h
		case r.Key != nil && (h.keys[p.successors(r)] || h.partitions[p.partition(r)]):
			return h
		}
	}
	if by == nil {
		return p.holds[len(p.holds)-1]
	}
	return nil
}

// partition returns the partition of r by the cached metadata. If the topic gets more partitions meanwhile,
// the result is outdated, but holdFor also compares keys.
func (p *publisher) partition(r *kgo.Record) partitionID {
	n := p.limits.About(r.Topic).Partitions
	if n == 0 {
		return partitionID{r.Topic, -1}
	}
	return partitionID{r.Topic, p.place(r.Topic, r.Key, n)}
}

// keep adds message i of c to the waiting messages, and also holds later messages of its key.
func (h *hold) keep(p *publisher, c *call, i int) {
	h.waiting = extend(h.waiting, c, i)
	if r := &c.recs[i]; r.Key != nil {
		h.keys[p.successors(r)] = true
	}
}

// learn requests the metadata of all topics of segs that are not in the cache, in one request.
func (p *publisher) learn(segs []segment) {
	p.mu.Lock()
	defer p.mu.Unlock()
	var last string
	unknown := map[string]bool{}
	for _, s := range segs {
		for i := s.from; i < s.to; i++ {
			if t := s.call.recs[i].Topic; t != last {
				if last = t; !p.limits.Knows(t) && !p.isRequested(t) {
					unknown[t] = true
				}
			}
		}
	}
	if len(unknown) == 0 {
		return
	}
	h := &hold{topics: unknown, keys: map[successors]bool{}}
	p.holds = append(p.holds, h)
	p.wg.Go(func() { p.ask(h) })
}

// isRequested returns true if a request for the metadata of topic is in progress.
func (p *publisher) isRequested(topic string) bool {
	for _, h := range p.holds {
		if h.topics[topic] {
			return true
		}
	}
	return false
}

// ask requests the metadata of the topics of h, and ends h.
func (p *publisher) ask(h *hold) {
	ctx, cancel := context.WithTimeout(p.ctx, p.patience)
	defer cancel()
	var topics []string
	for t := range h.topics {
		topics = append(topics, t)
	}
	err := p.limits.Learn(ctx, p.asks, topics)
	if p.ctx.Err() != nil {
		return // end answers the remaining messages
	}
	if err != nil {
		p.mu.Lock()
		waiting := h.waiting
		p.mu.Unlock()
		p.giveUp(waiting, err)
	}
	p.mu.Lock()
	h.over = true
	p.mu.Unlock()
	feed.Signal(p.wake)
}

// detachRound creates a hold for a round that hangs, so that run can continue with other messages.
func (p *publisher) detachRound(r *round) {
	p.settle(r)
	p.mu.Lock()
	defer p.mu.Unlock()
	h := &hold{round: r, keys: map[successors]bool{}, partitions: map[partitionID]bool{}}
	for _, s := range r.segs {
		for i := s.from; i < s.to; i++ {
			if rec := &s.call.recs[i]; rec.Key != nil {
				h.keys[p.successors(rec)] = true
				h.partitions[p.partition(rec)] = true
			}
		}
	}
	p.holds = append(p.holds, h)
	p.wg.Go(func() { p.await(h) })
}

// await waits for the answers to a round, without a limit. After each interval of patience it reports an
// outage to the callers that wait.
func (p *publisher) await(h *hold) {
	for wait := p.patience - p.stall; !p.flush(h.round, wait); wait = p.patience {
		if p.ctx.Err() != nil {
			return // end answers the remaining messages
		}
		p.mu.Lock()
		segs := slices.Concat(h.unanswered(), h.waiting)
		p.mu.Unlock()
		p.giveUp(segs, h.outage(p.patience, &p.line))
	}
	p.settle(h.round)
	p.mu.Lock()
	h.over = true
	p.mu.Unlock()
	feed.Signal(p.wake)
}

func (h *hold) outage(patience time.Duration, l *line) error {
	about := ""
	for at := range h.partitions {
		about = " about " + partitionName(at.topic, int32(at.partition))
		break
	}
	return fmt.Errorf("no answer from Kafka for %v%s: %w", patience, about, l.Why(context.DeadlineExceeded))
}

// endHolds removes finished holds, and puts their messages at the front of the queue. Only run takes messages
// from the queue, so no message can overtake them.
func (p *publisher) endHolds() {
	p.mu.Lock()
	var free []*sender
	left := p.holds[:0]
	for _, h := range p.holds {
		if !h.over {
			left = append(left, h)
			continue
		}
		p.queue = append(p.sendable(h.waiting), p.queue...)
		if h.round != nil {
			free = append(free, h.round.by)
		}
	}
	clear(p.holds[len(left):])
	p.holds = left
	p.mu.Unlock()
	for _, s := range free {
		p.reuse(s)
	}
}
