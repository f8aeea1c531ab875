package telemetry

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/skald-go/skald/store"
)

const (
	backlogEvery   = 30 * time.Second // the minimum time between two queries of a component
	backlogTimeout = 5 * time.Second
	backlogShare   = 50 // if queries are slow, they take at most 1/50 of the time
)

// Backlog reports the state of a database: the rows that wait in the outbox, kept messages, sagas and others.
// Relays, inboxes and outboxes all report it, because a dead relay cannot report the rows that wait for it.
type Backlog struct {
	ask  func(context.Context) (store.Backlog, error)
	mine func() bool
	now  func() time.Time

	mu     sync.Mutex
	asked  time.Time
	took   time.Duration // the duration of the last query
	known  bool
	last   store.Backlog
	labels metric.ObserveOption
	kept   map[string]*kept // by consumer, including consumers without kept messages

	reservers []string // all consumers that have had a reservation so far

	lags lags
}

// kept has the values of one consumer.
type kept struct {
	store.ConsumerBacklog
	labels, conflict, tooOld metric.ObserveOption
}

// WatchBacklog reports the backlog until the caller calls stop, and only while the function reports returns
// true. It calls the function query only when metrics are collected. It always reports the given consumers.
// It reports another consumer as soon as this consumer has kept messages. If lag is not nil, it returns the
// number of messages that wait at the broker: see lags.
func WatchBacklog(p Providers, now func() time.Time, query func(context.Context) (store.Backlog, error),
	reports func() bool, lag Lagger, consumers ...string) (stop func()) {
	b := &Backlog{ask: query, mine: reports, now: now, kept: map[string]*kept{}, lags: lags{ask: lag}}
	for _, c := range consumers {
		b.kept[c] = &kept{}
	}
	return p.meter().watch(b.read, Pending, OldestAge, Deferred, RetainedAge, FreeShards, Parked, ParkedSize,
		ParkedAge, DeadLetters, DeadSize, Quarantined, QuarantinedSize, QuarantinedAge, Calls, CallAge,
		Heard, Progress, RelayProgress, RelayBrokerAway, Lag,
		ReservedHeld, ReservedExpired, SagasLive, SagasStuck,
		SagasPaused, SagasFailing, SagaFailingAge, SagasOverdue, SagaAge,
		SagasUncounted, TrackedLive, TrackedOverdue, TrackedDrifted)
}

func (b *Backlog) read(ctx context.Context, gauge recordGauge) {
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
		return // report no value rather than an old one
	}
	gauge(Pending, float64(b.last.Pending), b.labels)
	gauge(OldestAge, b.last.Oldest.Seconds(), b.labels)
	gauge(Deferred, float64(b.last.Deferred), b.labels)
	gauge(RetainedAge, b.last.Retained.Seconds(), b.labels)
	gauge(FreeShards, float64(b.last.Free), b.labels)
	b.progress(gauge)
	b.sagas(gauge)
	b.reserved(gauge)
	b.lags.read(ctx, gauge, b.last, b.now())
	for _, k := range b.kept {
		gauge(Parked, float64(k.Parked), k.labels)
		gauge(ParkedSize, float64(k.Bytes), k.labels)
		gauge(ParkedAge, k.Oldest.Seconds(), k.labels)
		gauge(DeadLetters, float64(k.Dead), k.labels)
		gauge(DeadSize, float64(k.DeadBytes), k.labels)
		gauge(Quarantined, float64(k.Conflicts), k.conflict)
		gauge(Quarantined, float64(k.TooOld), k.tooOld)
		gauge(QuarantinedSize, float64(k.QuarantineBytes), k.labels)
		gauge(QuarantinedAge, k.QuarantineAge.Seconds(), k.labels)
		gauge(Calls, float64(k.Calls), k.labels)
		gauge(CallAge, k.OldestCall.Seconds(), k.labels)
	}
}

// progress reports the progress of consumers and relays.
func (b *Backlog) progress(gauge recordGauge) {
	for _, c := range b.last.Consumers {
		of := labelled(attribute.String(labelSource, b.last.Source), attribute.String(labelConsumer, c.Name))
		gauge(Heard, c.LastHeartbeat.Seconds(), of)
		gauge(Progress, c.Progress.Seconds(), of)
	}
	for _, r := range b.last.Relays {
		of := labelled(attribute.String(labelSource, b.last.Source), attribute.String(labelOwner, r.Owner))
		gauge(RelayProgress, r.Progress.Seconds(), of)
		gauge(RelayBrokerAway, r.BrokerAway.Seconds(), of)
	}
}

