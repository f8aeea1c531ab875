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
	// Workers is the number of handlers that run at the same time. Messages with the same key never run at
	// the same time. Default 16.
	Workers int
	// Batch is the largest number of messages that share a transaction and its COMMIT. Each message has the
	// same outcome as in a transaction of its own. But a handler may run twice, and it sees the writes of the
	// handlers before it. The inbox divides the ready messages among the workers. No message waits for a
	// batch to fill.
	//
	// The inbox adapts the number. It doubles the number while no message fails. It halves the number if a
	// message fails, if the transaction collides with another one, or if the handlers take over 200 ms. A
	// rejection that follows another rejection does not halve it, because the inbox rolls back to a
	// savepoint.
	//
	// Default: the number starts at 1 and grows up to 64. Through database/sql it stays 1. With 1 each
	// message has its own transaction.
	//
	// After a handler sends SET, set_config, DO, CALL, CREATE TEMP or pg_advisory_lock, its messages no
	// longer share transactions. The same applies to a handler with a database function that creates a
	// temporary table. Skald does not see settings that such functions or Tx.Conn make: for these use
	// Transaction.Settings, or Batch: 1. If a handler hangs, the other messages of its transaction wait until
	// Timeouts.Handle and 5 s have passed. In a shared transaction now() is the same for all messages: use
	// clock_timestamp().
	Batch int

	Transaction Transaction // of a handler
	Timeouts    Timeouts
	Limits      Limits
	Retry       Retry
	Dead        Dead
	// Breaker stops the consumer if many messages fail for the same reason. It has its own defaults.
	Breaker   Breaker
	Identity  Identity
	Cache     Cache
	Retention Retention
	Instance  Instance

	Codec  skald.Codec                // for results, and for drafts without a codec. Default JSON
	Now    func() time.Time           // default time.Now
	NewID  func(now time.Time) string // default: UUIDs of version 7
	Logger *slog.Logger               // gets ids and positions, never payloads. Default slog.Default()

	MeterProvider  metric.MeterProvider // default: the global one of OpenTelemetry
	TracerProvider trace.TracerProvider // gets a span for each attempt at a message. Default: the global one

	leaveAfter time.Duration // without an answer of the database; tests set it
}

// Transaction has the settings of a handler's transaction. The inbox sends them in the round trip that marks
// the message.
type Transaction struct {
	// Isolation is the isolation level. The inbox retries a transaction immediately if it collides with
	// another one because of the level. Only PostgreSQL supports levels above the default; on SQLite all
	// transactions are serializable. Default store.ReadCommitted.
	Isolation store.Isolation
	// Entities returns the entities that a message is about. The inbox locks them when it marks the message.
	// Default: none.
	Entities func(skald.Message) []store.Lock
	// Settings returns database settings that are in effect until the handler's COMMIT: a role, or the tenant
	// for row-level security. PostgreSQL only. Default: none.
	Settings func(skald.Message) []store.Setting
}

// Timeouts bound how long handlers, waits and the end of Run may take.
type Timeouts struct {
	// Handle is how long one handler may take. After that its context ends, and the inbox retries the
	// message. If the handler ignores its context for 5 s, the inbox closes its connection and parks the
	// message. Default 60 s.
	Handle time.Duration
	// Wait is how long a message may wait for another transaction that handles it or locks one of its
	// entities. Default 5 s.
	Wait time.Duration
	// Drain is how long Run waits for running handlers after its context is done. After that the contexts of
	// the handlers end. Run returns one second later, even if a handler ignores its context. Default 20 s.
	Drain time.Duration
}

// Limits bound the messages in memory and the parked messages. At a limit partitions pause at the broker.
type Limits struct {
	// Unacknowledged is how many unacknowledged deliveries a partition may have. A partition also pauses at
	// 16 MiB of them. Default 10,000.
	Unacknowledged int
	// Bytes bounds the unacknowledged messages of all partitions together. Claimed parked messages may use
	// half as much in addition. Messages in the buffers of the broker's client do not count. Default 64 MiB,
	// at least 8 MiB.
	Bytes int
	// Record is the largest payload, in bytes, that handlers receive. It is also the limit for key, headers
	// and attributes together. A larger record becomes a dead letter of the kind too_large. This dead letter
	// has the size, the SHA-256, the position and the first 64 KiB of the record. Default 900 KiB, which is
	// the limit of the outbox.
	Record int
	// ParkedRows and ParkedBytes bound the parked messages of the consumer. Defaults 100,000 and 1 GiB. The
	// inbox counts at intervals, so the number may exceed the limit a little. Above 10,000 rows PostgreSQL
	// estimates the count.
	ParkedRows, ParkedBytes int64
	// KeyRows and KeyBytes bound the parked messages of one key. Above them, later messages of the key become
	// dead letters of the kind key_full, as long as parked messages and dead letters together are below
	// ParkedRows and ParkedBytes. Defaults 10,000 and 256 MiB.
	KeyRows, KeyBytes int64
}

