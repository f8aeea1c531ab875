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

// publisher implements the contract of Publish. franz-go alone does not. If a batch fails, franz-go fails all
// buffered records of the partition. But it sends records that are added a moment later, before any caller
// knows of the failure.
//
// So the publisher gives records to franz-go in rounds. It buffers a whole round before franz-go sends any of
// it. It waits for all answers before it starts the next round. A failed message holds back later messages of
// its key until its caller has the result.
//
// If a broker does not answer, the round keeps its client, and the next round uses another client. A hold
// (hold.go) keeps messages that must not overtake the unanswered round.
type publisher struct {
	limits   limits
	line     line
	patience time.Duration
	stall    time.Duration // a round without all answers hangs after this time
	round    int
	codec    *cloudevents.Codec
	place    func(topic string, key []byte, n int) int
	checked  bool // place is Options.Partition, so its results are checked
	seed     maphash.Seed
	dial     func() (*sender, error)
	asks     *kgo.Client // sends requests for metadata

	mu      sync.Mutex
	queue   []segment
	held    map[successors]int // the number of calls that hold these messages back
	holders []*call            // calls that hold messages back, because their callers have no result yet
	holds   []*hold            // only run adds and removes them
	senders []*sender
	closed  bool

	idle   []*sender // used only by run
	lapsed []string  // used only by run: topics that were unusable in this round
	wake   chan struct{}
	ctx    context.Context // ended by stop
	cancel context.CancelFunc
	wg     sync.WaitGroup // goroutines of holds, and of clients that are closing
	done   chan struct{}
}

// successors identifies the messages of a topic by the hash of their keys. Two keys with the same hash are
// held back together; this only costs a retry.
type successors struct {
	topic string
	hash  uint64
}

// call is one unfinished call of Publish.
type call struct {
	p   *publisher
	ctx context.Context // the caller may wait for the result until ctx ends

	recs   []kgo.Record
	sizes  []int         // an upper limit of each message's size in a batch
	broken map[int]error // errors of messages that cannot be encoded, by index

	// The fields below are guarded by p.mu until answered is closed, and constant after that.
	left     int    // the number of messages without an answer
	durable  []bool // by index: the message is durable
	bad      broker.PublishError
	outage   error
	holds    []successors // messages that this call holds back
	told     bool         // the caller has the result
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

// Publish queues msgs and returns immediately. The driver sends queued messages even if ctx ends. After ctx
// has ended, failed messages of this call no longer hold back later messages of their keys. The driver
// refuses a message if its uncompressed size is above the limit of its topic. If Kafka refuses a batch as too
// large, all messages of the batch and the later messages of the partition get this error.
func (p *publisher) Publish(ctx context.Context, msgs []skald.Message, only ...broker.Topics) broker.Pending {
	c := &call{p: p, ctx: ctx, left: len(msgs), answered: make(chan struct{})}
	if err := ctx.Err(); err != nil {
		return c.answerNow(err)
	}
	c.recs, c.sizes, c.durable = make([]kgo.Record, len(msgs)), make([]int, len(msgs)),
		make([]bool, len(msgs))
	enc := newEncoder(msgs, p.codec)
	var to *expectedContext
	for i := range msgs {
		if len(only) > 0 && (i == 0 || msgs[i].Topic != msgs[i-1].Topic) {
			to = expectID(only[0][msgs[i].Topic])
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
		return c.answerNow(broker.ErrClosed)
	}
	p.release()
	if c.left == 0 {
		c.answer()
		return c
	}
	p.queue = append(p.queue, p.sendable([]segment{{c, 0, len(msgs)}})...)
	feed.Signal(p.wake)
	return c
}

// answerNow answers a call that is not queued.
func (c *call) answerNow(err error) *call {
	c.outage = err
	close(c.answered)
	return c
}

// Done returns a channel that is closed when all messages are answered.
func (c *call) Done() <-chan struct{} { return c.answered }

// Wait returns the result when all messages are answered, or an error when ctx ends.
func (c *call) Wait(ctx context.Context) error {
	select {
	case <-c.answered:
	default:
		select {
		case <-c.answered:
		case <-ctx.Done():
			c.p.markReported(c) // the caller may never call Wait again
			return fmt.Errorf("wait for Kafka: %w", ctx.Err())
		}
	}
	c.p.markReported(c)
	switch {
	case c.outage != nil && (len(c.bad.Failed) == len(c.recs) || len(c.bad.Failed) == 0): // all messages
		return fmt.Errorf("publish: %w", c.outage)
	case len(c.bad.Failed)+len(c.bad.Refused) > 0:
		return &c.bad
	}
	return nil
}

// markReported records that the caller of c has the result, so c no longer holds messages back.
func (p *publisher) markReported(c *call) {
	p.mu.Lock()
	defer p.mu.Unlock()
	c.told = true
	if len(c.holds) > 0 {
		p.release()
	}
}

// release lets messages continue that were held back by a call, if the caller has the result or its context
// has ended.
func (p *publisher) release() {
	p.holders = slices.DeleteFunc(p.holders, func(c *call) bool {
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

// sendable returns the messages of segs that can still be sent. It fails messages that are held back, and
// omits calls that are answered.
func (p *publisher) sendable(segs []segment) (out []segment) {
	for _, s := range segs {
		c := s.call
		switch {
		case c.isAnswered():
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

// isAnswered returns true if c is answered.
func (c *call) isAnswered() bool {
	select {
	case <-c.answered:
		return true
	default:
		return false
	}
}

// fail answers message i of c with an error, and holds back later messages of its key. The message has no
// answer yet.
func (p *publisher) fail(c *call, i int, what kind, err error) {
	defer c.countAnswer()
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
		p.holders = append(p.holders, c)
	}
	if !slices.Contains(c.holds[max(0, len(c.holds)-8):], s) {
		// A short search suffices: a duplicate is counted twice, and later released twice.
		c.holds = append(c.holds, s)
		p.held[s]++
	}
}

// countAnswer records that one more message of c has its answer.
func (c *call) countAnswer() {
	if c.left--; c.left == 0 {
		c.answer()
	}
}

func (c *call) answer() {
	if !c.isAnswered() {
		close(c.answered)
	}
}

// giveUp reports an outage to the callers of segs, because the state of messages without an answer is
// unknown. It also fails the unsent messages of these calls, and holds back later messages of all failed
// keys, so that no message overtakes another.
func (p *publisher) giveUp(segs []segment, why error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, s := range segs {
		c := s.call
		for i := 0; i < len(c.recs) && !c.isAnswered(); i++ {
			if !c.durable[i] && c.bad.Failed[i] == nil && c.bad.Refused[i] == nil {
				p.fail(c, i, outage, orUnavailable(why))
			}
		}
	}
	p.sweep()
}

// sweep fails the queued messages that are held back now. Otherwise they could be sent after their
// predecessor's caller has the result, and overtake its retry.
func (p *publisher) sweep() {
	p.queue = p.sendable(p.queue)
	for _, h := range p.holds {
		h.waiting = p.sendable(h.waiting)
	}
	p.release()
}

// stop ends run, which answers the unfinished calls.
func (p *publisher) stop() {
	p.mu.Lock()
	p.closed = true
	p.mu.Unlock()
	p.cancel()
	<-p.done
}
