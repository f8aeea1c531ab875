package sagatest

import (
	"context"
	"errors"
	"slices"
	"sync"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/broker"
	"github.com/skald-go/skald/store"
)

// WrapBroker returns b with faults. The faults respect the contract of Publish and the order of each
// partition.
func WrapBroker(b broker.Broker, f *Faults) broker.Broker {
	return &faultyBroker{Broker: b, f: f, held: map[string][]*faultyPending{}, over: make(chan struct{})}
}

type faultyBroker struct {
	broker.Broker
	f    *Faults
	over chan struct{} // closed by Close
	once sync.Once

	mu   sync.Mutex
	held map[string][]*faultyPending // by key; calls with unpublished messages and no result yet
}

// Publish omits some random messages of msgs. An omitted message blocks its key until Wait has returned its
// error.
func (b *faultyBroker) Publish(ctx context.Context, msgs []skald.Message,
	only ...broker.Topics) broker.Pending {
	p := &faultyPending{b: b, ctx: ctx,
		of: identities(msgs, func(m *skald.Message) *skald.Message { return m })}
	if p.dead = b.f.liveWith(p.of); p.dead != nil {
		return p
	}
	kept := b.sift(p, msgs)
	p.inner = b.Broker.Publish(ctx, kept, only...)
	if p.gone == nil && b.f.hit(PublishUnknown, b.f.rates.PublishUnknown) {
		// In half of the cases all messages get an error, otherwise those from a random index on.
		p.lie, p.from = true, b.f.number(2)*b.f.number(len(msgs))
	}
	return p
}

// identities returns the identities of the messages in list.
func identities[T any](list []T, message func(*T) *skald.Message) []store.Identity {
	out := make([]store.Identity, len(list))
	for i := range list {
		m := message(&list[i])
		out[i] = store.Identity{Source: m.Source, ID: m.ID}
	}
	return out
}

func heldKey(m *skald.Message) string { return m.Topic + "\x00" + string(m.Key) }

// sift returns the messages to publish. It omits those with a blocked key, and those that a fault selects.
func (b *faultyBroker) sift(p *faultyPending, msgs []skald.Message) []skald.Message {
	b.mu.Lock()
	defer b.mu.Unlock()
	fails, from := b.f.hit(PublishFailed, b.f.rates.PublishFails), 0
	if fails {
		from = b.f.number(len(msgs))
	}
	if !fails && len(b.held) == 0 {
		return msgs
	}
	kept := make([]skald.Message, 0, len(msgs))
	for i := range msgs {
		m := &msgs[i]
		if !b.isHeld(m) && (!fails || i < from || i > from && b.f.number(2) == 0) {
			kept, p.at = append(kept, *m), append(p.at, i)
			continue
		}
		p.gone = append(p.gone, i)
		if m.Key != nil && !slices.Contains(b.held[heldKey(m)], p) {
			b.held[heldKey(m)] = append(b.held[heldKey(m)], p)
		}
	}
	return kept
}

func (b *faultyBroker) isHeld(m *skald.Message) bool {
	return m.Key != nil && slices.ContainsFunc(b.held[heldKey(m)], (*faultyPending).holds)
}

// unblock unblocks the keys of p, because the caller now has the result.
func (b *faultyBroker) unblock(p *faultyPending) {
	b.mu.Lock()
	defer b.mu.Unlock()
	p.known = true
	for k, ps := range b.held {
		if ps = slices.DeleteFunc(ps, func(q *faultyPending) bool { return !q.holds() }); len(ps) > 0 {
			b.held[k] = ps
		} else {
			delete(b.held, k)
		}
	}
}

func (b *faultyBroker) Incarnation(ctx context.Context) (string, error) {
	if err := b.f.alive(); err != nil {
		return "", err
	}
	return b.Broker.Incarnation(ctx)
}

func (b *faultyBroker) Topics(ctx context.Context, names ...string) (broker.Topics, error) {
	if err := b.f.alive(); err != nil {
		return nil, err
	}
	return b.Broker.Topics(ctx, names...)
}

func (b *faultyBroker) Subscribe(ctx context.Context, g broker.Group) (broker.Subscription, error) {
	if err := b.f.alive(); err != nil {
		return nil, err
	}
	s, err := b.Broker.Subscribe(ctx, g)
	if err != nil {
		return nil, err
	}
	return newFaultySubscription(s, b.f, b.over), nil
}

func (b *faultyBroker) Close() error {
	b.once.Do(func() { close(b.over) })
	return b.Broker.Close()
}

// faultyPending is the result of a Publish in which some messages were not published, or get an error
// although they were published.
type faultyPending struct {
	b     *faultyBroker
	ctx   context.Context
	of    []store.Identity // identities of the messages of the call
	inner broker.Pending   // result for the messages with the indexes in at, or for all if at is nil
	at    []int
	gone  []int // indexes of messages that were not published
	lie   bool  // messages from the index from on get an error although they were published
	from  int
	dead  error

	known bool // guarded by b.mu; Wait has returned
	once  sync.Mutex
	done  bool
	err   error
}

func (p *faultyPending) holds() bool { return !p.known && p.ctx.Err() == nil }

// Done returns the channel of the inner call.
func (p *faultyPending) Done() <-chan struct{} {
	if p.dead != nil {
		return answered()
	}
	return p.inner.Done()
}

// answered returns a closed channel.
func answered() <-chan struct{} {
	done := make(chan struct{})
	close(done)
	return done
}

// Wait returns the result of the call, with the injected faults.
func (p *faultyPending) Wait(ctx context.Context) error {
	if p.dead != nil {
		return p.dead
	}
	p.once.Lock()
	defer p.once.Unlock()
	if p.done {
		return p.err
	}
	err := p.inner.Wait(ctx)
	if ctx.Err() != nil && err != nil {
		return err // the result may come later
	}
	p.done = true
	if p.err = p.answer(err); p.err == nil {
		p.err = p.b.f.liveWith(p.of)
	}
	p.b.unblock(p)
	return p.err
}

func (p *faultyPending) answer(err error) error {
	var part *broker.PublishError
	if err != nil && !errors.As(err, &part) {
		return err
	}
	all := &broker.PublishError{Failed: map[int]error{}, Refused: map[int]error{}}
	if part != nil {
		for i, why := range part.Failed {
			all.Failed[p.index(i)] = why
		}
		for i, why := range part.Refused {
			all.Refused[p.index(i)] = why
		}
	}
	for _, i := range p.gone {
		all.Failed[i] = &FaultError{Kind: PublishFailed}
		p.b.f.told(PublishFailed, p.of[i:i+1])
	}
	switch {
	case p.lie && p.from == 0 && part == nil:
		p.b.f.told(PublishUnknown, p.of)
		return &FaultError{Kind: PublishUnknown}
	case p.lie:
		for i := p.from; i < len(p.of); i++ {
			if all.Refused[i] == nil && all.Failed[i] == nil {
				p.b.f.told(PublishUnknown, p.of[i:i+1])
				all.Failed[i] = &FaultError{Kind: PublishUnknown}
			}
		}
	}
	if len(all.Failed)+len(all.Refused) == 0 {
		return nil
	}
	return all
}

func (p *faultyPending) index(i int) int {
	if p.at == nil && p.gone == nil {
		return i
	}
	return p.at[i]
}
