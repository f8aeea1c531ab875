package telemetry

import (
	"context"
	"fmt"
	"sync"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/skald-go/skald/store"
)

const (
	backlogEvery   = 30 * time.Second // a database is asked no more often by one station, whoever collects
	backlogTimeout = 5 * time.Second
)

// A Backlog reports how an outbox stands. Relay, inbox and outbox each do: a relay that is dead says nothing of
// the rows that wait for it.
type Backlog struct {
	ask  func(context.Context) (store.Backlog, error)
	mine func() bool
	now  func() time.Time

	mu     sync.Mutex
	asked  time.Time
	known  bool
	last   store.Backlog
	labels metric.ObserveOption
}

// WatchBacklog reports until stop, while it is mine to report. The database is asked when somebody collects, never
// otherwise.
func WatchBacklog(p Providers, now func() time.Time, ask func(context.Context) (store.Backlog, error), mine func() bool) (stop func()) {
	b := &Backlog{ask: ask, mine: mine, now: now}
	return p.meter().watch(b.read, Pending, OldestAge, SetAside, RetainedAge, FreeLanes)
}

func (b *Backlog) read(ctx context.Context, gauge see) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.mine() {
		b.asked, b.known = time.Time{}, false
		return
	}
	if now := b.now(); b.asked.IsZero() || now.Sub(b.asked) >= backlogEvery {
		b.asked = now
		b.refresh(ctx)
	}
	if !b.known {
		return // nothing is better than what may not be true any more
	}
	gauge(Pending, float64(b.last.Pending), b.labels)
	gauge(OldestAge, b.last.Oldest.Seconds(), b.labels)
	gauge(SetAside, float64(b.last.Aside), b.labels)
	gauge(RetainedAge, b.last.Retained.Seconds(), b.labels)
	gauge(FreeLanes, float64(b.last.Free), b.labels)
}

func (b *Backlog) refresh(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, backlogTimeout)
	defer cancel()
	got, err := b.ask(ctx)
	if err != nil {
		if b.known {
			otel.Handle(fmt.Errorf("skald: the outbox's backlog is not reported: %w", err))
		}
		b.known = false
		return
	}
	b.known, b.last = true, got
	b.labels = metric.WithAttributeSet(attribute.NewSet(attribute.String(labelSource, got.Source)))
}

// Always is whose report it is when nobody else is asked to make it.
func Always() bool { return true }
