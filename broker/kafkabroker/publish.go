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
	"github.com/skald-go/skald/broker/internal/cloudevents"
	"github.com/skald-go/skald/broker/internal/feed"
)

// publisher implements the contract of Publish. franz-go alone does not: if a batch fails, franz-go fails
// all buffered records of the partition. But records that are buffered a moment later, before any caller
// knows of the failure, are sent. So the publisher gives records to franz-go in rounds. A round is buffered
// completely before any of it is sent, and all its answers arrive before the next round begins. A failed
// message holds back later messages of its key until its caller has the result. If a round hangs because a
// broker does not answer, it keeps its client, and the next round uses another client. A hold (hold.go)
// keeps back messages that must not overtake.
type publisher struct {
	limits   limits
	line     line
	patience time.Duration
	stall    time.Duration // the time after which a round counts as hanging
	round    int
	codec    *cloudevents.Codec
	place    func(topic string, key []byte, n int) int
	checked  bool // place is a function of the user
	seed     maphash.Seed
	dial     func() (*sender, error)
	asks     *kgo.Client // for all requests except messages

	mu      sync.Mutex
	queue   []segment
	held    map[successors]int // the number of unfinished calls that hold these messages back
	untold  []*call            // those calls
	holds   []*hold            // only run adds and removes them
	senders []*sender
	closed  bool

	idle   []*sender // used only by run
	lapsed []string  // used only by run: topics that were unusable this time
	wake   chan struct{}
	ctx    context.Context // ended by stop
	cancel context.CancelFunc
	wg     sync.WaitGroup // for the holds
	done   chan struct{}
}

// successors are the messages of a topic whose keys have this hash. Two keys with one hash are held back
// together, which only costs a retry.
type successors struct {
	topic string
	hash  uint64
}

// call is one unfinished call of Publish.
type call struct {
	p   *publisher
	ctx context.Context // until it ends, the caller may wait for the answer

	recs   []kgo.Record
	sizes  []int         // the maximum size in a batch
	broken map[int]error // why a message cannot be encoded

	// The fields below are guarded by p.mu until answered is closed, and constant after that.
	left     int    // the number of messages without an answer
	durable  []bool // the durable messages
	bad      broker.PublishError
	outage   error
	holds    []successors
	told     bool
	answered chan struct{}
}

func (p *publisher) init(o Options, with compiled) {
	p.patience, p.round = o.Patience, o.Round
	p.stall = min(o.Patience/2, 500*time.Millisecond)
	p.codec, p.place, p.checked = with.codec, with.place, o.Partition != nil
	p.seed = maphash.MakeSeed()
	p.held = map[successors]int{}
	p.wake, p.done = make(chan struct{}, 1), make(chan struct{})
	p.ctx, p.cancel = context.WithCancel(context.Background())
	p.limits.Init()
}

