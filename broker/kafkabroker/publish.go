package kafkabroker

import (
	"context"
	"fmt"
	"hash/maphash"
	"slices"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/broker"
)

// publisher keeps the publish contract. franz-go alone does not: when a batch fails for good it fails everything
// that is buffered for the partition, but what is buffered a moment later, before anyone heard of the failure,
// goes out. So records are handed to it in rounds: one round is buffered whole before any of it is sent, and all
// its answers are there before the next begins. What fails holds back what was handed over behind it with the
// same key, until the caller has been told.
type publisher struct {
	limits   limits
	line     line
	patience time.Duration
	round    int
	envelope *mapping
	seed     maphash.Seed
	cl       *kgo.Client

	mu     sync.Mutex
	queue  []*call
	held   map[successors]int // how many calls that were not asked yet hold these back
	untold []*call            // those calls
	closed bool

	wake   chan struct{}
	ctx    context.Context // of the publisher's own life; ended by stop
	cancel context.CancelFunc
	done   chan struct{}
}

// successors are the messages of a topic whose keys have this hash. Two keys with one hash share their fate,
// which costs a repetition and nothing else.
type successors struct {
	topic string
	hash  uint64
}

// call is one call to Publish under way.
type call struct {
	p   *publisher
	ctx context.Context // while it lives, the caller may ask for the answer

	recs   []kgo.Record
	sizes  []int         // in a batch, at most
	broken map[int]error // cannot travel

	// under p.mu until answered is closed; constant from then on
	next     int // the first record that is in no round yet
	left     int // how many are not answered
	bad      broker.PublishError
	outage   error
	holds    []successors
	told     bool
	answered chan struct{}
}

func (p *publisher) init(o Options, envelope *mapping) {
	p.envelope = envelope
	p.patience, p.round = o.Patience, o.Round
	p.seed = maphash.MakeSeed()
	p.held = map[successors]int{}
	p.wake, p.done = make(chan struct{}, 1), make(chan struct{})
	p.ctx, p.cancel = context.WithCancel(context.Background())
	p.limits.init()
}

// Publish hands msgs over and returns at once. What was handed over is sent even if ctx ends meanwhile; but a
// caller whose ctx ended is taken to ask no more: what its failures hold back is free again. A message that is larger than its topic allows, counted
// uncompressed, is refused; when Kafka itself finds a batch too large, all messages of that batch and those
// behind it in the partition are named.
func (p *publisher) Publish(ctx context.Context, msgs []skald.Message) broker.Pending {
	c := &call{p: p, ctx: ctx, left: len(msgs), answered: make(chan struct{})}
	if err := ctx.Err(); err != nil {
		return c.over(err)
	}
	c.recs, c.sizes = make([]kgo.Record, len(msgs)), make([]int, len(msgs))
	enc := newEncoder(msgs, p.envelope)
	for i := range msgs {
		var err error
		if c.sizes[i], err = enc.encode(&msgs[i], &c.recs[i]); err != nil {
			set(&c.broken, i, err)
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return c.over(broker.ErrClosed)
	}
	p.release()
	if p.holdBack(c); c.left == 0 {
		p.answer(c)
		return c
	}
	p.queue = append(p.queue, c)
	select {
	case p.wake <- struct{}{}:
	default:
	}
	return c
}

// over answers a call that nobody else knows yet.
func (c *call) over(err error) *call {
	c.outage = err
	close(c.answered)
	return c
}

// Done is closed when all is answered.
func (c *call) Done() <-chan struct{} { return c.answered }

// Wait has the answer as soon as all is answered.
func (c *call) Wait(ctx context.Context) error {
	select {
	case <-c.answered:
	default:
		select {
		case <-c.answered:
		case <-ctx.Done():
			c.p.tell(c) // it may never ask again
			return fmt.Errorf("wait for Kafka: %w", ctx.Err())
		}
	}
	c.p.tell(c)
	switch {
	case c.outage != nil:
		return fmt.Errorf("publish: %w", c.outage)
	case len(c.bad.Failed)+len(c.bad.Refused) > 0:
		return &c.bad
	}
	return nil
}

// tell ends what c holds back: its caller has an answer, if only that there is none.
func (p *publisher) tell(c *call) {
	p.mu.Lock()
	defer p.mu.Unlock()
	c.told = true
	if len(c.holds) > 0 {
		p.release()
	}
}

// release forgets the calls whose callers know of their failures, or gave up asking.
func (p *publisher) release() {
	p.untold = slices.DeleteFunc(p.untold, func(c *call) bool {
		if !c.told && c.ctx.Err() == nil {
			return false
		}
		for _, s := range c.holds {
			if p.held[s]--; p.held[s] == 0 {
				delete(p.held, s)
			}
		}
		return true
	})
}

// holdBack fails those messages of c, from c.next on, that are successors of a failure.
func (p *publisher) holdBack(c *call) {
	if len(p.held) == 0 {
		return
	}
	for i := c.next; i < len(c.recs); i++ {
		if r := &c.recs[i]; r.Key != nil && p.held[p.successors(r)] > 0 && !c.has(i) {
			p.fail(c, i, errHeldBack)
		}
	}
}

func (p *publisher) successors(r *kgo.Record) successors {
	return successors{r.Topic, maphash.Bytes(p.seed, r.Key)}
}

// has says whether message i is answered, and not well.
func (c *call) has(i int) bool {
	return c.bad.Failed[i] != nil || c.bad.Refused[i] != nil
}

// fail answers message i of c with err, and holds its successors back.
func (p *publisher) fail(c *call, i int, err error) {
	kind, err := classify(c.recs[i].Topic, err)
	switch kind {
	case refused:
		set(&c.bad.Refused, i, err)
	case outage:
		if c.outage == nil {
			c.outage = err
		}
		fallthrough
	default:
		set(&c.bad.Failed, i, err)
	}
	c.left--
	if c.recs[i].Key == nil {
		return
	}
	s := p.successors(&c.recs[i])
	if len(c.holds) == 0 {
		p.untold = append(p.untold, c)
	}
	if !slices.Contains(c.holds[max(0, len(c.holds)-8):], s) { // not worth more: twice is held twice and released twice
		c.holds = append(c.holds, s)
		p.held[s]++
	}
}

func set(m *map[int]error, i int, err error) {
	if *m == nil {
		*m = map[int]error{}
	}
	(*m)[i] = err
}

// answer ends c.
func (p *publisher) answer(c *call) {
	select {
	case <-c.answered: // with an outage, before its round was over
	default:
		close(c.answered)
	}
}

// giveUp answers everything that is under way with an outage: nothing is known of it. Nothing of the queue was
// sent, and all of it goes, so that nothing in it can overtake.
func (p *publisher) giveUp(under []segment, why error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	calls := p.queue
	p.queue = nil
	for _, s := range under {
		calls = append(calls, s.call)
	}
	defer p.release()
	for _, c := range calls {
		select {
		case <-c.answered:
			continue
		default:
		}
		c.outage = why
		for i := range c.recs {
			if !c.has(i) {
				p.fail(c, i, why)
			}
		}
		p.answer(c)
	}
}

// stop answers what is under way and ends the rounds.
func (p *publisher) stop() {
	p.mu.Lock()
	p.closed = true
	p.mu.Unlock()
	p.cancel()
	<-p.done
}
