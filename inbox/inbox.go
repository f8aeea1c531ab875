// Package inbox is an idempotent consumer. For each message it runs one transaction of the consumer's own
// database. In this transaction it marks the message, locks entities, runs the handler, writes the outbox and
// commits. So each message has its effect once, although brokers redeliver.
//
//	your tx ─► outbox ─► relay ─► broker ─► [inbox] ─► handler's tx ─► outbox ─► …
//
// A delivery passes through these files, in this order:
//
//   - receive.go puts it into its partition and a chain (internal/partition).
//   - pick.go selects it for a worker.
//   - internal/exec makes one attempt: it calls the handler and commits, or parks the message.
//     internal/decide decides between the two.
//   - settle.go continues the chain and acknowledges the delivery.
//
// loop.go calls these parts in a loop. parked.go claims parked messages. docs/dev/path.md follows one
// message; docs/dev/architecture.md has a line for each file.
package inbox

import (
	"crypto/rand"
	"sync"
	"sync/atomic"
	"time"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/broker"
	"github.com/skald-go/skald/failure"
	"github.com/skald-go/skald/inbox/internal/checkpoint"
	"github.com/skald-go/skald/inbox/internal/exec"
	"github.com/skald-go/skald/inbox/internal/partition"
	"github.com/skald-go/skald/internal/complete"
	"github.com/skald-go/skald/internal/telemetry"
	"github.com/skald-go/skald/internal/vitals"
	"github.com/skald-go/skald/store"
)

// Inbox consumes messages for one consumer group. Each mark that it writes has the name of the group.
type Inbox[TTx any] struct {
	db         store.Driver[TTx]
	bus        broker.Subscriber
	group      string
	o          Options
	tel        *telemetry.Inbox
	topics     []string
	retry      failure.Retry
	exec       *exec.Executor[TTx]
	registered registered

	// Only the goroutine of Run or Step uses the next three fields.
	membership
	selection[TTx]
	findings[TTx]

	reports
}

// membership has the state of an Inbox as a member of its group.
type membership struct {
	checked     bool   // open has checked the tables
	session     string // a random id, which owns the leases of this inbox
	sub         broker.Subscription
	absent      absent
	outage      *brokerOutage
	checkpoints *checkpoint.Checkpointer
}

// selection has the waiting messages, and the parts that select the next job of a worker.
type selection[TTx any] struct {
	schedule partition.Schedule
	parked   *queue[TTx]
	seen     *filter[TTx]
	pick     *picker[TTx]
	retries  *retries
	breaker  *consumerBreaker
	orders   *operatorOrders
	inPlace  atomic.Int64 // messages that wait in memory for their next attempt
	askAt    time.Time    // when to look for admitted messages again
	allStuck string       // why no message may start: too many handlers hang; "" if one may
}

// findings has the observations for logs and Health.
type findings[TTx any] struct {
	facts    facts
	probe    *vitals.Probe // of the database
	announce *announcer[TTx]
	delays   *troubledMessages
	work     *storeWork
}

// reports has the values that any goroutine may read.
type reports struct {
	mu     sync.Mutex
	health Health
	kept   store.ParkedCounts // the last count, plus the messages parked since then
	stuck  []Stuck
}

var (
	_ skald.Runner  = (*Inbox[int])(nil)
	_ skald.Stepper = (*Inbox[int])(nil)
)

// New returns an inbox for the consumer group. It receives from bus, and writes to db. Register handlers with
// On or Handle before Run.
func New[TTx any](db store.Driver[TTx], bus broker.Subscriber, group string, o *Options) *Inbox[TTx] {
	d := o.orDefaults()
	if db, ok := db.(interface{ SharesUnseen() bool }); ok && d.Batch == 0 && db.SharesUnseen() {
		d.Batch = 1
	}
	size := newBatchSize(d.Batch)
	if d.Batch >= 0 { // else Run returns an error
		d.Batch = size.most
	}
	log := d.Logger.With("consumer", group)
	in := &Inbox[TTx]{
		db: db, bus: bus, group: group, o: d,
		tel: telemetry.NewInbox(telemetry.Providers{Meter: d.MeterProvider, Tracer: d.TracerProvider}, group),
		retry: failure.Retry{InitialInterval: d.Retry.InitialInterval, MaxInterval: d.Retry.MaxInterval,
			Attempts: d.Retry.Attempts,
			Age:      d.Retry.Age, OutageRetryTime: d.Retry.OutageRetryTime},
		membership: membership{session: rand.Text(), outage: newOutage(log)},
		selection: selection[TTx]{retries: newRetries(d.Workers), breaker: newBreaker(d.Breaker),
			orders: newOrders(group, log)},
		findings: findings[TTx]{delays: newTroubledMessages(log), work: newStoreWork(log)},
		reports:  reports{health: Health{Live: true, Why: "not subscribed yet"}},
	}
	in.exec = exec.New(db, in.execConfig())
	in.facts.store, in.facts.broker = vitals.Store(db, log, d.Now), vitals.Broker(bus, log)
	in.probe = in.facts.store.Probe()
	in.announce = &announcer[TTx]{in: in, log: log}
	in.seen = &filter[TTx]{in: in}
	in.parked = newQueue(in)
	in.checkpoints = checkpoint.New(checkpoint.Config{Group: group, Member: d.Instance.Member, DB: db,
		Kinds: in.exec.Kinds, Handles: in.exec.Handles, Batch: size.now, RetryFirst: d.Retry.InitialInterval,
		Now: d.Now, Logger: d.Logger}, &in.schedule)
	in.pick = &picker[TTx]{in: in, size: size}
	return in
}

// execConfig returns the settings for attempts at messages.
func (in *Inbox[TTx]) execConfig() exec.Config {
	o, complete := &in.o, complete.Completer{Now: in.o.Now, NewID: in.o.NewID, Codec: in.o.Codec}
	return exec.Config{
		Group: in.group, Telemetry: in.tel, Complete: complete, Codec: o.Codec, Now: o.Now, Logger: o.Logger,
		Announce: failure.Announcer{Topic: o.Dead.Topic, Copy: o.Dead.Copy, Headers: o.Dead.Headers,
			Complete: complete.Messages, Logger: o.Logger},

		Isolation: o.Transaction.Isolation, Entities: o.Transaction.Entities,
		Settings: o.Transaction.Settings,
		Workers:  o.Workers,
		Handle:   o.Timeouts.Handle, Wait: o.Timeouts.Wait,
		Retry: in.retry, Crashes: o.Retry.Crashes, Classify: o.Retry.Classify,

		Up: in.isUp, InPlace: func() int { return int(in.inPlace.Load()) },

		KeyRows: o.Limits.KeyRows, KeyBytes: o.Limits.KeyBytes, Room: in.room, DeadRoom: in.deadRoom,
		FreeKey: o.Dead.FreeKey, Rejections: o.Dead.Rejections, RejectionsHold: o.Dead.RejectionsHold,

		Fingerprint: o.Identity.Fingerprint, Without: o.Identity.Attempt.withoutField,
		Earlier: o.Identity.Attempt.Count, Repeat: o.Identity.Repeat, Ahead: o.Cache.InProgress,
		Host: o.Instance.Host, Version: o.Instance.Version,
	}
}