// Publish queues msgs and returns immediately. Queued messages are sent even if ctx ends meanwhile. After
// ctx has ended, failed messages of this call no longer hold back later messages of their keys. A message
// above the limit of its topic, uncompressed, is refused. If Kafka refuses a batch as too large, all
// messages of that batch and the later ones of the partition get that error.
func (p *publisher) Publish(ctx context.Context, msgs []skald.Message, only ...broker.Topics) broker.Pending {
	c := &call{p: p, ctx: ctx, left: len(msgs), answered: make(chan struct{})}
	if err := ctx.Err(); err != nil {
		return c.ended(err)
	}
	c.recs, c.sizes, c.durable = make([]kgo.Record, len(msgs)), make([]int, len(msgs)),
		make([]bool, len(msgs))
	enc := newEncoder(msgs, p.codec)
	var to *meant
	for i := range msgs {
		if len(only) > 0 && (i == 0 || msgs[i].Topic != msgs[i-1].Topic) {
			to = fenceFor(only[0][msgs[i].Topic])
		}
		if to != nil {
			c.recs[i].Context = to
		}
		size, err := enc.Encode(&msgs[i], &c.recs[i])
		if c.sizes[i] = size; err != nil && c.broken == nil {
			c.broken = map[int]error{}
		}
		if err != nil {
			c.broken[i] = err
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return c.ended(broker.ErrClosed)
	}
	p.release()
	if c.left == 0 {
		c.answer()
		return c
	}
	p.queue = append(p.queue, p.rest([]segment{{c, 0, len(msgs)}})...)
	feed.Signal(p.wake)
	return c
}

// ended answers a call that is not queued yet.
func (c *call) ended(err error) *call {
	c.outage = err
	close(c.answered)
	return c
}

// Done is closed when all messages are answered.
func (c *call) Done() <-chan struct{} { return c.answered }

// Wait returns the result as soon as all messages are answered.
func (c *call) Wait(ctx context.Context) error {
	select {
	case <-c.answered:
	default:
		select {
		case <-c.answered:
		case <-ctx.Done():
			c.p.tell(c) // the caller may never call Wait again
			return fmt.Errorf("wait for Kafka: %w", ctx.Err())
		}
	}
	c.p.tell(c)
	switch {
	case c.outage != nil && (len(c.bad.Failed) == len(c.recs) || len(c.bad.Failed) == 0): // the whole call
		return fmt.Errorf("publish: %w", c.outage)
	case len(c.bad.Failed)+len(c.bad.Refused) > 0:
		return &c.bad
	}
	return nil
}

// tell ends the holding back by c: its caller has a result.
func (p *publisher) tell(c *call) {
	p.mu.Lock()
	defer p.mu.Unlock()
	c.told = true
	if len(c.holds) > 0 {
		p.release()
	}
}

// release removes the calls whose callers have their failures, or stopped waiting.
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

// rest returns the messages of segs that can still be sent. It fails messages that are held back, and
// leaves out finished calls.
func (p *publisher) rest(segs []segment) (out []segment) {
	for _, s := range segs {
		c := s.call
		switch {
		case c.over():
			continue
		case len(p.held) == 0:
			out = append(out, s)
			continue
		}
		for i := s.from; i < s.to; i++ {
			if p.heldBack(&c.recs[i]) {
				p.fail(c, i, failed, broker.ErrHeldBack)
				continue
			}
			out = extend(out, c, i)
		}
	}
	return out
}

func (p *publisher) heldBack(r *kgo.Record) bool {
	return len(p.held) > 0 && r.Key != nil && p.held[p.successors(r)] > 0
}

func (p *publisher) successors(r *kgo.Record) successors {
	return successors{r.Topic, maphash.Bytes(p.seed, r.Key)}
}

// over returns true if c is answered.
func (c *call) over() bool {
	select {
	case <-c.answered:
		return true
	default:
		return false
	}
}

// fail sets the error of message i of c, which has no answer yet, and holds back later messages of its key.
func (p *publisher) fail(c *call, i int, what kind, err error) {
	defer c.one()
	switch what {
	case refused:
		c.bad.Refuse(i, err)
	case outage:
		if c.outage == nil {
			c.outage = err
		}
		fallthrough
	default:
		c.bad.Fail(i, err)
	}
	if c.recs[i].Key == nil {
		return
	}
	s := p.successors(&c.recs[i])
	if len(c.holds) == 0 {
		p.untold = append(p.untold, c)
	}
	if !slices.Contains(c.holds[max(0, len(c.holds)-8):], s) {
		// a short search suffices: a duplicate is also released twice
		c.holds = append(c.holds, s)
		p.held[s]++
	}
}

// one counts an answered message of c.
func (c *call) one() {
	if c.left--; c.left == 0 {
		c.answer()
	}
}

func (c *call) answer() {
	if !c.over() {
		close(c.answered)
	}
}

// giveUp ends the calls of segs with an outage: the state of messages without an answer is unknown. It also
// fails unsent messages of these calls and all later ones of their keys, so that nothing overtakes.
func (p *publisher) giveUp(segs []segment, why error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, s := range segs {
		c := s.call
		for i := 0; i < len(c.recs) && !c.over(); i++ {
			if !c.durable[i] && c.bad.Failed[i] == nil && c.bad.Refused[i] == nil {
				p.fail(c, i, outage, orUnavailable(why))
			}
		}
	}
	p.sweep()
}

// sweep fails queued messages that must be held back, even if the caller learns of the failure meanwhile.
func (p *publisher) sweep() {
	p.queue = p.rest(p.queue)
	for _, h := range p.holds {
		h.waiting = p.rest(h.waiting)
	}
	p.release()
}

// stop answers unfinished calls and ends the rounds.
func (p *publisher) stop() {
	p.mu.Lock()
	p.closed = true
	p.mu.Unlock()
	p.cancel()
	<-p.done
}
