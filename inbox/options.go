package inbox

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"runtime/debug"
	"time"

	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/broker"
	"github.com/skald-go/skald/failure"
	"github.com/skald-go/skald/internal/complete"
	"github.com/skald-go/skald/internal/shortlog"
	"github.com/skald-go/skald/once"
	"github.com/skald-go/skald/store"
)

// Options of an Inbox. The zero value works.
type Options struct {
	// Workers is how many handlers run at the same time. Default 16. Messages of one key never do.
	Workers int
	// Batch is how many messages may share a transaction and its COMMIT. Each message ends as it would alone,
	// but a handler may run twice, and sees what those before it wrote. Each worker takes its part of the
	// messages that are ready; no message waits for others. The number doubles while no message fails. It
	// halves if a message fails or collides with another transaction, or if the handlers take over 200 ms.
	// Default: it begins with 1 and grows up to 64. With 1 each message has a transaction of its own.
	Batch int

	Transaction Transaction // that a handler runs in
	Timeouts    Timeouts
	Limits      Limits
	Retry       Retry
	Dead        Dead
	// Breaker stops the consumer where many messages fail in one way. Default: as it says.
	Breaker   Breaker
	Identity  Identity
	Cache     Cache
	Retention Retention
	Instance  Instance

	Codec  skald.Codec                // for drafts of a rejection that name none. Default JSON
	Now    func() time.Time           // default time.Now
	NewID  func(now time.Time) string // default: UUIDs of version 7
	Logger *slog.Logger               // ids and positions, never payloads. Default slog.Default()

	MeterProvider  metric.MeterProvider // default OpenTelemetry's global one
	TracerProvider trace.TracerProvider // for a span of each attempt at a message. Default the global one

	leaveAfter time.Duration // without an answer of the database; tests set it
}

// Transaction is how the transaction of a handler begins, in the round trip that marks the message.
type Transaction struct {
	// Isolation of the transactions that handlers run in. Those that collide by it are tried again at once.
	// At a higher one than the default on PostgreSQL only, or on SQLite, whose transactions are serializable
	// in any case. Default store.ReadCommitted.
	Isolation store.Isolation
	// Entities names the entities that a message is about: they are locked with the mark. Default: none.
	Entities func(skald.Message) []store.Lock
	// Settings of the database hold until the handler's COMMIT: the tenant that row-level security asks for,
	// a role. PostgreSQL only. Default: none.
	Settings func(skald.Message) []store.Setting
}

// Timeouts bound how long something may take.
type Timeouts struct {
	// Handle is how long one handler may take; then its context ends and the message is tried again. Default
	// 60 s.
	Handle time.Duration
	// Wait is how long an intake may wait for a rival that has the message or an entity in hand. Default 5 s.
	Wait time.Duration
	// Drain bounds how long Run goes on with what was begun once its context is done. Default 20 s. Handlers
	// still at work then have their context ended; Run leaves a second later, whether they heed it or not.
	Drain time.Duration
}

// Limits bound what is in memory and what is parked. At a limit partitions pause at the broker.
type Limits struct {
	// Held is how many unacknowledged deliveries a partition may have. Default 10,000; at 16 MiB of them it
	// pauses in any case.
	Held int
	// Bytes bounds the messages in memory: the unacknowledged ones of all partitions together, and half as
	// many claimed ones. What the broker's client has fetched is apart. Default 64 MiB, at least 8 MiB.
	Bytes int
	// Record is the largest payload that is handled, in bytes, and the most that key, headers and attributes
	// may take together. A larger record is a dead letter of the kind too_large, with its size, its SHA-256,
	// its position and its first 64 KiB. Default 900 KiB, which is the most that an outbox takes.
	Record int
	// ParkedRows and ParkedBytes bound what is parked for the consumer. Defaults 100,000 and 1 GiB. They are
	// counted now and then, so that a few more may be; above 10,000 rows PostgreSQL estimates them.
	ParkedRows, ParkedBytes int64
	// KeyRows and KeyBytes bound the parked messages of one key. Above them, later messages of the key become
	// dead letters of the kind key_full, as long as parked messages and dead letters together are below
	// ParkedRows and ParkedBytes. Defaults 10,000 and 256 MiB.
	KeyRows, KeyBytes int64
}

