// This file logs and lists failures that may repeat forever: attempts that do not count, and background
// operations on the store. It logs neither the first failure nor each later one.

package inbox

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/bits"
	"slices"
	"strings"
	"time"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/failure"
	"github.com/skald-go/skald/inbox/internal/decide"
	"github.com/skald-go/skald/inbox/internal/exec"
	"github.com/skald-go/skald/inbox/internal/partition"
	"github.com/skald-go/skald/internal/backoff"
	"github.com/skald-go/skald/internal/vitals"
	"github.com/skald-go/skald/store"
)

// lasting is the number of attempts in a row, none of them counted, after which a message is logged and
// listed. A deadlock or a failover of a second is over by then.
const lasting = 3

// forgotten is how long a message is listed after its last attempt. After this time another instance must
// have it.
const forgotten = 5 * time.Minute

// troubledMessage is a message with attempts that did not count: its database or a service is unavailable, or
// the store refuses to park it.
type troubledMessage struct {
	Topic, Partition string
	Position         int64
	ID, Type         string
	Attempts         int
	Since            time.Time
	Error            string

	of      *partition.Partition
	last    time.Time
	refused partition.Refusals
}

// troubledMessages has the messages with a last attempt that did not count. Only one goroutine uses it.
type troubledMessages struct {
	log   *slog.Logger
	of    map[store.Identity]*troubledMessage
	limit backoff.LogLimit
	// parked limits the log lines about messages that were parked after a temporary failure.
	parked backoff.LogLimit
	// later limits the log lines about messages that wait after skald.RetryAfter.
	later backoff.LogLimit
	// faulty limits the log lines about dead letters that publishers caused or that were never tried.
	faulty   backoff.LogLimit
	unlogged int // dead letters that faulty has not logged since its last line
}

// newTroubledMessages returns an empty list. Log has the name of the consumer.
func newTroubledMessages(log *slog.Logger) *troubledMessages {
	return &troubledMessages{log: log, of: map[store.Identity]*troubledMessage{},
		limit: backoff.NewLogLimit(), parked: backoff.NewLogLimit(), later: backoff.NewLogLimit(),
		faulty: backoff.NewLogLimit()}
}

// Note records the result of an attempt, and logs it if it belongs to a lasting failure.
func (m *troubledMessages) Note(ctx context.Context, r exec.Result, now time.Time) {
	e := r.Entry
	if r.What == decide.Delayed && m.parked.Due(now) {
		m.log.WarnContext(ctx, "inbox: a message fails temporarily; it is parked, and its key waits",
			"topic", e.Topic, "partition", e.Partition, "position", e.Position, "id", e.Identity().ID,
			"type", e.Type, "since", r.Since, "next", r.After, "error", r.Err)
	}
	if asked := (*skald.LaterError)(nil); r.What == decide.Later && errors.As(r.Err, &asked) &&
		m.later.Due(now) {
		m.log.InfoContext(ctx, "inbox: a handler asked for a later retry; its message is parked, and its key waits",
			"topic", e.Topic, "partition", e.Partition, "position", e.Position, "id", e.Identity().ID,
			"type", e.Type, "next", r.After, "error", r.Err)
	}
	waits := r.What == decide.Outage || r.What == decide.NotParked
	if !waits && len(m.of) == 0 {
		return
	}
	id := e.Identity()
	switch r.What {
	case decide.Outage, decide.NotParked:
	case decide.Again, decide.NotAttempted, decide.Full, decide.Stale:
		return
	default:
		if delete(m.of, id); len(m.of) == 0 {
			m.limit.Over()
		}
		return
	}
	d := m.of[id]
	if d == nil {
		d = &troubledMessage{of: e.Chain.Partition, Topic: e.Topic, Partition: e.Partition,
			Position: e.Position, ID: id.ID, Type: e.Type, Since: now}
		m.of[id] = d
	}
	d.Attempts, d.last = d.Attempts+1, now
	d.Error, _, _ = strings.Cut(exec.Cause(r.Err).Error(), "\n")
	if r.What == decide.NotParked {
		d.refused.Add(now)
	}
	e.Refused = d.refused
	text, unknown := "inbox: a message waits for an outage to end", r.What == decide.NotParked
	if unknown {
		text = "inbox: a message cannot be parked, for an unknown reason; it is retried, and its key waits"
	}
	if unknown && bits.OnesCount(uint(d.Attempts)) == 1 || !unknown && d.Attempts >= lasting &&
		m.limit.Due(now) {
		m.log.WarnContext(ctx, text, "topic", e.Topic, "partition", e.Partition, "position", e.Position,
			"id", id.ID, "type", e.Type, "attempt", d.Attempts, "since", d.Since, "error", r.Err)
	}
}

