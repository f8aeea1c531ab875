package saga

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"

	"go.opentelemetry.io/otel/metric"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/inbox"
	"github.com/skald-go/skald/internal/saga/engine"
	"github.com/skald-go/skald/internal/telemetry"
)

// EngineOptions has the options of an Engine. The zero value works.
type EngineOptions struct {
	// Workers limits the open transactions. Default 16. External calls do not hold a transaction.
	Workers int
	// MaxSagas limits the sagas in progress in this engine. Default 4,096.
	MaxSagas int
	// Lease is the time after which another engine may take over the sagas of an engine that does not answer.
	// An external call extends the lease by the call's timeout. Default 10 s.
	Lease time.Duration
	// MaxPollInterval is the longest pause between two polls. A poll finds sagas that became due through
	// writes of other processes. Default 8 s. The pause is a twentieth of the time since a poll last found a
	// saga, so it grows while the engine is idle.
	//
	// Timers and writes of this process need no poll. With pgstore.Options.Notify and a Listener, writes of
	// other processes need none either.
	MaxPollInterval time.Duration
	// Drain limits the time that Run waits for steps in progress after its context is done. Default 20 s.
	Drain time.Duration
	// OutageRetryTime is the time for which transient failures of a step, or of its undo, are retried without
	// counting as attempts. Later failures count, unless the database does not answer a probe. Default 10
	// min. The waits are those of Policy.
	//
	// Transient failures are: skald.Outage, a lost connection, a deadlock (40P01), a serialization failure
	// (40001), a lock timeout (55P03), a cancelled statement or transaction (57014, 25P04), and a statement
	// cancelled by the function's own context.
	OutageRetryTime time.Duration

	Now    func() time.Time           // for pauses; times of sagas use the database's clock. Default time.Now
	NewID  func(now time.Time) string // ids of sagas. Default UUIDs of version 7
	Logger *slog.Logger               // gets keys and ids, never inputs or outputs. Default slog.Default()
	// MeterProvider receives the metrics. Default: OpenTelemetry's global provider.
	MeterProvider metric.MeterProvider
}

func (o *EngineOptions) orDefaults() engine.Options {
	var d EngineOptions
	if o != nil {
		d = *o
	}
	if d.Now == nil {
		d.Now = time.Now
	}
	if d.Logger == nil {
		d.Logger = slog.Default()
	}
	return engine.Options{Workers: cmp.Or(max(d.Workers, 0), 16), MaxSagas: cmp.Or(max(d.MaxSagas, 0), 4096),
		Lease:           cmp.Or(max(d.Lease, 0), 10*time.Second),
		PollMost:        cmp.Or(max(d.MaxPollInterval, 0), 8*time.Second),
		Drain:           cmp.Or(max(d.Drain, 0), 20*time.Second),
		OutageRetryTime: cmp.Or(max(d.OutageRetryTime, 0), 10*time.Minute),
		Now:             d.Now, NewID: d.NewID, Logger: d.Logger,
		Metrics: telemetry.NewSaga(telemetry.Providers{Meter: d.MeterProvider})}
}

// DB is the database of an engine: pgstore, sqlitestore or memstore.
type DB[TTx any] = engine.DB[TTx]

// Engine starts sagas. While Run runs, it also runs them. Any number of engines can share a database. Each
// engine runs only sagas of its own definitions.
type Engine[TTx any] struct {
	db   DB[TTx]
	core *engine.Engine[TTx]
}

// NewEngine returns an engine for these definitions and the definitions of their children. It returns one
// error with all faults: those of each definition, steps with another transaction type than db, and
// definitions with the same name.
func NewEngine[TTx any](db DB[TTx], o *EngineOptions, defs ...Defined) (*Engine[TTx], error) {
	all := map[string]*engine.Definition{}
	var faults []error
	for i, d := range defs {
		switch {
		case d == nil || reflect.ValueOf(d).IsNil():
			faults = append(faults, fmt.Errorf("definition %d is nil", i+1))
		case d.Faults() != nil:
			faults = append(faults, d.Faults())
		default:
			faults = append(faults, gather[TTx](all, d.Body())...)
		}
	}
	known := slices.SortedFunc(maps.Values(all),
		func(a, b *engine.Definition) int { return strings.Compare(a.Name, b.Name) })
	if len(faults) == 0 {
		faults = replyFaults(known...)
	}
	if len(faults) > 0 {
		return nil, fmt.Errorf("saga: these definitions cannot be run: %w", errors.Join(faults...))
	}
	return &Engine[TTx]{db: db, core: engine.New(db, o.orDefaults(), known)}, nil
}