// Retry says when a message that failed is tried again, and when no more.
type Retry struct {
	// InitialInterval and MaxInterval are the first and the longest wait before a retry. The wait doubles
	// from one to the other, with jitter. Defaults 100 ms and 5 min. After an outage it is 30 s at most.
	InitialInterval, MaxInterval time.Duration
	// Attempts and Age are after how many failures, and how long after the first of them, a message becomes a
	// dead letter. Defaults 25, which takes about an hour, and 24 h.
	Attempts int
	Age      time.Duration
	// Uncharged is how long failures are free by what may pass: skald.Outage, a deadlock or a serialization
	// failure (40P01, 40001), a lock that was not to be had (55P03), a cancelled statement or transaction
	// (57014, 25P04), a context of the handler's own that ended in a statement. It begins with the first of
	// them, or when the database is back. From then on they are charged, and the message dies by Attempts.
	// Default 10 min.
	Uncharged time.Duration
	// Crashes is how often a message may end its process, by what cannot be recovered from, while nothing but
	// it is run; then it is a dead letter. What was left in hand by a process that died is run so. Default 3.
	Crashes int
	// Classify says what an error means for its message, "" leaves it to Skald: a panic, skald.Permanent,
	// skald.UnknownVersion and what the codec cannot read are told apart; all else, the violation of a
	// constraint of yours and the error of another service too, is Transient. Default: none. It is not asked
	// of Reject, RetryAfter and Outage, nor of outages of the transaction that was lent.
	Classify func(m skald.Message, err error) failure.Class
}

// Dead says what becomes of dead letters, and of the other messages of their keys.
type Dead struct {
	// FreeKey lets the messages of a key go on after a dead letter. Default: they wait, in order, until it is
	// redriven or dropped.
	FreeKey bool
	// Rejections keeps each rejection as a dead letter, too, with its code and reason; the verdict stands,
	// and is answered again. It does not hold its key, unless RejectionsHold. Default: no.
	Rejections, RejectionsHold bool
	// Topic is told of each dead letter, through the outbox: by reference (a failure.Announcement), or with
	// Copy by the message itself, unless that would be too large, which is logged. A copy of a message
	// without a type has failure.CopyType; of one without an id the copy's x-original-id is what it is known
	// by. Default: none.
	Topic string
	Copy  bool
	// Headers are the names that the headers of a copy have instead of x-attempt, x-failed-reason,
	// x-failed-at, x-original-id, x-original-source and x-original-topic; "" leaves one out. They follow the
	// message's own, of which those of the same names are left out. Default: these names.
	Headers map[string]string
}

// Identity says which messages are the same one.
type Identity struct {
	// Of says what a message is, for ever: a second one of the same identity is not taken. Default ByID.
	// ByHeader, ByField, ByHash and ByPosition are for messages without an id of their own; a business key is
	// a function of yours. Where it gives an error the message fails. Ids that are UUIDs of version 7 carry
	// their time: see Retention in docs/operations.md.
	Of func(broker.Delivery) (store.Identity, error)
	// Attempt reads how often a message failed before it came here, as a retry topic notes it:
	// AttemptByHeader or AttemptByField. Those failures count towards Retry.Attempts. Default: none.
	Attempt AttemptSource
	// Fingerprint is what must not differ between messages of one identity: one that does is put into
	// quarantine. Nil bytes: nothing is compared. Default: type and payload, without the field that
	// AttemptByField reads.
	Fingerprint func(skald.Message) []byte
	// Again: repeats of these messages have sent again what was said with them the first time (Result.Say,
	// and that of a rejection), under the same ids. It must have been so then. Default: of none.
	Again func(skald.Message) bool
}

// Cache saves the database queries. The inbox is correct without it, too.
type Cache struct {
	// Finished has the identities of finished messages. The inbox asks it before the database, so a duplicate
	// that it has costs no statement. It can make nothing wrong: see once.Cache. Its TTL has to be shorter
	// than the retention of marks, or the inbox does not start. Default: none.
	Finished once.Cache
	// InProgress has messages that another process handles. They wait, for at most Timeouts.Wait, without a
	// connection. The inbox asks it for each message that it takes alone. Default: none.
	InProgress once.Hint
}

// Retention says how long marks are kept, and what they have to outlive.
type Retention struct {
	// Keep has Run see to the retention of the database, marks first of all: of all instances that have it,
	// one at a time does. Nil: a relay of this database does, and Run logs a warning if none did after 2 min.
	// It needs the rights of a relay.
	Keep *store.Retention
	// Window says what marks have to outlive; it is compared at the start with how long they are kept. See
	// there.
	Window Window
}

