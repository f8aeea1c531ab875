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
	"strings"
	"time"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/failure"
	"github.com/skald-go/skald/inbox/internal/decide"
	"github.com/skald-go/skald/inbox/internal/exec"
	"github.com/skald-go/skald/inbox/internal/partition"
	"github.com/skald-go/skald/internal/backoff"
	"github.com/skald-go/skald/store"
)

// lasting is how many attempts in a row a message may end without a charge before it is logged and listed: a
// deadlock, a rival, a failover of a second are over by then.
const lasting = 3

// forgotten is how long a message that was not tried again is listed: it is another instance's by then.
const forgotten = 5 * time.Minute

// A message is one of which attempts end without a charge: its database or a service is away, or the store
// refuses to keep it.
type message struct {
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

// messages are those whose last attempts ended so. They belong to one goroutine.
type messages struct {
	log *slog.Logger
	of  map[store.Identity]*message
	say backoff.Rarely
	// of those that are parked
	parked backoff.Rarely
	// later is for messages that wait after skald.RetryAfter.
	later backoff.Rarely
	// of dead letters that their publishers cause, and of those that were not tried
	faulty   backoff.Rarely
	unlogged int // of these, since the last line
}

// newMessages are none yet. Log names the consumer.
func newMessages(log *slog.Logger) *messages {
	return &messages{log: log, of: map[store.Identity]*message{}, say: backoff.Seldom(),
		parked: backoff.Seldom(), later: backoff.Seldom(), faulty: backoff.Seldom()}
}

// Note notes how an attempt ended.
func (m *messages) Note(ctx context.Context, r exec.Result, now time.Time) {
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
		d = &message{of: e.Chain.Partition, Topic: e.Topic, Partition: e.Partition, Position: e.Position,
			ID: id.ID, Type: e.Type, Since: now}
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
func (m *messages) Complain(ctx context.Context, r exec.Result, keyWaits bool, now time.Time) {
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
func (m *messages) Attempts(id store.Identity) int {
	if d := m.of[id]; d != nil {
		return d.Attempts
	}
	return 0
}

// Refused are the refusals of the store to park a message, in a row.
func (m *messages) Refused(id store.Identity) (r partition.Refusals) {
	if d := m.of[id]; d != nil {
		return d.refused
	}
	return r
}

// Unkept returns why a message can neither be parked nor become a dead letter, so that its partition will
// stop; "": there is none.
func (m *messages) Unkept(now time.Time) string {
	for id, d := range m.of {
		if !d.of.Lost && d.refused.Last(now) {
			return fmt.Sprintf("message %s of partition %s at position %d cannot be parked, nor become a dead letter: "+
				"repair the store: %s", id.ID, d.Partition, d.Position, d.Error)
		}
	}
	return ""
}

// Lasting are those that are listed. Those that are not ours any more are forgotten.
func (m *messages) Lasting(now time.Time) (out []message) {
	for id, d := range m.of {
		if d.of.Lost || now.Sub(d.last) > forgotten {
			delete(m.of, id)
		} else if d.Attempts >= lasting {
			out = append(out, *d)
		}
	}
	return out
}
