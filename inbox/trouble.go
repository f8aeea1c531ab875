// This file knows what fails again and again without an end of its own: messages whose attempts are
// not charged, and work on the store beside the messages. Once is chance; what lasts is logged, seldom, and
// listed.

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

// lasting is how many attempts in a row a message may end without a charge before it is logged and listed: a
// deadlock, a rival, a failover of a second are over by then.
const lasting = 3

// forgotten is how long a message that was not tried again is listed: it is another instance's by then.
const forgotten = 5 * time.Minute

// troubledMessage is a message with attempts that ended without a charge: its database or a service is away,
// or the store refuses to keep it.
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

// troubledMessages are those whose last attempts ended so. They belong to one goroutine.
type troubledMessages struct {
	log *slog.Logger
	of  map[store.Identity]*troubledMessage
	say backoff.Rarely
	// of those that are parked
	parked backoff.Rarely
	// later is for messages that wait after skald.RetryAfter.
	later backoff.Rarely
	// of dead letters that their publishers cause, and of those that were not tried
	faulty   backoff.Rarely
	unlogged int // of these, since the last line
}

// newTroubledMessages are none yet. Log names the consumer.
func newTroubledMessages(log *slog.Logger) *troubledMessages {
	return &troubledMessages{log: log, of: map[store.Identity]*troubledMessage{}, say: backoff.Seldom(),
		parked: backoff.Seldom(), later: backoff.Seldom(), faulty: backoff.Seldom()}
}

