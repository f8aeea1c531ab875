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

// WrapBroker injects faults into b, within the publish contract and the order of each partition.
func WrapBroker(b broker.Broker, f *Faults) broker.Broker {
	return &faultyBroker{Broker: b, f: f, held: map[string][]*faultyPending{}, over: make(chan struct{})}
}

type faultyBroker struct {
	broker.Broker
	f    *Faults
	over chan struct{} // closed by Close
	once sync.Once

	mu   sync.Mutex
	held map[string][]*faultyPending // unpublished messages by key, until the caller has the result
}

// Publish publishes msgs without some random ones. A message that was left out blocks its key until Wait
// has reported it.
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
		// half of the time all, else from a random message on
		p.lie, p.from = true, b.f.number(2)*b.f.number(len(msgs))
	}
	return p
}

// identities returns the identities of the messages in list.
func identities[T any](list []T, of func(*T) *skald.Message) []store.Identity {
	out := make([]store.Identity, len(list))
	for i := range list {
		m := of(&list[i])
		out[i] = store.Identity{Source: m.Source, ID: m.ID}
	}
	return out
}

func heldKey(m *skald.Message) string { return m.Topic + "\x00" + string(m.Key) }

// sift removes the messages that must not be published.
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

// told unblocks the keys of p, because the caller has the result.
func (b *faultyBroker) told(p *faultyPending) {
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

// faultyPending is the result of a call in which some messages were not published, or are reported as not
// published.
type faultyPending struct {
	b     *faultyBroker
	ctx   context.Context
	of    []store.Identity // messages of the call
	inner broker.Pending   // of the messages at the indexes in at, or of all if at is nil
	at    []int
	gone  []int // not published
	lie   bool  // messages from this index on are reported as not published
	from  int
	dead  error

	known bool // under b.mu: Wait has returned
	once  sync.Mutex
	done  bool
	err   error
}

func (p *faultyPending) holds() bool { return !p.known && p.ctx.Err() == nil }

// Done is closed when the inner call has a result.
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

// Wait returns the result of the call, or the injected fault.
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
		return err // there may be no result yet
	}
	p.done = true
	if p.err = p.answer(err); p.err == nil {
		p.err = p.b.f.liveWith(p.of)
	}
	p.b.told(p)
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
