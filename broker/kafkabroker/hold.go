package kafkabroker

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/skald-go/skald/broker/internal/feed"
)

// A hold keeps messages until something is over that they must not overtake, or would hang behind: a round
// that hangs with its client, or a question about topics. All else goes on.
type hold struct {
	round      *round          // nil: a question
	topics     map[string]bool // asked about
	keys       map[successors]bool
	partitions map[partitionID]bool // where the messages of the round are
	waiting    []segment            // under the publisher's mu, as are keys and over
	over       bool
}

type partitionID struct {
	topic     string
	partition int
}

// under are the messages on their way.
func (h *hold) under() []segment {
	if h.round == nil {
		return nil
	}
	return h.round.segs
}

// keeper is the hold that r has to wait for; nil if there is none. The caller has mu.
func (p *publisher) keeper(r *kgo.Record, by *sender) *hold {
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

// partition is where r goes, as far as is known. That a topic grows meanwhile does no harm: keys are looked
// at, too.
func (p *publisher) partition(r *kgo.Record) partitionID {
	n := p.limits.About(r.Topic).Partitions
	if n == 0 {
		return partitionID{r.Topic, -1}
	}
	return partitionID{r.Topic, p.place(r.Topic, r.Key, n)}
}

// keep lets message i of c wait.
func (h *hold) keep(p *publisher, c *call, i int) {
	h.waiting = extend(h.waiting, c, i)
	if r := &c.recs[i]; r.Key != nil {
		h.keys[p.successors(r)] = true
	}
}

// learn asks about those topics of segs that are not known, all of them at once.
func (p *publisher) learn(segs []segment) {
	p.mu.Lock()
	defer p.mu.Unlock()
	var last string
	unknown := map[string]bool{}
	for _, s := range segs {
		for i := s.from; i < s.to; i++ {
			if t := s.call.recs[i].Topic; t != last {
				if last = t; !p.limits.Knows(t) && !p.asked(t) {
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

func (p *publisher) asked(topic string) bool {
	for _, h := range p.holds {
		if h.topics[topic] {
			return true
		}
	}
	return false
}

func (p *publisher) ask(h *hold) {
	ctx, cancel := context.WithTimeout(p.ctx, p.patience)
	defer cancel()
	var topics []string
	for t := range h.topics {
		topics = append(topics, t)
	}
	err := p.limits.Learn(ctx, p.asks, topics)
	if p.ctx.Err() != nil {
		return // end has the rest
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

// leave makes a round that hangs a hold of its own.
func (p *publisher) leave(r *round) {
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

// await waits for the answers to a round. After patience the callers are told of an outage, yet the round
// goes on.
func (p *publisher) await(h *hold) {
	for wait := p.patience - p.stall; !p.flush(h.round, wait); wait = p.patience {
		if p.ctx.Err() != nil {
			return // end has the rest
		}
		p.mu.Lock()
		segs := slices.Concat(h.under(), h.waiting)
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

// endHolds puts what waited for what is over in front of the queue. Only run takes messages off the queue: so
// nothing is between a hold's end and this that could overtake.
func (p *publisher) endHolds() {
	p.mu.Lock()
	var free []*sender
	left := p.holds[:0]
	for _, h := range p.holds {
		if !h.over {
			left = append(left, h)
			continue
		}
		p.queue = append(p.rest(h.waiting), p.queue...)
		if h.round != nil {
			free = append(free, h.round.by)
		}
	}
	clear(p.holds[len(left):])
	p.holds = left
	p.mu.Unlock()
	for _, s := range free {
		p.rehire(s)
	}
}