// Note notes how an attempt ended.
func (m *troubledMessages) Note(ctx context.Context, r exec.Result, now time.Time) {
	e := r.Entry
	if r.What == decide.Delayed && m.parked.Due(now) {
		m.log.WarnContext(ctx, "inbox: a message fails by what may pass; it is parked, and its key waits",
			"topic", e.Topic, "partition", e.Partition, "position", e.Position, "id", e.Identity().ID,
			"type", e.Type, "since", r.Since, "next", r.After, "error", r.Err)
	}
	if asked := (*skald.LaterError)(nil); r.What == decide.Later && errors.As(r.Err, &asked) &&
		m.later.Due(now) {
		m.log.InfoContext(ctx, "inbox: a message is to be tried later; it is parked, and its key waits",
			"topic", e.Topic, "partition", e.Partition, "position", e.Position, "id", e.Identity().ID,
			"type", e.Type, "next", r.After, "error", r.Err)
	}
	waits := r.What == decide.Outage || r.What == decide.Unkept
	if !waits && len(m.of) == 0 {
		return
	}
	id := e.Identity()
	switch r.What {
	case decide.Outage, decide.Unkept:
	case decide.Again, decide.Left, decide.Full, decide.Stale:
		return
	default:
		if delete(m.of, id); len(m.of) == 0 {
			m.say.Over()
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
	if r.What == decide.Unkept {
		d.refused.Add(now)
	}
	e.Refused = d.refused
	text, unknown := "inbox: a message waits for an outage to end", r.What == decide.Unkept
	if unknown {
		text = "inbox: a message cannot be parked, for a reason that Skald does not know; it is tried again, and its key waits"
	}
	if unknown && bits.OnesCount(uint(d.Attempts)) == 1 || !unknown && d.Attempts >= lasting &&
		m.say.Due(now) {
		m.log.WarnContext(ctx, text, "topic", e.Topic, "partition", e.Partition, "position", e.Position,
			"id", id.ID, "type", e.Type, "attempt", d.Attempts, "since", d.Since, "error", r.Err)
	}
}

// Complain logs the failures 1, 2, 4, 8 … of a message, and each dead letter: an endless failure must not
// fill the log. Of malformed, too large and untried messages it logs the first, then one after a pause,
// with the count of the others: a publisher must not fill the log either.
func (m *troubledMessages) Complain(ctx context.Context, r exec.Result, keyWaits bool, now time.Time) {
	e := r.Entry
	with := []any{"topic", e.Topic, "partition", e.Partition, "position", e.Position, "id", e.Identity().ID,
		"type", e.Type, "attempt", r.Attempts, "error", r.Err}
	switch {
	case r.What == decide.Dead:
		if r.Class == failure.Malformed || r.Class == failure.TooLarge || r.Untried {
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

// Attempts are those in a row that a message ended without a charge.
func (m *troubledMessages) Attempts(id store.Identity) int {
	if d := m.of[id]; d != nil {
		return d.Attempts
	}
	return 0
}

// Refused are the refusals of the store to park a message, in a row.
func (m *troubledMessages) Refused(id store.Identity) (r partition.Refusals) {
	if d := m.of[id]; d != nil {
		return d.refused
	}
	return r
}

// Unkept returns why a message can neither be parked nor become a dead letter, so that its partition will
// stop; "": there is none.
func (m *troubledMessages) Unkept(now time.Time) string {
	for id, d := range m.of {
		if !d.of.Lost && d.refused.Last(now) {
			return fmt.Sprintf("message %s of partition %s at position %d cannot be parked, nor become a dead letter: "+
				"repair the store: %s", id.ID, d.Partition, d.Position, d.Error)
		}
	}
	return ""
}

// Lasting are those that are listed. Those that are not ours any more are forgotten.
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

// storeWork is what fails so. It belongs to one goroutine.
type storeWork struct {
	log *slog.Logger
	of  map[string]*lastingFailure // by what is done
}

// A lastingFailure is a Failing with what is logged of it.
type lastingFailure struct {
	Failing
	say backoff.Rarely
}

// newStoreWork is work of which nothing fails. Log names the consumer.
func newStoreWork(log *slog.Logger) *storeWork {
	return &storeWork{log: log, of: map[string]*lastingFailure{}}
}

// Did notes how work on the store ended; outage: a failure was nobody's fault. What fails twice in a row is
// logged, seldom while it lasts.
func (w *storeWork) Did(ctx context.Context, doing string, err error, outage bool, now time.Time) {
	f := w.of[doing]
	if err == nil {
		if f != nil {
			delete(w.of, doing)
			if f.say.Over() {
				w.log.InfoContext(ctx, "inbox: what failed goes well again", "doing", doing, "since", f.Since)
			}
		}
		return
	}
	if f == nil {
		f = &lastingFailure{Failing: Failing{Doing: doing, Since: now}, say: backoff.Seldom()}
		w.of[doing] = f
	}
	f.Times++
	f.Error = vitals.Why(err)
	if f.Times > 1 && f.say.Due(now) {
		w.log.WarnContext(ctx, "inbox: the store fails again and again", "doing", doing, "times", f.Times,
			"since", f.Since, "outage", outage, "error", err)
	}
}

// Lasting is what failed more than once in a row, by name.
func (w *storeWork) Lasting() (out []Failing) {
	for _, f := range w.of {
		if f.Times > 1 {
			out = append(out, f.Failing)
		}
	}
	slices.SortFunc(out, func(a, b Failing) int { return strings.Compare(a.Doing, b.Doing) })
	return out
}

// Failing is work on the store, beside the messages themselves, that fails again and again.
type Failing struct {
	Doing string // "claim parked messages"
	Since time.Time
	Times int // in a row
	Error string
}

// What may fail so.
const (
	claiming     = "claim parked messages"
	counting     = "count parked messages"
	noting       = "store positions"
	knowingTypes = "look up who handles which types"
	lookingUp    = "look up finished messages"
	readingKey   = "read the key of fingerprints"
	admitting    = "take admitted messages out of quarantine"
)

// did notes how work on the store ended.
func (in *Inbox[TTx]) did(ctx context.Context, doing string, err error) {
	away := err != nil && in.exec.Away(err)
	if err != nil {
		in.tel.Failing(doing)
		in.called(ctx, err)
	}
	in.work.Did(ctx, doing, err, away, in.o.Now())
}

// up tells whether the database answered when it was asked last, or was never asked; and since when, if it
// did not before.
func (in *Inbox[TTx]) up() (since time.Time, up bool) {
	a := in.probe.Last()
	return a.Since, a.Err == nil
}

// suspectOutage asks the database whether it is there: Run in the background, Step at once.
func (in *Inbox[TTx]) suspectOutage(ctx context.Context) {
	if in.checkpoints.Patient() {
		in.probe.Ask(context.WithoutCancel(ctx))
	} else {
		in.probe.AskNow(ctx)
	}
}
