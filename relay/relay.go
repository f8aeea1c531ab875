// Package relay carries committed messages to the broker, in key order, from any number of instances.
//
//	your tx ─► outbox ─► [relay] ─► broker ─► inbox ─► handler's tx ─► outbox ─► …
//
// The way of a row through the files: contact.go (whether the broker answers), lease.go (which shards are
// mine), window.go (what is new in them),
// publish.go (handed over, in order, many calls under way), answer.go (the acknowledged prefix, and what was
// refused), deferred.go (rows deferred, tried again), recreated.go (topics that were made anew), progress.go
// (how far each shard has come), run.go (the loop around these).
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
	"github.com/skald-go/skald/internal/shortlog"
	"github.com/skald-go/skald/internal/telemetry"
	"github.com/skald-go/skald/internal/vitals"
	"github.com/skald-go/skald/store"
)

// Source is what a relay needs of a database; every store.Store has it.
type Source interface {
	Check(ctx context.Context, as store.Role) error
	store.Source
	Apply(ctx context.Context, es ...store.Effect) ([]bool, error)
	Maintain(ctx context.Context, m store.Maintain) (store.Maintained, error)
	Woken() <-chan struct{}
	store.Teller
}

// A Hearer is a Source that hears of commits by itself: while nothing is committed its relay does not look.
type Hearer interface {
	// Hear hears until ctx is done, and survives any outage. Run calls it.
	Hear(ctx context.Context, log *slog.Logger)
	// Hearing tells how that goes, at any time.
	Hearing() store.Hearing
}

// Options of a Relay. The zero value works.
type Options struct {
	// Owner is the stable name of this instance: a new session of the same name takes its shards over at
	// once, so two that live at the same time must not share one. Default: the host's name and a random part.
	Owner string
	// TTL is how long this relay may be silent before another takes its shards. Default 3 s.
	TTL time.Duration
	// PollMost is the longest pause between two looks for new rows. Default 105 ms for each relay that works
	// on this outbox, so that all of them together ask an idle database nine times a second, and at most a
	// third of TTL. While rows come, or soon after a write in this process, a pause is a twentieth of the
	// time since then, and at least 1 ms.
	PollMost time.Duration
	// Outboxes is how many outboxes of one database this process carries, a relay for each: the default of
	// PollMost is as many times longer, so that an idle database is hardly asked more often for more of them.
	// Default 1.
	Outboxes int
	// InFlight bounds the rows handed over and not yet answered. Default 20,000.
	InFlight int
	// MaxBytes bounds the rows in memory, in bytes: those handed over and not yet answered, and those to be
	// deferred and not yet stored. Default 64 MiB, at least 8 MiB, which are two pages. The process takes two
	// to four times as much: the broker's client has a copy, and Go's memory is collected late.
	MaxBytes int
	// Save is the shortest time between two writes of one shard's progress. Default 500 ms: what a crash
	// repeats.
	Save time.Duration
	// RetryFirst and RetryMost are the waits of a shard whose messages the broker did not take. Defaults 100
	// ms, 5 s.
	RetryFirst, RetryMost time.Duration
	// DeferFirst and DeferMost are the waits of a row that was deferred. Defaults 1 s and 60 s.
	DeferFirst, DeferMost time.Duration
	// Keep is the retention; the holder of the first shard sees to it once a minute. Default: as
	// store.Retention.
	Keep store.Retention
	// Drain bounds how long Run waits for answers once its context is done. Default 20 s.
	Drain time.Duration

	giveBack time.Duration // giveBackAfter, but in tests

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
	d.MaxBytes = max(cmp.Or(d.MaxBytes, 64<<20), 2*store.PageBytes)
	d.Save = cmp.Or(d.Save, 500*time.Millisecond)
	d.RetryFirst = cmp.Or(d.RetryFirst, 100*time.Millisecond)
	d.RetryMost = cmp.Or(d.RetryMost, 5*time.Second)
	d.DeferFirst = cmp.Or(d.DeferFirst, time.Second)
	d.DeferMost = cmp.Or(d.DeferMost, time.Minute)
	d.Drain = cmp.Or(d.Drain, 20*time.Second)
	d.giveBack = cmp.Or(d.giveBack, giveBackAfter)
	if d.Now == nil {
		d.Now = time.Now
	}
	if d.Logger == nil {
		d.Logger = slog.Default()
	}
	d.Logger = shortlog.New(d.Logger)
	return d
}

// A Relay carries the rows of the shards that it leases.
type Relay struct {
	db      Source
	bus     broker.Publisher
	o       Options
	session string
	tel     *telemetry.Relay
	hearer  Hearer // nil: the source hears of nothing

	// The rest belongs to the goroutine of Run or Step.
	checked                bool
	introduced, leasedOnce bool // it was said where it works, and with how many shards
	shards                 map[int]*shard
	byBucket               [store.Buckets]*shard
	groups                 []*group
	topics                 topics
	pushed                 map[string]pushback // topics that do not take what they are given

	contact contact // whether the broker answers
	strays  []int   // shards that the store has as ours, and that are to be given back

	ask      func(topics []string, take func(broker.Topics, error))
	ping     func(take func(error)) // asks the broker something that only the broker can answer
	publish  func(c *call, msgs []skald.Message)
	inFlight int           // rows handed over and not answered
	bytes    int           // that they take
	page     int           // rows to ask for, so that a page has about store.PageBytes
	knew     []store.Shard // that we held when the store failed
	retrying bool          // rows deferred are on their way
	hasAside bool          // as far as we know; then they are looked for more often

	// when the last row that we deferred or put off is due: those without a key are in no shard's held
	asideLast time.Time

	leaseAt, expires, pollAt, asideAt, keepAt time.Time
	// when rows were last seen, or a write in this process
	activity       time.Time
	failedAt       time.Time // by the store
	restUntil      time.Time // behind a window that had rows
	resting        bool      // nobody looks while the source is quiet
	outages        int       // of the store, in a row
	say, sayBroker backoff.Rarely
	// relays that work, and that wait for a shard, at the last lease
	sessions, waiting int
	keeping           atomic.Bool
	// the shard of the first bucket is ours: of the relays, this one reports the backlog
	first atomic.Bool

	storeVitals, brokerVitals *vitals.Server

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
	hearer, _ := db.(Hearer)
	log := d.Logger.With("owner", d.Owner)
	return &Relay{
		storeVitals: vitals.Store(db, log, time.Now), brokerVitals: vitals.Broker(bus, log),
		db: db, hearer: hearer, bus: bus, o: d, session: rand.Text(),
		tel:    telemetry.NewRelay(telemetry.Providers{Meter: d.MeterProvider, Tracer: d.TracerProvider}),
		shards: map[int]*shard{}, topics: newTopics(), pushed: map[string]pushback{}, page: pageFirst,
		health: Health{Live: true}, storeAway: "not started yet",
		say: backoff.Seldom(), sayBroker: backoff.Seldom(),
	}
}
