package perkey

import (
	"context"
	"errors"
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

	looking  map[string][]*Item[M] // messages that wait for a look at their topic; under Mu
	answers  func(context.Context) bool
	doubting bool // answers is being asked because of messages without an answer; under Mu

	wake chan struct{}
	over chan struct{} // closed by Stop
	wg   sync.WaitGroup
}

// ErrSilent is wrapped by errors about a topic that does not answer while the broker does. Only the messages
// of that topic fail.
var ErrSilent = errors.New("the topic does not answer, while the broker does: look at its stream or queue")

// Init makes it ready for messages to the broker of that name. Nothing is sent before Start.
func (p *Pump[M, T]) Init(name string, patience time.Duration) {
	p.Patience, p.Down = patience, time.Now()
	p.Topics, p.Lines = map[string]T{}, New[M](name, &p.Mu, p.Rouse)
	p.looking = map[string][]*Item[M]{}
	p.wake, p.over = make(chan struct{}, 1), make(chan struct{})
}

// Start lets send have each message that may be sent, in a goroutine. At most most may be unanswered: it is
// called under Mu. Overdue, under Mu, is the error of one whose answer has not come within Patience. Answers
// asks the broker something that concerns no topic.
func (p *Pump[M, T]) Start(most func() int, send func(*Item[M]), overdue func(*Item[M]) error,
	answers func(context.Context) bool) {
	p.answers = answers
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
			p.doubt(now)
			p.Mu.Unlock()
		}
	}
}

// doubt fails messages without an answer for half of Patience, if the broker answers otherwise: their topic
// is silent. Mu is held.
func (p *Pump[M, T]) doubt(now time.Time) {
	late := now.Add(p.Patience / 2)
	if p.doubting || !p.Down.IsZero() || !p.Lines.waits(late) {
		return
	}
	p.doubting = true
	p.Go(func() {
		answers := p.Answers()
		p.Mu.Lock()
		defer p.Mu.Unlock()
		p.doubting = false
		if answers && p.Down.IsZero() {
			p.Lines.silence(late, time.Now().Add(p.Patience))
		}
	})
}

// Answers reports whether the broker answers, within half of Patience.
func (p *Pump[M, T]) Answers() bool {
	ctx, cancel := p.context(p.Patience / 2)
	defer cancel()
	return p.answers(ctx)
}

// Doubt answers a message that found no taker. It failed if the broker answers otherwise. Mu is held, and the
// message has landed.
func (p *Pump[M, T]) Doubt(it *Item[M], err error) {
	p.Go(func() {
		kind := Outage
		if p.Answers() {
			kind = Failed
		}
		p.Refuse(it, kind, err)
	})
}

// context is a context that ends after d, or with Stop.
func (p *Pump[M, T]) context(d time.Duration) (context.Context, func()) {
	ctx, cancel := context.WithTimeout(context.Background(), d)
	go func() {
		select {
		case <-p.over:
			cancel()
		case <-ctx.Done():
		}
	}()
	return ctx, cancel
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
	p.Mu.Lock()
	defer p.Mu.Unlock()
	if p.Lines.isSilent(it.Topic, time.Now(), p.Patience) {
		p.Lines.Fail(it, Failed, fmt.Errorf("publish to %q: %w", it.Topic, ErrSilent))
		return t, false
	}
	t, known := p.Topics[it.Topic]
	if !known {
		p.lookUp(it, look, kind)
		return t, false
	}
	if !it.Fenced || id(&t) == it.Only {
		return t, true
	}
	delete(p.Topics, it.Topic) // another look tells which is right
	p.Lines.Fail(it, Failed, fmt.Errorf("publish to %q: %w", it.Topic, broker.ErrRecreated))
	return t, false
}

// lookUp looks a topic up in the background, for all messages that come meanwhile, and remembers it until the
// driver forgets it. Then they are sent. Mu is held.
func (p *Pump[M, T]) lookUp(it *Item[M], look func(context.Context, string) (T, error),
	kind func(error) Kind) {
	name := it.Topic
	p.looking[name] = append(p.looking[name], it)
	if len(p.looking[name]) > 1 {
		return
	}
	p.Go(func() {
		ctx, cancel := p.context(p.Patience / 2)
		t, err := look(ctx, name)
		late := ctx.Err() != nil
		cancel()
		k := Failed
		if err != nil {
			k = kind(err)
		}
		silent := k == Outage && late && p.Answers()
		p.Mu.Lock()
		defer p.Mu.Unlock()
		if silent {
			k, err = Failed, fmt.Errorf("%w: %w", ErrSilent, err)
			p.Lines.silent[name] = time.Now().Add(p.Patience)
		}
		items := p.looking[name]
		delete(p.looking, name)
		if err == nil {
			p.Topics[name] = t
		}
		for _, it := range items {
			if err != nil {
				p.Lines.Fail(it, k, fmt.Errorf("publish: %w", err))
			} else {
				p.Lines.Again(it)
			}
		}
	})
}