// Instance is who runs the inbox.
type Instance struct {
	// Member is the stable name of this instance at the broker. Empty: none.
	Member string
	// Host and Version are noted with failures. Defaults: the name of the host, the version of the main
	// module.
	Host, Version string
}

func (o *Options) orDefaults() Options {
	var d Options
	if o != nil {
		d = *o
	}
	d.Workers = max(1, cmp.Or(d.Workers, 16))
	d.Timeouts.orDefaults()
	d.Limits.orDefaults()
	d.Retry.orDefaults()
	d.Breaker = d.Breaker.orDefaults()
	d.Instance.orDefaults()
	d.leaveAfter = cmp.Or(d.leaveAfter, leaveAfter)
	if d.Now == nil {
		d.Now = time.Now
	}
	if d.Logger == nil {
		d.Logger = slog.Default()
	}
	d.Logger = shortlog.New(d.Logger)
	return d
}

// fault names an option that nobody can mean.
func (o *Options) fault() error {
	for _, n := range []struct {
		name  string
		value int64
	}{
		{"Timeouts.Handle", int64(o.Timeouts.Handle)},
		{"Timeouts.Wait", int64(o.Timeouts.Wait)},
		{"Timeouts.Drain", int64(o.Timeouts.Drain)},
		{"Limits.Held", int64(o.Limits.Held)},
		{"Limits.Record", int64(o.Limits.Record)},
		{"Limits.ParkedRows", o.Limits.ParkedRows},
		{"Limits.ParkedBytes", o.Limits.ParkedBytes},
		{"Limits.KeyRows", o.Limits.KeyRows},
		{"Limits.KeyBytes", o.Limits.KeyBytes},
		{"Retry.InitialInterval", int64(o.Retry.InitialInterval)},
		{"Retry.MaxInterval", int64(o.Retry.MaxInterval)},
		{"Retry.Age", int64(o.Retry.Age)},
		{"Retry.Uncharged", int64(o.Retry.Uncharged)},
	} {
		if n.value < 0 {
			return fmt.Errorf("inbox.Options.%s is below zero: give more, or leave it out for the default",
				n.name)
		}
	}
	switch {
	case o.Dead.RejectionsHold && !o.Dead.Rejections:
		return errors.New(
			"inbox.Options.Dead.RejectionsHold is for rejections that are kept: set Dead.Rejections, too")
	case o.Dead.Topic != "" && !complete.Topic(o.Dead.Topic):
		return fmt.Errorf("inbox.Options.Dead.Topic is %.100q: a topic is 1 to 249 of A-Z a-z 0-9 . _ -",
			o.Dead.Topic)
	}
	return nil
}

func (t *Timeouts) orDefaults() {
	t.Handle = cmp.Or(t.Handle, time.Minute)
	t.Wait = cmp.Or(t.Wait, 5*time.Second)
	t.Drain = cmp.Or(t.Drain, 20*time.Second)
}

func (l *Limits) orDefaults() {
	l.Held = cmp.Or(l.Held, 10_000)
	l.Bytes = max(cmp.Or(l.Bytes, 64<<20), 8<<20)
	l.Record = cmp.Or(l.Record, complete.MaxData)
	l.ParkedRows, l.ParkedBytes = cmp.Or(l.ParkedRows, 100_000), cmp.Or(l.ParkedBytes, 1<<30)
	l.KeyRows, l.KeyBytes = cmp.Or(l.KeyRows, 10_000), cmp.Or(l.KeyBytes, 256<<20)
}

func (r *Retry) orDefaults() {
	r.InitialInterval = cmp.Or(r.InitialInterval, 100*time.Millisecond)
	r.MaxInterval = cmp.Or(r.MaxInterval, 5*time.Minute)
	r.Attempts = max(1, cmp.Or(r.Attempts, 25))
	r.Age = cmp.Or(r.Age, 24*time.Hour)
	r.Uncharged = cmp.Or(r.Uncharged, 10*time.Minute)
	r.Crashes = max(1, cmp.Or(r.Crashes, 3))
}

func (i *Instance) orDefaults() {
	if i.Host == "" {
		i.Host, _ = os.Hostname() // or none
	}
	if info, ok := debug.ReadBuildInfo(); ok && i.Version == "" {
		i.Version = info.Main.Version
	}
}
