// Package relay publishes committed rows of the outbox to the broker. It keeps the order of each key, with
// any number of relays.
//
//	your tx ─► outbox ─► [relay] ─► broker ─► inbox ─► handler's tx ─► outbox ─► …
//
// A row passes through these files: contact.go (is the broker reachable?), lease.go (which shards does this
// relay own?), window.go (read new rows), publish.go (publish them in order, with many calls in progress),
// answer.go (process the answers), refusal.go (refused rows), pushback.go (full topics), deferred.go (retry
// deferred rows), recreated.go (recreated topics), progress.go (store the progress of each shard), and run.go
// (the loop).
package relay

import (
	"cmp"
	"context"
	"crypto/rand"
	"fmt"
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

// Source is the part of a database that a relay needs. Every store.Store implements it.
type Source interface {
	Check(ctx context.Context, as store.Role) error
	store.Source
	Apply(ctx context.Context, es ...store.Effect) ([]bool, error)
	Maintain(ctx context.Context, m store.Maintain) (store.Maintained, error)
	Woken() <-chan struct{}
	store.StatusReader
}

// Listener is a Source that receives notifications of commits. Its relay does not poll while there are no
// commits.
type Listener interface {
	// Listen receives notifications until ctx is done. It reconnects after outages. Run calls it.
	Listen(ctx context.Context, log *slog.Logger)
	// Listening returns the state of the notifications. Any goroutine may call it.
	Listening() store.Listening
}

// Options configures a Relay. The zero value works.
type Options struct {
	// Owner is the stable name of this instance. A new session with the same name immediately takes the
	// shards of the old session, so two running instances must not share a name. Default: the host's name and
	// a random part.
	Owner string
	// TTL is the time without a renewal of the lease after which another relay takes the shards. Default 3 s.
	TTL time.Duration
	// MaxPollInterval is the longest pause between two looks for new rows. Default 105 ms times the number of
	// relays on this outbox, at most a third of TTL. So all relays together query an idle database about nine
	// times a second. After new rows, or after a write in this process, the pause is a twentieth of the time
	// since then, but at least 1 ms.
	MaxPollInterval time.Duration
	// Outboxes is the number of outboxes of one database that this process publishes, each with its own
	// relay. The default of MaxPollInterval is multiplied by Outboxes, so that more outboxes cause few
	// additional queries. Default 1.
	Outboxes int
	// InFlight limits the number of published rows without an answer. Default 20,000.
	InFlight int
	// MaxBytes limits the memory of rows, in bytes: published rows without an answer, and rows that will be
	// stored as deferred. Default 64 MiB, at least 8 MiB (two pages). The process needs two to four times as
	// much memory, because the broker's client copies each row, and Go frees memory late.
	MaxBytes int
	// Save is the minimum time between two writes of a shard's progress. After a crash the next relay repeats
	// the rows of this time. Default 500 ms.
	Save time.Duration
	// RetryFirst and RetryMost are the shortest and the longest wait of a shard after a failed row. Defaults
	// 100 ms and 5 s.
	RetryFirst, RetryMost time.Duration
	// DeferFirst and DeferMost are the shortest and the longest interval between two attempts of a deferred
	// row. Defaults 1 s and 60 s.
	DeferFirst, DeferMost time.Duration
	// Keep is the retention of the tables. The owner of the first shard applies it once a minute. Default:
	// the defaults of store.Retention.
	Keep store.Retention
	// Drain limits the time for which Run waits for answers after its context is done. Default 20 s.
	Drain time.Duration

	giveBack time.Duration // giveBackAfter, except in tests

	Now    func() time.Time // the clock for waits; leases use the clock of the store. Default time.Now
	Logger *slog.Logger     // log lines contain IDs, never payloads. Default slog.Default()

	MeterProvider  metric.MeterProvider // default OpenTelemetry's global one
	TracerProvider trace.TracerProvider // for a span for each call of the broker. Default the global one
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
	if d.MaxBytes = cmp.Or(d.MaxBytes, 64<<20); d.MaxBytes > 0 {
		d.MaxBytes = max(d.MaxBytes, 2*store.PageBytes)
	}
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

// fault returns an error for an invalid option.
func (o *Options) fault() error {
	for name, value := range map[string]int64{
		"TTL": int64(o.TTL), "MaxPollInterval": int64(o.MaxPollInterval), "Outboxes": int64(o.Outboxes), "InFlight": int64(o.InFlight), "MaxBytes": int64(o.MaxBytes),
		"Save": int64(o.Save), "RetryFirst": int64(o.RetryFirst), "RetryMost": int64(o.RetryMost),
		"DeferFirst": int64(o.DeferFirst), "DeferMost": int64(o.DeferMost), "Drain": int64(o.Drain)} {
		if value < 0 {
			return fmt.Errorf("relay.Options.%s is below zero: give more, or leave it out for the default", name)
		}
	}
	return nil
}

// Relay publishes the rows of the shards that it owns.
type Relay struct {
	db       Source
	bus      broker.Publisher
	o        Options
	session  string
	tel      *telemetry.Relay
	listener Listener // nil if the source is not notified of commits

	// Only the goroutine of Run or Step uses these, except first and maintaining.
	ownership
	sending
	deferrals
	lookout
	upkeep

	reports
}

// ownership has the shards that a relay owns, and its lease.
type ownership struct {
	shards    map[int]*shard
	byBucket  [store.Buckets]*shard
	groups    []*group
	toReturn  []int         // shards to release that have not been started
	lastKnown []store.Shard // the shards that the relay owned when the store failed
	// sessions is the number of relays with shards, and waiting the number of relays that wait for a shard,
	// at the last lease.
	sessions, waiting int
	leasedOnce        bool // the number of shards was logged
	leaseAt, expires  time.Time
	// first is true if the relay owns the shard of the first bucket. Only this relay reports the backlog.
	first atomic.Bool
}

// sending has the published rows without an answer, and the state of the broker and its topics.
type sending struct {
	ask      func(topics []string, take func(broker.Topics, error))
	ping     func(take func(error)) // sends a request to the broker, to test whether it answers
	publish  func(c *call, msgs []skald.Message)
	inFlight int // published rows without an answer
	bytes    int // memory of these rows

	contact             contact // the state of the broker
	topics              topics
	refusals, pushbacks reasons             // limit log lines about refused rows, and about full topics
	isolated            map[string]isolated // by topic
	pushed              map[string]pushback // topics that accept no rows, by name
}

// deferrals has the state of the deferred rows.
type deferrals struct {
	retrying    bool      // a call that retries deferred rows is in progress
	suspects    []suspect // deferred rows to publish alone
	hasDeferred bool      // there may be deferred rows, so the relay reads them more often
	deferredAt  time.Time // when to read deferred rows next
	// deferredLast is the time at which the last deferred row of this process is due. It is needed for rows
	// without a key, because they do not appear in shard.blocked.
	deferredLast time.Time
}

// lookout has the schedule of looks for new rows, and the page size.
type lookout struct {
	page   int // the number of rows of a page, so that it has about store.PageBytes
	pollAt time.Time
	// activity is the time at which the relay last found rows, or at which this process last wrote.
	activity  time.Time
	restUntil time.Time // the end of the pause after a window with rows
	resting   bool      // the relay does not look until the source notifies it
}

// upkeep has the state of the checks and the retention of the tables, and of outages of the store.
type upkeep struct {
	checked, introduced bool // introduced is true if store and broker were logged
	maintainAt          time.Time
	maintaining         atomic.Bool
	failedAt            time.Time // the last failure of the store
	outages             int       // consecutive outages of the store
	storeLog, brokerLog backoff.LogLimit
}

// reports has the values that any goroutine may read, guarded by mu.
type reports struct {
	storeVitals, brokerVitals *vitals.Server

	mu                    sync.Mutex
	health                Health
	storeAway, brokerAway string // the reasons of outages; "" if there is none
}

var (
	_ skald.Runner  = (*Relay)(nil)
	_ skald.Stepper = (*Relay)(nil)
)

// New returns a relay that publishes the outbox of db to bus. Call Run to start it.
func New(db Source, bus broker.Publisher, o *Options) *Relay {
	d := o.orDefaults()
	listener, _ := db.(Listener)
	log := d.Logger.With("owner", d.Owner)
	return &Relay{
		db: db, listener: listener, bus: bus, o: d, session: rand.Text(),
		tel:       telemetry.NewRelay(telemetry.Providers{Meter: d.MeterProvider, Tracer: d.TracerProvider}),
		ownership: ownership{shards: map[int]*shard{}},
		sending: sending{topics: newTopics(), pushed: map[string]pushback{}, refusals: reasons{},
			pushbacks: reasons{}, isolated: map[string]isolated{}},
		lookout: lookout{page: pageFirst},
		upkeep:  upkeep{storeLog: backoff.NewLogLimit(), brokerLog: backoff.NewLogLimit()},
		reports: reports{storeVitals: vitals.Store(db, log, time.Now), brokerVitals: vitals.Broker(bus, log),
			health: Health{Live: true}, storeAway: "not started yet"},
	}
}
