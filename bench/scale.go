package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/broker"
)

// scaled are members of a group, and partitions of a topic.
func scaled() [][2]int {
	return [][2]int{{1, 1}, {1, 16}, {1, 64}, {2, 16}, {4, 16}, {8, 16}, {8, 64}}
}

// pace is how many messages a second the latency is measured with: far below what any broker can.
const pace = 200

// scales measures one group with 1 to 8 members, each a client by itself, and 1 to 64 partitions: what it
// takes in a second, and the time from the call to Publish until Receive gives the message, at a small rate.
func scales(p product) comparison {
	c := p.on("broker-scale",
		fmt.Sprintf("members of a group, and partitions: a full topic per second, and from Publish until Receive gives it at %d a second", pace), nil,
		func(ctx context.Context, w *wire) (out []contender, err error) {
			full, empty := map[int]string{}, map[int]string{}
			for _, s := range scaled() {
				if full[s[1]] == "" {
					if full[s[1]], err = w.filled(ctx, s[1]); err != nil {
						return nil, err
					}
					if empty[s[1]], err = w.topic(ctx, s[1]); err != nil {
						return nil, err
					}
				}
				members, partitions := s[0], s[1]
				out = append(out, contender{name: scaleName(members, partitions),
					turn: func(ctx context.Context, m *meter) error {
						m.r.Concurrency = members
						lat, err := w.delays(ctx, empty[partitions], members, partitions)
						if err != nil {
							return err
						}
						if err := m.on(ctx, w, full[partitions],
							taker{ours, w.rows, w.members(full[partitions], members)}); err != nil {
							return err
						}
						m.r.latencies(lat)
						return nil
					}})
			}
			return out, nil
		})
	one := scaleName(1, 16)
	c.bars = []bar{
		{what: "8 members ÷ 1", of: scaleName(8, 16), to: []string{one}, value: perSecond},
		{what: "64 partitions ÷ 16", of: scaleName(1, 64), to: []string{one}, value: perSecond},
	}
	return c
}

func scaleName(members, partitions int) string {
	return fmt.Sprintf("%d of %d partitions", members, partitions)
}

// delays has members wait, once each has its share of the partitions, for messages that come one by one.
func (w *wire) delays(ctx context.Context, topic string, members,
	partitions int) (lat []time.Duration, err error) {
	ctx, cancel := context.WithTimeout(ctx, 3*w.b.limit)
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel()
	group := broker.Group{Name: name(), Topics: []string{topic}}
	ears, errs := make([]*ear, members), make(chan error, members)
	came := make(chan skald.Message, pace)
	for i := range ears {
		ears[i] = &ear{}
		wg.Go(func() {
			if err := ears[i].listen(ctx, w, group, came); err != nil && ctx.Err() == nil {
				errs <- err
			}
		})
	}
	bus, err := w.open()
	if err != nil {
		return nil, err
	}
	defer bus.Close()
	tick := time.NewTicker(time.Second / pace)
	defer tick.Stop()
	var begun time.Time
	for sent := 0; len(lat) < pace; {
		select {
		case <-tick.C:
			if begun.IsZero() && shared(ears, partitions) {
				begun = time.Now().UTC()
			}
			if begun.IsZero() || sent == pace {
				continue
			}
			m := newMessage(int64(sent), []byte("x"))
			m.Topic, m.Time = topic, time.Now().UTC()
			bus.Publish(ctx, []skald.Message{m}) // what fails does not come
			sent++
		case m := <-came:
			if !begun.IsZero() && !m.Time.Before(begun) { // else it is of a turn before
				lat = append(lat, time.Since(m.Time))
			}
		case err := <-errs:
			return nil, err
		case <-ctx.Done():
			return nil, fmt.Errorf("%d of %d came: %w", len(lat), pace, ctx.Err())
		}
	}
	return lat, nil
}

// An ear is a member that hands on what it hears.
type ear struct{ partitions atomic.Int64 }

// shared: each ear has its share, and all partitions are somebody's.
func shared(ears []*ear, partitions int) bool {
	sum := 0
	for _, e := range ears {
		n := int(e.partitions.Load())
		if n < partitions/len(ears) {
			return false
		}
		sum += n
	}
	return sum == partitions
}

func (e *ear) listen(ctx context.Context, w *wire, g broker.Group, came chan<- skald.Message) error {
	bus, err := w.open()
	if err != nil {
		return err
	}
	defer bus.Close()
	sub, err := joined(ctx, bus, g)
	if err != nil {
		return err
	}
	for {
		select {
		case <-sub.Ready():
		case <-ctx.Done():
			return nil
		}
		b, err := sub.Receive(ctx, 500)
		if err != nil {
			return err
		}
		e.partitions.Add(int64(len(b.Gained) - len(b.Lost)))
		for _, d := range b.Deliveries {
			select {
			case came <- d.Message:
			case <-ctx.Done():
				return nil
			}
		}
		if err := sub.Ack(ctx, b.Deliveries); err != nil {
			return err
		}
	}
}

// joined subscribes, as an inbox does: again while the broker cannot.
func joined(ctx context.Context, bus broker.Subscriber, g broker.Group) (broker.Subscription, error) {
	for {
		sub, err := bus.Subscribe(ctx, g)
		if !errors.Is(err, broker.ErrUnavailable) {
			return sub, err
		}
		select {
		case <-ctx.Done():
			return nil, err
		case <-time.After(100 * time.Millisecond):
		}
	}
}
