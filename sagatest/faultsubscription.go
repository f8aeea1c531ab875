package sagatest

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/broker"
	"github.com/skald-go/skald/store"
)

// remembered is the number of deliveries of a partition that a rewind can repeat.
const remembered = 8

// faultySubscription repeats and delays deliveries, and loses acknowledgements.
type faultySubscription struct {
	broker.Subscription
	f     *Faults
	ready chan struct{}
	end   chan struct{}

	mu         sync.Mutex // Die may be called in any goroutine
	partitions map[string]*faultyPartition
	order      []string
	dead       bool
}

type faultyPartition struct {
	queue []broker.Delivery // fetched, but not returned yet
	given []broker.Delivery // the last deliveries that were returned
	until time.Time         // end of the delay
	acked int64             // the highest acknowledged position, or -1
}

// newFaultySubscription returns a subscription that ends when the channel end is closed.
func newFaultySubscription(inner broker.Subscription, f *Faults, end <-chan struct{}) *faultySubscription {
	s := &faultySubscription{
		Subscription: inner, f: f, ready: make(chan struct{}, 1), end: make(chan struct{}),
		partitions: map[string]*faultyPartition{},
	}
	go s.forward(end)
	f.diesWith(s, s.kill)
	return s
}

// forward merges the Ready channel of the broker into the one of s, which also signals delayed deliveries.
func (s *faultySubscription) forward(over <-chan struct{}) {
	in := s.Subscription.Ready()
	for {
		select {
		case <-s.end:
			return
		case <-over:
			s.f.forget(s)
			s.wake()
			return
		case <-in:
			s.wake()
		}
	}
}

func (s *faultySubscription) wake() {
	select {
	case s.ready <- struct{}{}:
	default:
	}
}

// kill ends the inner subscription at the death of the process, without a Close if possible.
func (s *faultySubscription) kill() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.dead {
		return
	}
	s.dead = true
	close(s.end)
	s.wake()
	if k, ok := s.Subscription.(interface{ Kill() }); ok {
		k.Kill()
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	_ = s.Subscription.Close(ctx) // the process is dead, so no caller gets the error
}

// endError returns the error of calls after the end.
func (s *faultySubscription) endError() error {
	if err := s.f.alive(); err != nil {
		return err
	}
	return broker.ErrClosed
}

func (s *faultySubscription) Ready() <-chan struct{} { return s.ready }

func (s *faultySubscription) Receive(ctx context.Context, most int) (broker.Batch, error) {
	if err := s.f.live(); err != nil {
		return broker.Batch{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.dead {
		return broker.Batch{}, s.endError()
	}
	if err := s.f.strike(ReceiveFailed, s.f.rates.ReceiveFails, nil); err != nil {
		s.wake()
		return broker.Batch{}, err
	}
	b, err := s.Subscription.Receive(ctx, most)
	if err != nil {
		return b, err
	}
	for _, l := range b.Lost {
		delete(s.partitions, l.Name)
		s.order = slices.DeleteFunc(s.order, func(name string) bool { return name == l.Name })
	}
	for i := range b.Deliveries {
		s.fetch(b.Deliveries[i])
	}
	b.Deliveries = s.give(most)
	return b, nil
}

func (s *faultySubscription) partition(name string) *faultyPartition {
	l := s.partitions[name]
	if l == nil {
		l = &faultyPartition{acked: -1}
		s.partitions[name] = l
		s.order = append(s.order, name)
	}
	return l
}

// fetch queues a delivery. Faults repeat this delivery, repeat earlier ones before it, or delay the
// partition.
func (s *faultySubscription) fetch(d broker.Delivery) {
	l := s.partition(d.Partition)
	if len(l.queue) == 0 && len(l.given) > 0 && s.f.hit(Rewound, s.f.rates.Rewind) {
		back := l.given[s.f.number(len(l.given)):]
		l.queue = append(l.queue, back...)
		s.f.told(Rewound, delivered(back))
	}
	l.queue = append(l.queue, d)
	one := l.queue[len(l.queue)-1:]
	if s.f.hit(Repeated, s.f.rates.Repeat) {
		l.queue = append(l.queue, d)
		s.f.told(Repeated, delivered(one))
	}
	if l.until.IsZero() && s.f.hit(Delayed, s.f.rates.Delay) {
		wait := s.f.duration(s.f.rates.DelayFor)
		l.until = time.Now().Add(wait)
		s.f.told(Delayed, delivered(one))
		time.AfterFunc(wait, s.wake)
	}
}

func delivered(ds []broker.Delivery) []store.Identity {
	return identities(ds, func(d *broker.Delivery) *skald.Message { return &d.Message })
}

// give removes at most limit deliveries from the queues of partitions that are not delayed, and returns
// them.
func (s *faultySubscription) give(limit int) (out []broker.Delivery) {
	now := time.Now()
	for _, name := range s.order {
		l := s.partitions[name]
		if now.Before(l.until) {
			continue
		}
		l.until = time.Time{}
		n := min(limit-len(out), len(l.queue))
		out = append(out, l.queue[:n]...)
		l.remember(l.queue[:n])
		if l.queue = l.queue[n:]; len(l.queue) > 0 {
			s.wake()
		}
	}
	return out
}

// remember stores the last deliveries, ordered by position. After a rewind, a broker repeats all deliveries
// up to the newest one, so there are no gaps.
func (l *faultyPartition) remember(ds []broker.Delivery) {
	for _, d := range ds {
		if n := len(l.given); n == 0 || l.given[n-1].Position < d.Position {
			l.given = append(l.given, d)
		}
	}
	if n := len(l.given); n > remembered {
		l.given = append([]broker.Delivery(nil), l.given[n-remembered:]...)
	}
}

// Ack forwards acknowledgements that move a partition forward. It drops those of repeated deliveries.
func (s *faultySubscription) Ack(ctx context.Context, ds []broker.Delivery) error {
	if err := s.f.live(); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.dead {
		return s.endError()
	}
	if s.f.hit(AckLost, s.f.rates.AckLost) {
		s.f.told(AckLost, delivered(ds))
		return nil
	}
	forward := make([]broker.Delivery, 0, len(ds))
	for _, d := range ds {
		if l := s.partitions[d.Partition]; l != nil && d.Position > l.acked {
			forward = append(forward, d)
		}
	}
	if len(forward) == 0 {
		return nil
	}
	if err := s.Subscription.Ack(ctx, forward); err != nil {
		return err
	}
	for _, d := range forward {
		s.partitions[d.Partition].acked = d.Position
	}
	return s.f.strike(AckUnknown, s.f.rates.AckUnknown, delivered(forward))
}

func (s *faultySubscription) Pause(partitions ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.dead {
		s.Subscription.Pause(partitions...)
	}
}

func (s *faultySubscription) Resume(partitions ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.dead {
		s.Subscription.Resume(partitions...)
	}
}

func (s *faultySubscription) Close(ctx context.Context) error {
	s.f.forget(s)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.dead {
		return s.endError()
	}
	s.dead = true
	close(s.end)
	s.wake()
	return s.Subscription.Close(ctx)
}
