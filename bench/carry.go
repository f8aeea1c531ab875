package main

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/broker"
	"github.com/skald-go/skald/relay"
)

// A sink is a publisher that counts what became durable, and sees to the order.
type sink struct {
	inner   broker.Publisher // nil: everything is durable at once
	session string           // each turn has its own, so that the relay starts at the oldest row again
	want    int64
	acked   atomic.Int64
	full    chan struct{} // closed when want is reached
	first   chan struct{} // closed with the first rows
	begun   sync.Once

	mu       sync.Mutex
	last     string // sequence of the row before
	inverted int64
	on       func(skald.Message) // for each durable message; may be nil
}

func newSink(inner broker.Publisher, want int) *sink {
	return &sink{inner: inner, session: name(), want: int64(want), full: make(chan struct{}),
		first: make(chan struct{})}
}

func (s *sink) Incarnation(context.Context) (string, error) { return s.session, nil }

func (s *sink) Topics(ctx context.Context, names ...string) (broker.Topics, error) {
	if s.inner == nil {
		return nil, nil
	}
	return s.inner.Topics(ctx, names...)
}

func (s *sink) Publish(ctx context.Context, msgs []skald.Message, only ...broker.Topics) broker.Pending {
	s.begun.Do(func() { close(s.first) })
	s.mu.Lock()
	for i := range msgs {
		if msgs[i].Sequence <= s.last {
			s.inverted++
		}
		s.last = msgs[i].Sequence
	}
	s.mu.Unlock()
	p := &handed{s: s, msgs: msgs}
	if s.inner != nil {
		p.inner = s.inner.Publish(ctx, msgs, only...)
	}
	return p
}

// handed is a call under way.
type handed struct {
	s     *sink
	msgs  []skald.Message
	inner broker.Pending
}

func (p *handed) Done() <-chan struct{} {
	if p.inner != nil {
		return p.inner.Done()
	}
	done := make(chan struct{})
	close(done)
	return done
}

func (p *handed) Wait(ctx context.Context) error {
	if p.inner != nil {
		if err := p.inner.Wait(ctx); err != nil {
			return err
		}
	}
	if p.s.on != nil {
		for _, m := range p.msgs {
			p.s.on(m)
		}
	}
	n := int64(len(p.msgs))
	if got := p.s.acked.Add(n); p.s.want > 0 && got >= p.s.want && got-n < p.s.want {
		close(p.s.full)
	}
	return nil
}

// quietly is what every relay and inbox here logs to.
func quietly() *slog.Logger { return slog.New(slog.DiscardHandler) }

// plainRelay is a relay's options.
func plainRelay() relay.Options { return relay.Options{Logger: quietly()} }

// carry runs a relay until all that s wants is durable.
func (m *meter) carry(ctx context.Context, db relay.Source, s *sink, o relay.Options) error {
	m.r.Concurrency = 1
	if err := m.begin(ctx); err != nil {
		return err
	}
	stop, ended := start(ctx, relay.New(db, s, &o))
	defer stop()
	select {
	case <-s.full:
	case err := <-ended:
		return fmt.Errorf("the relay ended: %w", err)
	case <-time.After(m.b.limit):
		m.r.Note = "not drained in time"
	case <-ctx.Done():
		return ctx.Err()
	}
	m.end(ctx, int(s.acked.Load()))
	stop()
	if err := <-ended; err != nil {
		return err
	}
	if s.inverted > 0 {
		return fmt.Errorf("%d rows came before an earlier one", s.inverted)
	}
	return nil
}

// start runs r until stop is called.
func start(ctx context.Context, r skald.Runner) (stop func(), ended chan error) {
	ctx, stop = context.WithCancel(ctx)
	ended = make(chan error, 1)
	go func() { ended <- r.Run(ctx) }()
	return stop, ended
}