// Retry limits the attempts at a message that fails.
type Retry struct {
	// InitialInterval and MaxInterval are the first and the longest wait before a retry. The wait doubles
	// after each failure, with jitter. Defaults 100 ms and 5 min. After an outage the wait is 30 s at most.
	InitialInterval, MaxInterval time.Duration
	// Attempts is the number of failures after which a message becomes a dead letter. Age is the time since
	// its first failure after which it becomes a dead letter in any case. Defaults 25, which takes about an
	// hour, and 24 h.
	Attempts int
	Age      time.Duration
	// OutageRetryTime is how long temporary failures do not count towards Attempts. The time begins with the
	// first of them, or when the database is back. After this time they count. Default 10 min.
	//
	// Temporary failures are skald.Outage, a deadlock or a serialization failure (40P01, 40001), an
	// unavailable lock (55P03), and a cancelled statement or transaction (57014, 25P04). So is a handler's
	// own context that ends during a statement.
	OutageRetryTime time.Duration
	// Crashes is how often a message may crash its process while it runs alone. After that it becomes a dead
	// letter. The inbox runs a message alone if a process died during an earlier attempt at it. Default 3.
	Crashes int
	// Classify returns the class of a handler's error, or "" to leave the class to Skald. Skald recognizes a
	// panic, skald.Permanent, skald.UnknownVersion and a payload that the codec cannot read. All other errors
	// are Transient, for example a violated constraint or an error of another service. The inbox does not
	// call Classify for Reject, RetryAfter, Outage and outages of the handler's transaction. Default: none.
	Classify func(m skald.Message, err error) failure.Class
}

// Dead has the options for dead letters.
type Dead struct {
	// FreeKey lets later messages of a key continue after a dead letter. Default: they wait, in order, until
	// the dead letter is redriven or dropped.
	FreeKey bool
	// Rejections stores each rejection also as a dead letter, with its code and reason. The message remains
	// rejected, and its duplicates get the same answer. With RejectionsHold such a dead letter blocks its
	// key. Default: false.
	Rejections, RejectionsHold bool
	// Topic is the topic for announcements of dead letters. The inbox writes one to the outbox for each dead
	// letter: a reference (failure.Announcement), or with Copy a copy of the message. If the copy is too
	// large, the inbox writes a reference instead and logs that. The copy of a message without a type has the
	// type failure.CopyType. If the message has no id, x-original-id is the identity that Skald gave it.
	// Default: none.
	Topic string
	Copy  bool
	// Headers renames the headers that a copy has in addition to the message's own headers. Its keys are
	// x-attempt, x-failed-reason, x-failed-at, x-original-id, x-original-source and x-original-topic. The
	// value "" omits a header. An own header with the same name is replaced. Default: no header is renamed.
	Headers map[string]string
}

// Identity determines which messages are duplicates of each other.
type Identity struct {
	// Of returns the identity of a message. A second message with the same identity is a duplicate, forever.
	// If Of returns an error the message fails. Default ByID.
	//
	// ByHeader, ByField, ByHash and ByPosition are for messages without an id. For a business key write a
	// function. Ids that are UUIDs of version 7 contain their time: see Retention in docs/operations.md.
	Of func(broker.Delivery) (store.Identity, error)
	// Attempt reads how often a message failed before this consumer received it, for example from a header
	// that a retry topic writes. Use AttemptByHeader or AttemptByField. Those failures count towards
	// Retry.Attempts. Default: none.
	Attempt AttemptSource
	// Fingerprint returns the bytes that must be equal in all messages with one identity. The inbox puts a
	// message with other bytes into quarantine. If Fingerprint returns nil, the inbox compares nothing.
	// Default: type and payload, without the field that AttemptByField reads.
	Fingerprint func(skald.Message) []byte
	// Repeat reports whether the inbox publishes the answer to m again for each duplicate, under the same
	// ids. The answer is the drafts of Result.Publish or of a rejection. Repeat must have returned true for
	// the first message, too. Default: no answer is published again.
	Repeat func(m skald.Message) bool
}

