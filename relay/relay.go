// Package relay carries committed messages to the broker, in key order, from any number of instances.
//
//	your tx ─► outbox ─► [relay] ─► broker ─► inbox ─► handler's tx ─► outbox ─► …
//
// The way of a row through the files: lease.go (which lanes are mine), window.go (what is new in them), publish.go
// (handed over, in order, many calls under way), answer.go (the acknowledged prefix, and what was refused),
// aside.go (rows set aside, tried again), anew.go (topics that were made anew), progress.go (how far each lane has come), run.go (the loop around these).
package relay

import (
	"cmp"
	"context"
	"crypto/rand"
	"log/slog"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/broker"
	"github.com/skald-go/skald/internal/backoff"
	"github.com/skald-go/skald/internal/telemetry"
	"github.com/skald-go/skald/store"
)

// Source is what a relay needs of a database; every store.Store has it.
type Source interface {
	Check(ctx context.Context, as store.Role) error
	Lease(ctx context.Context, ask store.Ask) (store.Leased, error)
	Tick(ctx context.Context, base string) (tip string, err error)
	Pull(ctx context.Context, w store.Window, limit int) (store.Page, error)
	Held(ctx context.Context, lanes []int) ([]store.Held, error)
	Retry(ctx context.Context, lanes []int, limit int) ([]store.Aside, error)
	Apply(ctx context.Context, es ...store.Effect) ([]bool, error)
	Maintain(ctx context.Context, keep store.Retention) (store.Maintained, error)
	Backlog(ctx context.Context) (store.Backlog, error)
}

// Options of a Relay. The zero value works.
type Options struct {
	// Owner is the stable name of this instance: a new life of the same name takes its lanes over at once, so two
	// that live at the same time must not share one. Default: the host's name and a random part.
	Owner string
	// TTL is how long this relay may be silent before another takes its lanes. Default 3 s.
	TTL time.Duration
	// PollMost is the longest pause between two looks for new rows. Default 105 ms for each relay that works on this
	// outbox, so that all of them together ask an idle database nine times a second, and at most a third of TTL.
	// While rows come, or a write in this process is near, the pauses are a twentieth of the time since, from 1 ms on.
	PollMost time.Duration
	// Outboxes is how many outboxes of one database this process carries, a relay for each: the default of PollMost is
	// as many times longer, so that an idle database is hardly asked more often for more of them. Default 1.
	Outboxes int
	// InFlight bounds the rows handed over and not yet answered. Default 20,000; their data is bounded by 32 MiB.
	InFlight int
	// Save is the shortest time between two writes of one lane's progress. Default 500 ms: what a crash repeats.
	Save time.Duration
	// RetryFirst and RetryMost are the waits of a lane whose messages the broker did not take. Defaults 100 ms, 5 s.
	RetryFirst, RetryMost time.Duration
	// AsideFirst and AsideMost are the waits of a row that was set aside. Defaults 1 s and 60 s.
	AsideFirst, AsideMost time.Duration
	// Keep is the retention; the holder of the first lane sees to it once a minute. Default: as store.Retention.
	Keep store.Retention
	// Drain bounds how long Run waits for answers once its context is done. Default 20 s.
	Drain time.Duration

	Now    func() time.Time // for waits; leases are by the store's clock. Default time.Now
	Logger *slog.Logger     // ids, never payloads. Default slog.Default()

	MeterProvider  metric.MeterProvider // default OpenTelemetry's global one
	TracerProvider trace.TracerProvider // for a span of each call to the broker. Default the global one
}

func (o *Options) orDefaults() Options {
	var d Options
	if o != nil {
		d = *o
	}
	if d.Owner == "" {
		host, _ := os.Hostname()
		d.Owner = host + "-" + rand.Text()[:8]
	}
	d.TTL = cmp.Or(d.TTL, 3*time.Second)
	d.InFlight = cmp.Or(d.InFlight, 20_000)
	d.Save = cmp.Or(d.Save, 500*time.Millisecond)
	d.RetryFirst = cmp.Or(d.RetryFirst, 100*time.Millisecond)
	d.RetryMost = cmp.Or(d.RetryMost, 5*time.Second)
	d.AsideFirst = cmp.Or(d.AsideFirst, time.Second)
	d.AsideMost = cmp.Or(d.AsideMost, time.Minute)
	d.Drain = cmp.Or(d.Drain, 20*time.Second)
	if d.Now == nil {
		d.Now = time.Now
	}
	if d.Logger == nil {
		d.Logger = slog.Default()
	}
	return d
}

// A Relay carries the rows of the lanes that it leases.
type Relay struct {
	db   Source
	bus  broker.Publisher
	o    Options
	life string
	tel  *telemetry.Relay

	// The rest belongs to the goroutine of Run or Step.
	checked  bool
	lanes    map[int]*lane
	byBucket [store.Buckets]*lane
	groups   []*group
	missing  map[string]time.Time // topics that the broker did not have, and until when that is believed; until it takes a row of them
	ids      broker.Topics        // as told last; never changed, always replaced
	idless   map[string]time.Time // topics that have none, and until when that is believed
	tells    int                  // how often they were
	asking   bool                 // ask is under way

	ask      func(topics []string, take func(broker.Topics, error))
	publish  func(c *call, msgs []skald.Message)
	inFlight int          // rows handed over and not answered
	bytes    int          // and their data
	page     int          // rows to ask for, so that a page stays near pageBytes
	knew     []store.Lane // that we held when the store failed
	retrying bool         // rows set aside are on their way
	hasAside bool         // as far as we know; then they are looked for more often

	asideLast time.Time // when the last row that we set aside or put off is due: those without a key are in no lane's held

	leaseAt, expires, pollAt, asideAt, keepAt, topicsAt time.Time
	activity                                            time.Time // when rows were last seen, or a write in this process
	failedAt                                            time.Time // by the store
	restUntil                                           time.Time // behind a window that had rows
	outages                                             int       // of the store, in a row
	say, sayBroker                                      backoff.Rarely
	lives, waiting                                      int // relays that work, and that wait for a lane, at the last lease
	keeping                                             atomic.Bool
	first                                               atomic.Bool // the lane of the first bucket is ours: of the relays, this one reports the backlog

	mu                    sync.Mutex
	health                Health
	storeAway, brokerAway string // why
}

var (
	_ skald.Runner  = (*Relay)(nil)
	_ skald.Stepper = (*Relay)(nil)
)

// New is a relay from db to bus.
func New(db Source, bus broker.Publisher, o *Options) *Relay {
	d := o.orDefaults()
	return &Relay{
		db: db, bus: bus, o: d, life: rand.Text(),
		tel:   telemetry.NewRelay(telemetry.Providers{Meter: d.MeterProvider, Tracer: d.TracerProvider}),
		lanes: map[int]*lane{}, missing: map[string]time.Time{}, idless: map[string]time.Time{}, page: pageFirst,
		health: Health{Live: true}, storeAway: "not started yet",
		say: seldom(), sayBroker: seldom(),
	}
}

// seldom is how often an outage is told while it lasts.
func seldom() backoff.Rarely { return backoff.Rarely{First: 20 * time.Second, Most: 10 * time.Minute} }
