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

// EngineOptions of an Engine. The zero value works.
type EngineOptions struct {
	// Workers is how many transactions may be open at a time. Default 16. Requests to the outside need none.
	Workers int
	// InHand bounds the sagas that are worked on at a time. Default 4,096.
	InHand int
	// Lease is how long a saga stays with an engine that does not answer any more, before another one takes
	// it over. Requests to the outside have as much more as they may take. Default 10 s.
	Lease time.Duration
	// MaxPollInterval is the longest pause between two looks for sagas that became due by a write of another
	// process. Default 8 s. The pause grows with idleness, and is a twentieth of the time since something was
	// found. Times are known, and writes in this process are seen at once, as are those of others with
	// pgstore.Options.Notify and a Listener.
	MaxPollInterval time.Duration
	// Drain bounds how long Run goes on with what was begun once its context is done. Default 20 s.
	Drain time.Duration
	// Uncharged is how long failures of a step, or of its undo, by what may pass are free: skald.Outage, a
	// lost connection, a deadlock (40P01), a serialization failure (40001), a lock timeout (55P03), a
	// cancelled statement or transaction (57014, 25P04), a context of the function's own that ended in a
	// statement. They wait as Policy says. After that they are charged, unless the database does not answer a
	// probe. Default 10 min.
	Uncharged time.Duration

	Now    func() time.Time           // for waits; times of sagas are by the store's clock. Default time.Now
	NewID  func(now time.Time) string // ids of sagas. Default UUIDs of version 7
	Logger *slog.Logger               // keys and ids, never inputs or outputs. Default slog.Default()
	// MeterProvider takes the metrics. Default: OpenTelemetry's global one.
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
	return engine.Options{Workers: cmp.Or(max(d.Workers, 0), 16), InHand: cmp.Or(max(d.InHand, 0), 4096),
		Lease:     cmp.Or(max(d.Lease, 0), 10*time.Second),
		PollMost:  cmp.Or(max(d.MaxPollInterval, 0), 8*time.Second),
		Drain:     cmp.Or(max(d.Drain, 0), 20*time.Second),
		Uncharged: cmp.Or(max(d.Uncharged, 0), 10*time.Minute),
		Now:       d.Now, NewID: d.NewID, Logger: d.Logger,
		Metrics: telemetry.NewSaga(telemetry.Providers{Meter: d.MeterProvider})}
}

// DB is a store that keeps sagas: that of pgstore, sqlitestore or memstore.
type DB[TTx any] = engine.DB[TTx]

// Engine starts sagas, and runs them while Run does. Any number of engines share a database: each takes
// the definitions that it knows.
type Engine[TTx any] struct {
	db   DB[TTx]
	core *engine.Engine[TTx]
}

// NewEngine is an engine of these definitions, with their children's. It refuses those that have faults, that
// take another kind of transactions than db has, or of which two have one name; all that is wrong is in one
// error.
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

// gather adds a definition and its children to all.
func gather[TTx any](all map[string]*engine.Definition, d *engine.Definition) (faults []error) {
	if was, ok := all[d.Name]; ok {
		if was != d {
			faults = append(faults, fmt.Errorf("two definitions have the name %q", d.Name))
		}
		return faults
	}
	all[d.Name] = d
	for i := range d.Steps {
		name := d.Plan.Graph.Steps[i].Name
		if tx := d.Steps[i].Tx; tx != nil && !engine.AnyTx(tx) &&
			tx.Type() != reflect.TypeFor[TTx]() {
			faults = append(faults, fmt.Errorf("saga %q: step %q takes %v, and this database has %v", d.Name,
				name, tx.Type(), reflect.TypeFor[TTx]()))
		}
		if c := d.Steps[i].Child; c != nil {
			faults = append(faults, gather[TTx](all, c.Definition)...)
		}
	}
	return faults
}

// Run runs sagas until ctx is done. Then it begins no more steps, waits for those under way, for at most
// EngineOptions.Drain, and gives its sagas back. A function that does not end with its context is waited for
// longer: nothing that it did stands. Outages of the database are waited for. It returns an error
// only for what waiting cannot cure.
func (e *Engine[TTx]) Run(ctx context.Context) error { return e.core.Run(ctx) }

// Step takes up the sagas that are due and goes on with each as far as it can, in this goroutine. It is for
// tests that decide what happens when; a program calls Run.
func (e *Engine[TTx]) Step(ctx context.Context) (busy bool, err error) { return e.core.Step(ctx) }

// OtherError refuses to start a saga under the key of one that was started with another input.
type OtherError = engine.OtherError

// Answers has in handle the replies of participants to the commands of the engine's sagas. It is one more
// consumer: give it an inbox of its own, over the same database. The engine need not run in this process.
// Replies of one topic that share a transaction by inbox.Options.Batch write each of their sagas once. The
// same transaction emits the Commands that follow, if each step that comes next is one, and ends the saga if
// no step does. So a Command's request function runs in the process of the inbox too. If it fails, or takes
// longer than 250 ms, the reply is taken and the engine calls the function again.
func (e *Engine[TTx]) Answers(in *inbox.Inbox[TTx]) {
	types := map[string][]string{}
	for _, k := range e.core.Replies() {
		types[k.Topic] = append(types[k.Topic], k.Type)
	}
	for _, topic := range slices.Sorted(maps.Keys(types)) {
		in.HandleBatch(topic, e.replied, types[topic]...)
	}
}

func (e *Engine[TTx]) replied(ctx context.Context, tx TTx, ms []skald.Message) error {
	guilty, err := e.core.ReplyAll(ctx, tx, ms)
	if err != nil && guilty >= 0 {
		return inbox.Guilty(guilty, err)
	}
	return err
}

// ReplyKind is a topic and a type of replies.
type ReplyKind struct{ Topic, Type string }

// Replies are the topics and types of all replies to the commands of the engine's sagas.
func (e *Engine[TTx]) Replies() []ReplyKind {
	ks := e.core.Replies()
	out := make([]ReplyKind, len(ks))
	for i, k := range ks {
		out[i] = ReplyKind(k)
	}
	return out
}

// Health is how an engine stands. Counts are since it was made. An outage of the database makes it not ready,
// never not live: a restart cures none. docs/operations.md has what is reported for each fault, and how soon.
type Health struct {
	Live   bool   // false only when Run has ended
	Ready  bool   // it claims sagas: the database answers
	Why    string // it is not ready: one line, the innermost cause first
	InHand int    // sagas that it works on now

	Done, Compensated int64 // sagas that ended here
	TakenOver         int64 // from processes that ended
	Refused           int64 // claims of sagas that this build cannot take on: see Compare
	Alarms            int64 // that somebody has to look at
	// Replies and Signals are counts by result: taken, early, repeat, late, too late, unknown, foreign,
	// orphan.
	Replies, Signals map[string]int64
}

// Health tells how the engine stands.
func (e *Engine[TTx]) Health() Health {
	h := e.core.Health()
	out := Health{Live: h.Live, Ready: h.Ready, Why: h.Why, InHand: h.InHand, Done: h.Done,
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

// Status returns the state for skald.Run and package health.
func (e *Engine[TTx]) Status() skald.Status {
	h := e.core.Health()
	return skald.Status{Name: "saga engine", Stage: skald.Handling, Live: h.Live, Ready: h.Ready, Why: h.Why}
}
