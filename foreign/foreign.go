// Package foreign publishes the rows of an outbox table in PostgreSQL that another program defined. A Table
// maps the columns to messages, and describes how published rows are marked.
//
//	your tx ─► your table ─► [foreign] ─► broker ─► inbox ─► …
//
// A relay publishes a page of rows in one transaction. It locks and reads the rows (page.go), builds messages
// (message.go), and publishes them (publish.go). Then it marks or deletes the acknowledged rows in one
// statement. If a row cannot be published, the relay defers its key, and continues with other rows
// (deferred.go). The loop is in relay.go.
//
// A Relay does not use store.Source. A Source needs columns for the commit order, shards, leases and a stored
// position, and another program's table does not have them.
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
	// Owner is the name of this instance in logs and metrics. Default: the name of the table.
	Owner string
	// MaxPollInterval is the longest pause between two polls. Default 250 ms. The pause is a twentieth of the
	// time since the last row, and at least 5 ms. After a slow poll, for example without an index, the pause
	// is ten times the duration of the poll, at most one minute.
	MaxPollInterval time.Duration
	// Page is the maximum number of rows that are locked, published and marked together. Default 500.
	Page int
	// Patience limits the wait for the broker's answer to a page. After it, the rows are unlocked. Default 20
	// s.
	Patience time.Duration
	// RetryFirst and RetryMost are the first and the longest delay after a failure of the database or the
	// broker. Defaults 100 ms and 5 s.
	RetryFirst, RetryMost time.Duration
	// DeferFirst and DeferMost are the first and the longest delay of a deferred row, key or topic.
	// Defaults 1 s and 60 s.
	DeferFirst, DeferMost time.Duration
	// Drain limits the wait for the current page after the context of Run is done. Default 20 s.
	Drain time.Duration

	Now    func() time.Time // the clock for waits. Default time.Now
	Logger *slog.Logger     // log lines contain IDs, never payloads. Default slog.Default()

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

	// Only the goroutine of Run or Step uses the fields below.
	text     *statements // nil until the table is checked
	deferred deferred
	pending  broker.Pending // a call without an answer; the next call waits for it
	some     bool           // the last page had rows, so there may be more
	limit    int            // the maximum number of rows of the next page
	unmarked int            // pages in a row that were published and not marked
	proved   bool           // the broker answered the last call
	say      backoff.LogLimit

	mu     sync.Mutex
	health Health
}

var (
	_ skald.Runner  = (*Relay)(nil)
	_ skald.Stepper = (*Relay)(nil)
)

// New returns a relay that publishes the table t of the database db to bus. Run, or the first Step, checks
// that t matches the table in the database.
func New(db *sql.DB, t Table, bus broker.Publisher, o *Options) *Relay {
	d := o.orDefaults(&t)
	return &Relay{
		db: db, bus: bus, table: t, o: d, deferred: newDeferred(&d), limit: d.Page,
		tel:    telemetry.NewRelay(telemetry.Providers{Meter: d.MeterProvider, Tracer: d.TracerProvider}),
		say:    backoff.LogLimit{First: 20 * time.Second, Most: 10 * time.Minute},
		health: Health{Live: true, Why: "not started yet"},
	}
}

// Health is the state of a relay. During an outage of the database or the broker the relay is live, but not
// ready.
type Health struct {
	Live  bool   // false only after Run has ended
	Ready bool   // the database and the broker answer; also true in standby
	Why   string // the reason why it is not ready, or ""
	// Standby is true if another relay works on the table.
	Standby bool
	// Published is the number of messages that this process has published, including repeated ones.
	Published int64
	// Deferred is the number of topics, keys and rows that are deferred now.
	Deferred int
}

// Health returns the state of r. It is safe for concurrent use.
func (r *Relay) Health() Health {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.health
}

// Status returns the state in the form that skald.Run and package health need.
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
