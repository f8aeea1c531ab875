// Package foreign publishes the rows of an outbox table that is not Skald's, as it stands in PostgreSQL. A
// Table says, as data, which columns make a message and how a row is known to be done.
//
//	your tx ─► your table ─► [foreign] ─► broker ─► inbox ─► …
//
// A page of rows goes its way in one transaction: page.go locks the rows and reads them, message.go makes
// messages of them, publish.go hands them to the broker, and only what the broker acknowledged is marked or
// deleted, in one statement. A row that cannot be published is in deferred.go: its key waits, and the table
// goes on. relay.go is the loop around these.
//
// It is no store.Source: a Source promises commit order by its columns txid and seq, shards, leases and a
// stored progress, and another team's table has none of them.
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

// Options of a Relay. The zero value works.
type Options struct {
	// Owner is the name of this instance in logs and metrics. Default: the table's name.
	Owner string
	// PollMost is the longest pause between two looks for new rows. Default 250 ms. After rows, the pauses
	// are a twentieth of the time since, from 5 ms on; and a look that takes long (no index) is followed by a
	// pause ten times as long.
	PollMost time.Duration
	// Page is how many rows are locked, published and marked together. Default 500.
	Page int
	// Patience is how long the broker may take to answer for a page before its rows are unlocked again.
	// Default 20 s.
	Patience time.Duration
	// RetryFirst and RetryMost are the waits after a failure of the database or the broker. Defaults 100 ms,
	// 5 s.
	RetryFirst, RetryMost time.Duration
	// DeferFirst and DeferMost are the waits of what is deferred. Defaults 1 s and 60 s.
	DeferFirst, DeferMost time.Duration
	// Drain bounds how long Run waits for its page once its context is done. Default 20 s.
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
	d.PollMost = cmp.Or(d.PollMost, 250*time.Millisecond)
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

// A Relay carries the rows of one Table.
type Relay struct {
	db    *sql.DB
	bus   broker.Publisher
	table Table
	o     Options
	tel   *telemetry.Relay

	// The rest belongs to the goroutine of Run or Step.
	text     *statements // nil: the table was not looked at yet
	deferred deferred
	pending  broker.Pending // a call that was given up: its answer must come before the next one
	some     bool           // the last page had rows: there may be more
	limit    int            // rows of the next page
	unmarked int            // pages in a row that were published and not marked
	proved   bool           // the broker answered the last call
	say      backoff.Rarely

	mu     sync.Mutex
	health Health
}

var (
	_ skald.Runner  = (*Relay)(nil)
	_ skald.Stepper = (*Relay)(nil)
)

// New is a relay from the table, in the database of db, to bus. Run, or the first Step, looks whether the
// table is as t says.
func New(db *sql.DB, t Table, bus broker.Publisher, o *Options) *Relay {
	d := o.orDefaults(&t)
	return &Relay{
		db: db, bus: bus, table: t, o: d, deferred: newDeferred(&d), limit: d.Page,
		tel:    telemetry.NewRelay(telemetry.Providers{Meter: d.MeterProvider, Tracer: d.TracerProvider}),
		say:    backoff.Rarely{First: 20 * time.Second, Most: 10 * time.Minute},
		health: Health{Live: true, Why: "not started yet"},
	}
}

// Health says how a relay does. An outage of database or broker is "not ready", never "not live".
type Health struct {
	Live  bool   // false only when Run has ended
	Ready bool   // database and broker answer, also where another relay has the table
	Why   string // it is not ready
	// Standby: another relay works on the table.
	Standby bool
	// Published counts what this process published, since New. A repeat counts again.
	Published int64
	// Deferred is how many rows, keys and topics are deferred now.
	Deferred int
}

// Health may be called at any time from any goroutine.
func (r *Relay) Health() Health {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.health
}

func (r *Relay) note(f func(*Health)) {
	r.mu.Lock()
	f(&r.health)
	r.mu.Unlock()
}
