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

// Pump sends the first message of each line, and limits the wait for answers. Drivers embed it. M is the type
// of an encoded message, and T is the driver's data about a topic.
type Pump[M, T any] struct {
	Mu       sync.Mutex
	Lines    *Lines[M]
	Topics   map[string]T  // cached results of look-ups; guarded by Mu
	Down     time.Time     // when the connection was lost; zero while it works; guarded by Mu
	Patience time.Duration // the limit of the wait for an answer

	looking  map[string][]*Item[M] // messages that wait for the look-up of their topic; guarded by Mu
	answers  func(context.Context) bool
	doubting bool // doubt is calling answers; guarded by Mu

	wake chan struct{}
	over chan struct{} // closed by Stop
	wg   sync.WaitGroup
}

// ErrSilent is wrapped by errors about a topic that does not answer although the broker answers other
// requests. Only messages of that topic fail.
var ErrSilent = errors.New("the topic does not answer, while the broker does: check its stream or queue")

// Init prepares the pump for the broker with that name. It sends no messages before Start.
func (p *Pump[M, T]) Init(name string, patience time.Duration) {
	p.Patience, p.Down = patience, time.Now()
	p.Topics, p.Lines = map[string]T{}, New[M](name, &p.Mu, p.Rouse)
	p.looking = map[string][]*Item[M]{}
	p.wake, p.over = make(chan struct{}, 1), make(chan struct{})
}

// Start calls the function send for each message that may be sent, in one goroutine.
//
// The pump calls the functions limit and overdue while it holds Mu. limit returns the maximum number of
// flying messages. overdue returns the error of a message that had no answer within Patience. The function
// answers returns true if the broker answers a request that depends on no topic.
func (p *Pump[M, T]) Start(limit func() int, send func(*Item[M]), overdue func(*Item[M]) error,
	answers func(context.Context) bool) {
	p.answers = answers
	p.Go(func() {
		for {
			p.Mu.Lock()
			it := p.Lines.Next(limit())
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

// watch fails messages that get no answer in time.
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

// doubt fails messages that have waited for half of Patience, if the broker answers other requests. Their
// topics then count as silent. The caller holds Mu.
func (p *Pump[M, T]) doubt(now time.Time) {
	late := now.Add(p.Patience / 2)
	if p.doubting || !p.Down.IsZero() || !p.Lines.anyDueBefore(late) {
		return
	}
	p.doubting = true
	p.Go(func() {
		answers := p.Answers()
		p.Mu.Lock()
		defer p.Mu.Unlock()
		p.doubting = false
		if answers && p.Down.IsZero() {
			p.Lines.markSilent(late, time.Now().Add(p.Patience))
		}
	})
}

// Answers returns true if the broker answers a request within half of Patience.
func (p *Pump[M, T]) Answers() bool {
	ctx, cancel := p.context(p.Patience / 2)
	defer cancel()
	return p.answers(ctx)
}

// Doubt answers a message that no server accepted. It answers Failed if the broker answers other requests,
// and Outage otherwise. The caller holds Mu and has called Land.
func (p *Pump[M, T]) Doubt(it *Item[M], err error) {
	p.Go(func() {
		kind := Outage
		if p.Answers() {
			kind = Failed
		}
		p.Refuse(it, kind, err)
	})
}

// context returns a context that ends after d, or when Stop is called.
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

// Go runs f in a goroutine. Stop waits for this goroutine.
func (p *Pump[M, T]) Go(f func()) { p.wg.Go(f) }

// Rouse wakes the goroutine that sends.
func (p *Pump[M, T]) Rouse() {
	select {
	case p.wake <- struct{}{}:
	default:
	}
}

// Pause waits for d, or until Rouse. It returns false after Stop.
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

// Stop ends the goroutines, and answers all messages with an outage. cut must unblock the goroutines of the
// driver.
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

// Publish queues msgs after the messages of earlier calls.
func (p *Pump[M, T]) Publish(ctx context.Context, msgs []skald.Message, only []broker.Topics,
	encode func(*skald.Message) (M, error)) broker.Pending {
	return p.Lines.Publish(ctx, msgs, only, encode)
}

// Refuse fails a message that was not sent.
func (p *Pump[M, T]) Refuse(it *Item[M], k Kind, err error) {
	p.Mu.Lock()
	defer p.Mu.Unlock()
	p.Lines.Fail(it, k, err)
}

// Overdue returns true if a message that was not sent must fail. It has waited for Patience since it was
// published, or since the connection was lost if that is later. It also returns true if the call's context
// has ended, or after Stop.
func (p *Pump[M, T]) Overdue(it *Item[M]) bool {
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

// Aim returns the topic of a message, with ok true if the message can be sent now. Otherwise Aim fails the
// message, or puts it back until the topic is known. The function look requests an unknown topic, and the
// function kind classifies its error. The function id returns the id of a topic; a recreated topic has
// another id.
func (p *Pump[M, T]) Aim(item *Item[M], look func(context.Context, string) (T, error), kind func(error) Kind,
	id func(*T) string) (t T, ok bool) {
	if err := item.Context().Err(); err != nil {
		p.Refuse(item, Outage, fmt.Errorf("publish: %w", err))
		return t, false
	}
	if item.Err != nil {
		p.Refuse(item, Refused, item.Err)
		return t, false
	}
	p.Mu.Lock()
	defer p.Mu.Unlock()
	if p.Lines.isSilent(item.Topic, time.Now(), p.Patience) {
		p.Lines.Fail(item, Failed, fmt.Errorf("publish to %q: %w", item.Topic, ErrSilent))
		return t, false
	}
	t, known := p.Topics[item.Topic]
	if !known {
		p.lookUp(item, look, kind)
		return t, false
	}
	if !item.Fenced || id(&t) == item.Only {
		return t, true
	}
	delete(p.Topics, item.Topic) // the cached id may be outdated, so the next message requests it again
	p.Lines.Fail(item, Failed, fmt.Errorf("publish to %q: %w", item.Topic, broker.ErrRecreated))
	return t, false
}

// lookUp requests a topic in the background, once for all messages that wait for it. It caches the result
// until the driver removes it. Then the messages are sent. The caller holds Mu.
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
				p.Lines.SendLast(it)
			}
		}
	})
}