// Cache saves database queries. Without it the inbox is slower, but as correct.
type Cache struct {
	// Finished has the identities of finished messages. The inbox reads it before the database, so a
	// duplicate in the cache costs no statement. A wrong or lost entry does no harm: see once.Cache. Its TTL
	// must be shorter than the retention of marks, or Run returns an error. Default: none.
	Finished once.Cache
	// InProgress has the messages that other processes handle now. A duplicate of such a message waits
	// without a database connection, for at most Timeouts.Wait. The inbox uses it for each message that has a
	// transaction of its own. Default: none.
	InProgress once.Hint
}

// Retention has the options for how long marks are kept.
type Retention struct {
	// Keep makes Run delete expired rows of the database, such as marks. One instance at a time deletes them.
	// Keep needs the database rights of a relay. If Keep is nil a relay of this database must delete the
	// rows. Then Run logs a warning if no relay did so after 2 min.
	Keep *store.Retention
	// Window is how long marks are needed. Run compares it at the start with how long marks are kept.
	Window Window
}

// Instance describes the process that runs the inbox.
type Instance struct {
	// Member is the stable name of this instance at the broker. Default: none.
	Member string
	// Host and Version are stored with failures. Defaults: the name of the host, the version of the main
	// module.
	Host, Version string
}

func (o *Options) orDefaults() Options {
	var d Options
	if o != nil {
		d = *o
	}
	d.Workers = cmp.Or(d.Workers, 16)
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

// fault returns an error for an invalid option.
func (o *Options) fault() error {
	for _, n := range []struct {
		name  string
		value int64
	}{
		{"Workers", int64(o.Workers)},
		{"Batch", int64(o.Batch)},
		{"Timeouts.Handle", int64(o.Timeouts.Handle)},
		{"Timeouts.Wait", int64(o.Timeouts.Wait)},
		{"Timeouts.Drain", int64(o.Timeouts.Drain)},
		{"Limits.Unacknowledged", int64(o.Limits.Unacknowledged)},
		{"Limits.Record", int64(o.Limits.Record)},
		{"Limits.ParkedRows", o.Limits.ParkedRows},
		{"Limits.ParkedBytes", o.Limits.ParkedBytes},
		{"Limits.KeyRows", o.Limits.KeyRows},
		{"Limits.KeyBytes", o.Limits.KeyBytes},
		{"Retry.InitialInterval", int64(o.Retry.InitialInterval)},
		{"Retry.MaxInterval", int64(o.Retry.MaxInterval)},
		{"Retry.Attempts", int64(o.Retry.Attempts)},
		{"Retry.Crashes", int64(o.Retry.Crashes)},
		{"Retry.Age", int64(o.Retry.Age)},
		{"Retry.OutageRetryTime", int64(o.Retry.OutageRetryTime)},
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
	l.Unacknowledged = cmp.Or(l.Unacknowledged, 10_000)
	l.Bytes = max(cmp.Or(l.Bytes, 64<<20), 8<<20)
	l.Record = cmp.Or(l.Record, complete.MaxData)
	l.ParkedRows, l.ParkedBytes = cmp.Or(l.ParkedRows, 100_000), cmp.Or(l.ParkedBytes, 1<<30)
	l.KeyRows, l.KeyBytes = cmp.Or(l.KeyRows, 10_000), cmp.Or(l.KeyBytes, 256<<20)
}

func (r *Retry) orDefaults() {
	r.InitialInterval = cmp.Or(r.InitialInterval, 100*time.Millisecond)
	r.MaxInterval = cmp.Or(r.MaxInterval, 5*time.Minute)
	r.Attempts = cmp.Or(r.Attempts, 25)
	r.Age = cmp.Or(r.Age, 24*time.Hour)
	r.OutageRetryTime = cmp.Or(r.OutageRetryTime, 10*time.Minute)
	r.Crashes = cmp.Or(r.Crashes, 3)
}

func (i *Instance) orDefaults() {
	if i.Host == "" {
		i.Host, _ = os.Hostname() // or none
	}
	if info, ok := debug.ReadBuildInfo(); ok && i.Version == "" {
		i.Version = info.Main.Version
	}
}
