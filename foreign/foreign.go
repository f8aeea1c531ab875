// Package foreign publishes the rows of an existing outbox table in PostgreSQL that is not Skald's. A Table
// maps its columns to messages, and describes how a published row is marked.
//
//	your tx ─► your table ─► [foreign] ─► broker ─► inbox ─► …
//
// A relay publishes a page of rows in one transaction: page.go locks and reads the rows, message.go builds
// messages, and publish.go sends them to the broker. The rows that the broker acknowledged are then marked
// or deleted in one statement. If a row cannot be published, deferred.go defers its key, and other rows
// continue. relay.go is the loop.
//
// A Relay is no store.Source: a Source has columns for commit order, shards, leases and a stored position,
// and a foreign table has none of them.
package foreign

import (
	"cmp"
	"database/sql"
	"embed"
	"log/slog"
	"sync"
	"time"

	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/broker"
	"github.com/skald-go/skald/internal/backoff"
	"github.com/skald-go/skald/internal/shortlog"
	"github.com/skald-go/skald/internal/telemetry"
)

//go:embed sql
var files embed.FS

// Options configures a Relay. The zero value works.
type Options struct {
	// Owner is the name of this instance in logs and metrics. Default: the table's name.
	Owner string
	// MaxPollInterval is the longest pause between two polls. Default 250 ms. The pause is a twentieth of
	// the time since the last row, from 5 ms on. A slow poll, without an index, is followed by a pause ten
	// times as long.
	MaxPollInterval time.Duration
	// Page is the number of rows that are locked, published and marked together. Default 500.
	Page int
	// Patience limits the wait for the broker's answer to a page. Then its rows are unlocked. Default 20 s.
	Patience time.Duration
	// RetryFirst and RetryMost are the first and the longest delay after a failure of the database or the
	// broker. Defaults 100 ms and 5 s.
	RetryFirst, RetryMost time.Duration
	// DeferFirst and DeferMost are the first and the longest delay of a deferred row, key or topic.
	// Defaults 1 s and 60 s.
	DeferFirst, DeferMost time.Duration
	// Drain limits the wait for the current page after the context of Run is done. Default 20 s.
	Drain time.Duration

	Now    func() time.Time // for waits. Default time.Now
	Logger *slog.Logger     // ids, never payloads. Default slog.Default()

	MeterProvider  metric.MeterProvider // default OpenTelemetry's global one
	TracerProvider trace.TracerProvider // for a span of each call to the broker. Default the global one
}

func (o *Options) orDefaults(t *Table) Options {
	var d Options
	if o != nil {
		d = *o
	}
	d.Owner = cmp.Or(d.Owner, t.Name)
	d.MaxPollInterval = cmp.Or(d.MaxPollInterval, 250*time.Millisecond)
	d.Page = cmp.Or(d.Page, 500)
	d.Patience = cmp.Or(d.Patience, 20*time.Second)
	d.RetryFirst = cmp.Or(d.RetryFirst, 100*time.Millisecond)
	d.RetryMost = cmp.Or(d.RetryMost, 5*time.Second)
	d.DeferFirst = cmp.Or(d.DeferFirst, time.Second)
	d.DeferMost = cmp.Or(d.DeferMost, time.Minute)
	d.Drain = cmp.Or(d.Drain, 20*time.Second)
	if d.Now == nil {
		d.Now = time.Now
	}
	if d.Logger == nil {
		d.Logger = slog.Default()
	}
	d.Logger = shortlog.New(d.Logger)
	return d
}

// Relay publishes the rows of one Table.
type Relay struct {
	db    *sql.DB
	bus   broker.Publisher
	table Table
	o     Options
	tel   *telemetry.Relay

	// The fields below belong to the goroutine of Run or Step.
	text     *statements // nil until the table is checked
	deferred deferred
	pending  broker.Pending // an abandoned call: the next one must wait for its answer
	some     bool           // the last page had rows, so there may be more
	limit    int            // rows of the next page
	unmarked int            // consecutive pages that were published and not marked
	proved   bool           // the broker answered the last call
	say      backoff.LogLimit

	mu     sync.Mutex
	health Health
}

var (
	_ skald.Runner  = (*Relay)(nil)
	_ skald.Stepper = (*Relay)(nil)
)

// New returns a relay from the table, in the database db, to bus. Run or the first Step compares the table
// with t.
func New(db *sql.DB, t Table, bus broker.Publisher, o *Options) *Relay {
	d := o.orDefaults(&t)
	return &Relay{
		db: db, bus: bus, table: t, o: d, deferred: newDeferred(&d), limit: d.Page,
		tel:    telemetry.NewRelay(telemetry.Providers{Meter: d.MeterProvider, Tracer: d.TracerProvider}),
		say:    backoff.LogLimit{First: 20 * time.Second, Most: 10 * time.Minute},
		health: Health{Live: true, Why: "not started yet"},
	}
}

// Health is the state of a relay. During an outage of the database or the broker it is live, but not ready.
type Health struct {
	Live  bool   // false only when Run has ended
	Ready bool   // database and broker answer; also true in standby
	Why   string // why it is not ready
	// Standby reports that another relay works on the table.
	Standby bool
	// Published counts the messages that this process published, including repeats.
	Published int64
	// Deferred is the number of rows, keys and topics that are deferred now.
	Deferred int
}

// Health returns the state. It may be called at any time from any goroutine.
func (r *Relay) Health() Health {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.health
}

// Status returns the state for skald.Run and package health.
func (r *Relay) Status() skald.Status {
	h := r.Health()
	return skald.Status{Name: "relay of " + r.table.Name, Stage: skald.Publishing, Live: h.Live,
		Ready: h.Ready, Why: h.Why}
}

func (r *Relay) note(f func(*Health)) {
	r.mu.Lock()
	f(&r.health)
	r.mu.Unlock()
}
