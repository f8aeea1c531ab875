package perkey

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/broker"
)

// A Pump sends the first message of each line, and ends the wait for answers that do not come. Drivers embed
// it: M is a message as the broker takes it, T what the driver knows of a topic.
type Pump[M, T any] struct {
	Mu       sync.Mutex
	Lines    *Lines[M]
	Topics   map[string]T // those that were looked up; under Mu
	Down     time.Time    // since when nothing can be sent, zero: it can; under Mu
	Patience time.Duration

	wake chan struct{}
	over chan struct{} // closed by Stop
	wg   sync.WaitGroup
}

// Init makes it ready for messages to the broker of that name. Nothing is sent before Start.
func (p *Pump[M, T]) Init(name string, patience time.Duration) {
	p.Patience, p.Down = patience, time.Now()
	p.Topics, p.Lines = map[string]T{}, New[M](name, &p.Mu, p.Rouse)
	p.wake, p.over = make(chan struct{}, 1), make(chan struct{})
}

// Start lets send have each message that may be sent, in a goroutine. At most most may be unanswered: it is
// called under Mu. Overdue, under Mu, is the error of one whose answer has not come within Patience.
func (p *Pump[M, T]) Start(most func() int, send func(*Item[M]), overdue func(*Item[M]) error) {
	p.Go(func() {
		for {
			p.Mu.Lock()
			it := p.Lines.Next(most())
			p.Mu.Unlock()
			if it != nil {
				send(it)
				continue
			}
			select {
			case <-p.wake:
			case <-p.over:
				return
			}
		}
	})
	p.Go(func() { p.watch(overdue) })
}

// watch ends the wait for answers that do not come.
func (p *Pump[M, T]) watch(overdue func(*Item[M]) error) {
	tick := time.NewTicker(min(p.Patience/4, 100*time.Millisecond))
	defer tick.Stop()
	for {
		select {
		case <-p.over:
			return
		case now := <-tick.C:
			p.Mu.Lock()
			p.Lines.Overdue(now, overdue)
			p.Mu.Unlock()
		}
	}
}

// Go runs f in a goroutine that Stop waits for.
func (p *Pump[M, T]) Go(f func()) { p.wg.Go(f) }

// Rouse lets the sender look again.
func (p *Pump[M, T]) Rouse() {
	select {
	case p.wake <- struct{}{}:
	default:
	}
}

// Pause waits for d, or until the sender is roused. It reports whether the pump goes on.
func (p *Pump[M, T]) Pause(d time.Duration) bool {
	select {
	case <-time.After(d):
	case <-p.wake:
	case <-p.over:
		return false
	}
	return true
}

// Sleep waits for d, or until Stop.
func (p *Pump[M, T]) Sleep(d time.Duration) {
	select {
	case <-time.After(d):
	case <-p.over:
	}
}

// Stop answers everything with an outage. Cut ends what goroutines may wait for.
func (p *Pump[M, T]) Stop(cut func()) {
	p.Mu.Lock()
	first := p.Lines.Shut()
	p.Mu.Unlock()
	if !first {
		return
	}
	close(p.over)
	cut()
	p.wg.Wait()
	p.Mu.Lock()
	defer p.Mu.Unlock()
	p.Lines.End()
}

// Publish queues msgs after what was published before.
func (p *Pump[M, T]) Publish(ctx context.Context, msgs []skald.Message, only []broker.Topics,
	encode func(*skald.Message) (M, error)) broker.Pending {
	return p.Lines.Publish(ctx, msgs, only, encode)
}

// Refuse answers a message that was not sent.
func (p *Pump[M, T]) Refuse(it *Item[M], k Kind, err error) {
	p.Mu.Lock()
	defer p.Mu.Unlock()
	p.Lines.Fail(it, k, err)
}

// Late tells whether the patience for a message is over, which begins when nothing can be sent any longer.
func (p *Pump[M, T]) Late(it *Item[M]) bool {
	p.Mu.Lock()
	defer p.Mu.Unlock()
	if p.Lines.Closed() || it.Context().Err() != nil {
		return true
	}
	since := p.Down
	if it.Since.After(since) {
		since = it.Since
	}
	return time.Since(since) > p.Patience
}

// Aim is the topic of a message that can be sent; one that cannot is answered. Look asks the broker about a
// topic that is not known, kind says what its error means, and id is what tells a topic from one that was
// deleted and recreated.
func (p *Pump[M, T]) Aim(it *Item[M], look func(context.Context, string) (T, error), kind func(error) Kind,
	id func(*T) string) (t T, ok bool) {
	if err := it.Context().Err(); err != nil {
		p.Refuse(it, Outage, fmt.Errorf("publish: %w", err))
		return t, false
	}
	if it.Err != nil {
		p.Refuse(it, Refused, it.Err)
		return t, false
	}
	t, err := p.topic(it.Topic, look)
	if err != nil {
		p.Refuse(it, kind(err), fmt.Errorf("publish: %w", err))
		return t, false
	}
	if !it.Fenced || id(&t) == it.Only {
		return t, true
	}
	p.Mu.Lock()
	defer p.Mu.Unlock()
	delete(p.Topics, it.Topic) // another look tells which is right
	p.Lines.Fail(it, Failed, fmt.Errorf("publish to %q: %w", it.Topic, broker.ErrRecreated))
	return t, false
}

// topic looks a topic up, and remembers it until the driver forgets it.
func (p *Pump[M, T]) topic(name string, look func(context.Context, string) (T, error)) (T, error) {
	p.Mu.Lock()
	t, known := p.Topics[name]
	p.Mu.Unlock()
	if known {
		return t, nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), p.Patience)
	defer cancel()
	t, err := look(ctx, name)
	if err != nil {
		return t, err
	}
	p.Mu.Lock()
	defer p.Mu.Unlock()
	p.Topics[name] = t
	return t, nil
}