// gather adds a definition and its children to definitions, and returns the faults that it finds.
func gather[TTx any](definitions map[string]*engine.Definition, d *engine.Definition) (faults []error) {
	if was, ok := definitions[d.Name]; ok {
		if was != d {
			faults = append(faults, fmt.Errorf("two definitions have the name %q", d.Name))
		}
		return faults
	}
	definitions[d.Name] = d
	for i := range d.Steps {
		name := d.Plan.Graph.Steps[i].Name
		if tx := d.Steps[i].Tx; tx != nil && !engine.AnyTx(tx) &&
			tx.Type() != reflect.TypeFor[TTx]() {
			faults = append(faults, fmt.Errorf("saga %q: step %q takes %v, and this database has %v", d.Name,
				name, tx.Type(), reflect.TypeFor[TTx]()))
		}
		if c := d.Steps[i].Child; c != nil {
			faults = append(faults, gather[TTx](definitions, c.Definition)...)
		}
	}
	return faults
}

// Run runs sagas until ctx is done. Then it begins no more steps, waits for steps in progress for at most
// EngineOptions.Drain, and releases its sagas. If a function ignores the end of its context, Run rolls back
// the function's writes, and returns two seconds later although the function still runs. During an outage Run
// waits for the database. It returns an error only for a problem that does not end by waiting, such as
// missing tables.
func (e *Engine[TTx]) Run(ctx context.Context) error { return e.core.Run(ctx) }

// Step claims the due sagas, and runs each as far as possible in the caller's goroutine. It returns
// busy=false if no saga was due. Use it in tests that control the order of events; programs call Run.
func (e *Engine[TTx]) Step(ctx context.Context) (busy bool, err error) { return e.core.Step(ctx) }

// OtherError is the error of a start if the key already has a saga with a different input.
type OtherError = engine.OtherError

// Answers registers handlers on the inbox consumer, for the replies of participants to the commands of the
// engine's sagas. Use a separate inbox on the same database. The engine need not run in this process.
//
// An inbox can handle several replies of one topic in one transaction (inbox.Options.Batch). It then writes
// each saga once. If only Commands come next, the same transaction emits them. If no step comes next, the
// transaction ends the saga. So the function that makes a Command's payload also runs in the process of the
// inbox. If this function fails or takes longer than 250 ms, the inbox only stores the reply, and the
// engine calls the function again.
func (e *Engine[TTx]) Answers(consumer *inbox.Inbox[TTx]) {
	types := map[string][]string{}
	for _, k := range e.core.Replies() {
		types[k.Topic] = append(types[k.Topic], k.Type)
	}
	for _, topic := range slices.Sorted(maps.Keys(types)) {
		consumer.HandleBatch(topic, e.replied, types[topic]...)
	}
}

func (e *Engine[TTx]) replied(ctx context.Context, tx TTx, ms []skald.Message) error {
	guilty, err := e.core.ReplyAll(ctx, tx, ms)
	if err != nil && guilty >= 0 {
		return inbox.FailMessage(guilty, err)
	}
	return err
}

// ReplyKind is the topic and the type of a reply.
type ReplyKind struct{ Topic, Type string }

// Replies returns the topics and types of all replies to the commands of the engine's sagas.
func (e *Engine[TTx]) Replies() []ReplyKind {
	ks := e.core.Replies()
	out := make([]ReplyKind, len(ks))
	for i, k := range ks {
		out[i] = ReplyKind(k)
	}
	return out
}

// Health is the state of an engine. The counts begin at zero when the engine is created. During an outage of
// the database the engine is live but not ready, because a restart would not help. docs/operations.md lists
// the state for each fault, and its delay.
type Health struct {
	Live       bool   // false only after Run has ended
	Ready      bool   // the engine claims sagas, and the database answers
	Why        string // why the engine is not ready: one line, the innermost cause first
	InProgress int    // sagas in progress in this engine

	Done, Compensated int64 // sagas that ended in this engine
	TakenOver         int64 // sagas taken over from processes that ended
	Refused           int64 // claims of sagas that this build cannot run; see Compare
	Alarms            int64 // events that need an operator
	// Replies and Signals are counts by result: taken, early, full, repeat, late, too late, unknown, foreign
	// or orphan.
	Replies, Signals map[string]int64
}

// Health returns the state of the engine.
func (e *Engine[TTx]) Health() Health {
	h := e.core.Health()
	out := Health{Live: h.Live, Ready: h.Ready, Why: h.Why, InProgress: h.InProgress, Done: h.Done,
		Compensated: h.Compensated, TakenOver: h.TakenOver, Refused: h.Refused,
		Alarms: h.Alarms, Replies: map[string]int64{}, Signals: map[string]int64{}}
	for k, n := range h.Replies {
		out.Replies[string(k)] = n
	}
	for k, n := range h.Signals {
		out.Signals[string(k)] = n
	}
	return out
}

// Status returns the engine's state for skald.Run and package health.
func (e *Engine[TTx]) Status() skald.Status {
	h := e.core.Health()
	return skald.Status{Name: "saga engine", Stage: skald.Handling, Live: h.Live, Ready: h.Ready, Why: h.Why}
}
