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
	backlogShare   = 50 // and for no more than a fiftieth of the time, if the answer takes long
)

// A Backlog reports how an outbox stands. Relay, inbox and outbox each do: a relay that is dead says nothing of
// the rows that wait for it.
type Backlog struct {
	ask  func(context.Context) (store.Backlog, error)
	mine func() bool
	now  func() time.Time

	mu     sync.Mutex
	asked  time.Time
	took   time.Duration // the answer
	known  bool
	last   store.Backlog
	labels metric.ObserveOption
	kept   map[string]*kept // by consumer, those that nothing is kept for any more, too
}

// A kept is what is reported of one consumer.
type kept struct {
	store.Kept
	labels, conflict, tooOld metric.ObserveOption
}

// WatchBacklog reports until stop, while it is mine to report. The database is asked when somebody collects, never
// otherwise. Of consumers it reports in any case, of others once something is kept for them.
func WatchBacklog(p Providers, now func() time.Time, ask func(context.Context) (store.Backlog, error), mine func() bool, consumers ...string) (stop func()) {
	b := &Backlog{ask: ask, mine: mine, now: now, kept: map[string]*kept{}}
	for _, c := range consumers {
		b.kept[c] = &kept{}
	}
	return p.meter().watch(b.read, Pending, OldestAge, SetAside, RetainedAge, FreeLanes, Parked, ParkedSize, ParkedAge, DeadLetters, Quarantined, QuarantinedAge, Calls, CallAge)
}

func (b *Backlog) read(ctx context.Context, gauge see) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.mine() {
		b.asked, b.known = time.Time{}, false
		return
	}
	if now := b.now(); b.asked.IsZero() || now.Sub(b.asked) >= max(backlogEvery, backlogShare*b.took) {
		b.asked = now
		b.refresh(ctx)
		b.took = b.now().Sub(now)
	}
	if !b.known {
		return // nothing is better than what may not be true any more
	}
	gauge(Pending, float64(b.last.Pending), b.labels)
	gauge(OldestAge, b.last.Oldest.Seconds(), b.labels)
	gauge(SetAside, float64(b.last.Aside), b.labels)
	gauge(RetainedAge, b.last.Retained.Seconds(), b.labels)
	gauge(FreeLanes, float64(b.last.Free), b.labels)
	for _, k := range b.kept {
		gauge(Parked, float64(k.Parked), k.labels)
		gauge(ParkedSize, float64(k.Bytes), k.labels)
		gauge(ParkedAge, k.Oldest.Seconds(), k.labels)
		gauge(DeadLetters, float64(k.Dead), k.labels)
		gauge(Quarantined, float64(k.Conflicts), k.conflict)
		gauge(Quarantined, float64(k.TooOld), k.tooOld)
		gauge(QuarantinedAge, k.Apart.Seconds(), k.labels)
		gauge(Calls, float64(k.Calls), k.labels)
		gauge(CallAge, k.Called.Seconds(), k.labels)
	}
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
	for consumer, k := range b.kept {
		k.Kept = store.Kept{Consumer: consumer}
	}
	for _, now := range got.Kept {
		if b.kept[now.Consumer] == nil {
			b.kept[now.Consumer] = &kept{}
		}
		b.kept[now.Consumer].Kept = now
	}
	for _, k := range b.kept {
		k.label(got.Source)
	}
}

func (k *kept) label(source string) {
	with := func(more ...attribute.KeyValue) metric.ObserveOption {
		more = append(more, attribute.String(labelSource, source), attribute.String(labelConsumer, k.Consumer))
		return metric.WithAttributeSet(attribute.NewSet(more...))
	}
	k.labels, k.conflict, k.tooOld = with(), with(attribute.String(labelOutcome, "conflict")), with(attribute.String(labelOutcome, "too_old"))
}

// Always is whose report it is when nobody else is asked to make it.
func Always() bool { return true }