// Complain logs the failures 1, 2, 4, 8 … of a message, and each dead letter, so that an endless failure does
// not fill the log. For malformed, too large and untried messages it logs one line per pause, with their
// number.
func (m *troubledMessages) Complain(ctx context.Context, r exec.Result, keyWaits bool, now time.Time) {
	e := r.Entry
	with := []any{"topic", e.Topic, "partition", e.Partition, "position", e.Position, "id", e.Identity().ID,
		"type", e.Type, "attempt", r.Attempts, "error", r.Err}
	switch {
	case r.What == decide.Dead:
		if r.Class == failure.Malformed || r.Class == failure.TooLarge || r.Unparked {
			m.unlogged++
			if !m.faulty.Due(now) {
				return
			}
			with = append(with, "count_since_last_line", m.unlogged)
			m.unlogged = 0
		}
		m.log.ErrorContext(ctx, "inbox: message is a dead letter: skald dead show",
			append(with, "key_waits", keyWaits)...)
	case bits.OnesCount(uint(r.Attempts)) == 1:
		m.log.WarnContext(ctx, "inbox: message failed; it is parked, and its key waits",
			append(with, "next", r.After)...)
	}
}

// Attempts returns the number of attempts in a row that did not count, for the message id.
func (m *troubledMessages) Attempts(id store.Identity) int {
	if d := m.of[id]; d != nil {
		return d.Attempts
	}
	return 0
}

// Refused returns how often in a row the store refused to park the message id.
func (m *troubledMessages) Refused(id store.Identity) (r partition.Refusals) {
	if d := m.of[id]; d != nil {
		return d.refused
	}
	return r
}

// Unkept returns an error text if the store refuses to store a message at all, so that its partition stops.
// It returns "" if there is no such message.
func (m *troubledMessages) Unkept(now time.Time) string {
	for id, d := range m.of {
		if !d.of.Lost && d.refused.Last(now) {
			return fmt.Sprintf("message %s of partition %s at position %d cannot be parked, nor become a dead letter: "+
				"repair the store: %s", id.ID, d.Partition, d.Position, d.Error)
		}
	}
	return ""
}

// Lasting returns the messages to list. It drops the messages that this process does not have any more.
func (m *troubledMessages) Lasting(now time.Time) (out []troubledMessage) {
	for id, d := range m.of {
		if d.of.Lost || now.Sub(d.last) > forgotten {
			delete(m.of, id)
		} else if d.Attempts >= lasting {
			out = append(out, *d)
		}
	}
	return out
}

// storeWork has the failing background operations on the store. Only one goroutine uses it.
type storeWork struct {
	log *slog.Logger
	of  map[string]*lastingFailure // by Failing.Doing
}

// lastingFailure is a Failing with the state of its log lines.
type lastingFailure struct {
	Failing
	limit backoff.LogLimit
}

// newStoreWork returns a storeWork without failures. Log has the name of the consumer.
func newStoreWork(log *slog.Logger) *storeWork {
	return &storeWork{log: log, of: map[string]*lastingFailure{}}
}

// Did records the result of an operation on the store. If outage is true, the database was unavailable. Did
// logs the second failure in a row, and then at growing intervals.
func (w *storeWork) Did(ctx context.Context, doing string, err error, outage bool, now time.Time) {
	f := w.of[doing]
	if err == nil {
		if f != nil {
			delete(w.of, doing)
			if f.limit.Over() {
				w.log.InfoContext(ctx, "inbox: an operation on the store succeeds again", "doing", doing, "since",
					f.Since)
			}
		}
		return
	}
	if f == nil {
		f = &lastingFailure{Failing: Failing{Doing: doing, Since: now}, limit: backoff.NewLogLimit()}
		w.of[doing] = f
	}
	f.Times++
	f.Error = vitals.Why(err)
	if f.Times > 1 && f.limit.Due(now) {
		w.log.WarnContext(ctx, "inbox: an operation on the store fails repeatedly", "doing", doing,
			"times", f.Times, "since", f.Since, "outage", outage, "error", err)
	}
}

// Lasting returns the operations that failed more than once in a row, sorted by name.
func (w *storeWork) Lasting() (out []Failing) {
	for _, f := range w.of {
		if f.Times > 1 {
			out = append(out, f.Failing)
		}
	}
	slices.SortFunc(out, func(a, b Failing) int { return strings.Compare(a.Doing, b.Doing) })
	return out
}

// Failing is a background operation on the store that fails repeatedly.
type Failing struct {
	Doing string // "claim parked messages"
	Since time.Time
	Times int // in a row
	Error string
}

// Values of Failing.Doing.
const (
	claiming     = "claim parked messages"
	counting     = "count parked messages"
	noting       = "store positions"
	readingTypes = "look up which types other builds handle"
	lookingUp    = "look up finished messages"
	readingKey   = "read the key of fingerprints"
	admitting    = "take admitted messages out of quarantine"
)

// recordResult records the result of an operation on the store.
func (in *Inbox[TTx]) recordResult(ctx context.Context, doing string, err error) {
	away := err != nil && in.exec.Unavailable(err)
	if err != nil {
		in.tel.Failing(doing)
		in.noteCall(ctx, err)
	}
	in.work.Did(ctx, doing, err, away, in.o.Now())
}

// isUp reports whether the database answered the last probe, or no probe was made. This state began at the
// time since, or since is zero if the state never changed.
func (in *Inbox[TTx]) isUp() (since time.Time, up bool) {
	a := in.probe.Last()
	return a.Since, a.Err == nil
}

// suspectOutage probes the database. Run does not wait for the answer, Step does.
func (in *Inbox[TTx]) suspectOutage(ctx context.Context) {
	if in.checkpoints.Patient() {
		in.probe.Ask(context.WithoutCancel(ctx))
	} else {
		in.probe.AskNow(ctx)
	}
}
