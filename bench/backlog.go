package main

import (
	"context"
	"fmt"
	"time"

	"github.com/skald-go/skald/relay"
)

const smallBacklog = 10_000

func backlogs() comparison {
	return comparison{
		name:  "backlog",
		title: fmt.Sprintf("what a row costs to drain at a large backlog and at one of %d; rows per second, without the relay's start", smallBacklog),
		set: func(ctx context.Context, b *bench) ([]contender, error) {
			small, err := b.yard(ctx, "orders", smallBacklog)
			if err != nil {
				return nil, err
			}
			large, err := b.yard(ctx, "orders", b.backlog)
			if err != nil {
				return nil, err
			}
			return []contender{
				{name: "small",
					turn: func(ctx context.Context, m *meter) error {
						return small.whole(ctx, m, smallBacklog, 20)
					}},
				{name: "large",
					turn: func(ctx context.Context, m *meter) error {
						return large.whole(ctx, m, b.backlog, 1)
					}},
			}, nil
		},
		bars: []bar{
			{what: "cost of a row, large ÷ small", of: "large", to: []string{"small"},
				value: cost, most: 1.2},
		},
	}
}

// whole drains a backlog several times and counts from the first row that is handed over: what a relay does
// when it starts would weigh on the small backlog alone.
func (y *yard) whole(ctx context.Context, m *meter, rows, times int) error {
	m.r.Concurrency = 1
	if err := m.begin(ctx); err != nil {
		return err
	}
	var spent time.Duration
	for range times {
		s := newSink(nil, rows)
		stop, ended := start(ctx, relay.New(y.db, s, &relay.Options{Logger: quietly()}))
		select {
		case <-s.first:
		case err := <-ended:
			stop()
			return fmt.Errorf("the relay ended: %w", err)
		}
		from := time.Now()
		select {
		case <-s.full:
		case <-time.After(time.Minute + time.Duration(rows/10_000)*time.Second):
			stop()
			return fmt.Errorf("%d of %d rows came", s.acked.Load(), rows)
		}
		spent += time.Since(from)
		stop()
		if err := <-ended; err != nil {
			return err
		}
		if s.inverted > 0 {
			return fmt.Errorf("%d rows came before an earlier one", s.inverted)
		}
	}
	m.endAt(ctx, rows*times, m.a.at.Add(spent))
	return nil
}
