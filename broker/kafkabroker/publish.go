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

// publisher keeps the publish contract. franz-go alone does not: when a batch fails for good it fails
// everything that is buffered for the partition, but what is buffered a moment later, before anyone heard of
// the failure, goes out. So records are handed to it in rounds: one round is buffered whole before any of it
// is sent, and all its answers are there before the next begins. What fails holds back what was handed over
// behind it with the same key, until the caller has been told. A round that hangs, because one of the brokers
// does, is left to itself with its client, and the next goes by another: a hold (hold.go) keeps what must not
// overtake.
type publisher struct {
	limits   limits
	line     line
	patience time.Duration
	stall    time.Duration // after which a round hangs
	round    int
	codec    *cloudevents.Codec
	place    func(topic string, key []byte, n int) int
	checked  bool // place is the user's
	seed     maphash.Seed
	dial     func() (*sender, error)
	asks     *kgo.Client // for all but messages

	mu      sync.Mutex
	queue   []segment
	held    map[successors]int // how many calls that were not asked yet hold these back
	untold  []*call            // those calls
	holds   []*hold            // added and removed by run alone
	senders []*sender
	closed  bool

	idle   []*sender // of run alone
	lapsed []string  // of run alone: topics that could not be used this time
	wake   chan struct{}
	ctx    context.Context // of the publisher's own life; ended by stop
	cancel context.CancelFunc
	wg     sync.WaitGroup // of the holds
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
	left     int    // how many are not answered
	durable  []bool // those that are
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

// Publish hands msgs over and returns at once. What was handed over is sent even if ctx ends meanwhile. Once
// ctx has ended, failed messages of this call no longer hold back later ones of their keys. A message that
// is larger than its topic allows, counted uncompressed, is refused; when Kafka itself finds a batch too
// large, all messages of that batch and those after it in the partition are named.
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

// ended answers a call that nobody else knows yet.
func (c *call) ended(err error) *call {
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
	case c.outage != nil && (len(c.bad.Failed) == len(c.recs) || len(c.bad.Failed) == 0): // of the whole call
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

// rest are those of segs that may still go out: not what is held back, which is answered so, and nothing of
// calls that are answered.
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

// over says whether c is answered.
func (c *call) over() bool {
	select {
	case <-c.answered:
		return true
	default:
		return false
	}
}

// fail answers message i of c, which has no answer yet, with err, and holds its successors back.
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
		// not worth more: twice is held twice and released twice
		c.holds = append(c.holds, s)
		p.held[s]++
	}
}

// one more of c is answered.
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

// giveUp answers the calls of segs: nothing is known of those messages that have no answer. What else of
// these calls was not sent goes, and so does all behind them, so that nothing overtakes.
func (p *publisher) giveUp(segs []segment, why error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, s := range segs {
		c := s.call
		for i := 0; i < len(c.recs) && !c.over(); i++ {
			if !c.durable[i] && c.bad.Failed[i] == nil && c.bad.Refused[i] == nil {
				p.fail(c, i, outage, orAway(why))
			}
		}
	}
	p.sweep()
}

// sweep fails what was handed over before anyone could know of a failure, even if meanwhile someone does.
func (p *publisher) sweep() {
	p.queue = p.rest(p.queue)
	for _, h := range p.holds {
		h.waiting = p.rest(h.waiting)
	}
	p.release()
}

// stop answers what is under way and ends the rounds.
func (p *publisher) stop() {
	p.mu.Lock()
	p.closed = true
	p.mu.Unlock()
	p.cancel()
	<-p.done
}
