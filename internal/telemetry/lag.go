package telemetry

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"

	"github.com/skald-go/skald/store"
)

const lagEvery = 15 * time.Second // the minimum time between two queries of a component

// Lagger returns the number of messages of each topic that wait for a consumer at the broker. It returns
// ErrNotMine for a consumer that another process reports.
type Lagger func(ctx context.Context, consumer string, topics []string) (map[string]int64, error)

// ErrNotMine is the error of a Lagger for a consumer that another process reports.
var ErrNotMine = errors.New("another process reports this")

// lags reports the number of messages that wait at the broker for each consumer of the database. Every
// process with a connection to the broker reports the same values, so that they include consumers without a
// running process.
type lags struct {
	ask   Lagger // nil without a broker
	asked time.Time
	last  []lag
	told  bool // true if the last query failed, and the error was reported
}

type lag struct {
	consumer, topic string
	n               int64
}

func (l *lags) read(ctx context.Context, gauge recordGauge, b store.Backlog, now time.Time) {
	if l.ask == nil {
		return
	}
	if l.asked.IsZero() || now.Sub(l.asked) >= lagEvery {
		l.asked = now
		l.refresh(ctx, b)
	}
	for _, one := range l.last {
		gauge(Lag, float64(one.n), labelled(attribute.String(labelSource, b.Source),
			attribute.String(labelConsumer, one.consumer), attribute.String(labelTopic, one.topic)))
	}
}

func (l *lags) refresh(ctx context.Context, b store.Backlog) {
	ctx, cancel := context.WithTimeout(ctx, backlogTimeout)
	defer cancel()
	l.last = l.last[:0]
	var failed error
	for _, c := range b.Consumers {
		if len(c.Topics) == 0 {
			continue
		}
		waits, err := l.ask(ctx, c.Name, c.Topics)
		if err != nil && !errors.Is(err, ErrNotMine) {
			failed = err
			continue
		}
		for topic, n := range waits {
			l.last = append(l.last, lag{c.Name, topic, n})
		}
	}
	if failed != nil && !l.told {
		otel.Handle(fmt.Errorf("skald: cannot report the messages waiting at the broker: %w", failed))
	}
	l.told = failed != nil
}