// sagas reports the numbers of orchestrated sagas by definition, and of choreographed sagas by flow.
func (b *Backlog) sagas(gauge recordGauge) {
	uncounted := 0.
	if b.last.Uncounted != nil {
		uncounted = 1
	}
	gauge(SagasUncounted, uncounted, b.labels)
	for _, c := range b.last.Sagas {
		all := b.active(gauge, SagasLive, attribute.String(labelSaga, c.Name), c.Running, c.Compensating)
		gauge(SagasStuck, float64(c.Stuck), all)
		gauge(SagasPaused, float64(c.Paused), all)
		gauge(SagasFailing, float64(c.Failing), all)
		gauge(SagaFailingAge, c.FailingFor.Seconds(), all)
		gauge(SagasOverdue, float64(c.Overdue), all)
		gauge(SagaAge, c.Oldest.Seconds(), all)
	}
	for _, c := range b.last.Tracked {
		all := b.active(gauge, TrackedLive, attribute.String(labelFlow, c.Flow), c.Running, c.Compensating)
		gauge(TrackedOverdue, float64(c.Overdue), all)
		gauge(TrackedDrifted, float64(c.Drifted), all)
	}
}

// active reports the sagas of a definition or flow that have not ended. It returns the labels for the other
// metrics of the definition or flow.
func (b *Backlog) active(gauge recordGauge, gaugeName string, name attribute.KeyValue, running,
	compensating int64) metric.ObserveOption {
	source := attribute.String(labelSource, b.last.Source)
	gauge(gaugeName, float64(running), labelled(source, name, attribute.String(labelStatus, "running")))
	gauge(gaugeName, float64(compensating), labelled(source, name, attribute.String(labelStatus, "compensating")))
	return labelled(source, name)
}

// reserved reports the numbers of reserved keys. It goes on to report a consumer without reserved keys, as
// 0, if the consumer has had some.
func (b *Backlog) reserved(gauge recordGauge) {
	counts := map[string]store.ReservedCounts{}
	for _, r := range b.last.Reserved {
		counts[r.Consumer] = r
		if !slices.Contains(b.reservers, r.Consumer) {
			b.reservers = append(b.reservers, r.Consumer)
		}
	}
	for _, consumer := range b.reservers {
		of := labelled(attribute.String(labelSource, b.last.Source),
			attribute.String(labelConsumer, consumer))
		gauge(ReservedHeld, float64(counts[consumer].Held), of)
		gauge(ReservedExpired, float64(counts[consumer].Expired), of)
	}
}

func labelled(of ...attribute.KeyValue) metric.ObserveOption {
	return metric.WithAttributeSet(attribute.NewSet(of...))
}

func (b *Backlog) refresh(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, backlogTimeout)
	defer cancel()
	got, err := b.ask(ctx)
	if err != nil {
		if b.known {
			otel.Handle(fmt.Errorf("skald: cannot report the outbox's backlog: %w", err))
		}
		b.known = false
		return
	}
	if got.Uncounted != nil && (!b.known || b.last.Uncounted == nil) {
		otel.Handle(fmt.Errorf("skald: sagas cannot be counted, so metrics and alerts lack them: %w",
			got.Uncounted))
	}
	b.known, b.last = true, got
	b.labels = metric.WithAttributeSet(attribute.NewSet(attribute.String(labelSource, got.Source)))
	for consumer, k := range b.kept {
		k.ConsumerBacklog = store.ConsumerBacklog{Consumer: consumer}
	}
	for _, now := range got.PerConsumer {
		if b.kept[now.Consumer] == nil {
			b.kept[now.Consumer] = &kept{}
		}
		b.kept[now.Consumer].ConsumerBacklog = now
	}
	for _, k := range b.kept {
		k.label(got.Source)
	}
}

func (k *kept) label(source string) {
	with := func(more ...attribute.KeyValue) metric.ObserveOption {
		more = append(more, attribute.String(labelSource, source),
			attribute.String(labelConsumer, k.Consumer))
		return metric.WithAttributeSet(attribute.NewSet(more...))
	}
	k.labels, k.conflict, k.tooOld = with(), with(attribute.String(labelOutcome, "conflict")),
		with(attribute.String(labelOutcome, "too_old"))
}

// Always is the argument mine of WatchBacklog for a component that always reports.
func Always() bool { return true }
