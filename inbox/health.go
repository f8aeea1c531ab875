package inbox

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/broker"
	"github.com/skald-go/skald/inbox/internal/decide"
	"github.com/skald-go/skald/internal/telemetry"
	"github.com/skald-go/skald/internal/vitals"
	"github.com/skald-go/skald/store"
)

// Health is the state of an inbox. During an outage of the broker or the database the inbox is live, but not
// ready: a restart would not help. docs/operations.md lists the health for each fault, and the delays.
type Health struct {
	Live  bool   // false only after Run has ended
	Ready bool   // subscribed, database and broker answer, and messages that are ready get finished
	Why   string // why it is not ready: one line, the innermost cause first
	// Alarm is why the broker accepts no messages at the moment, for example because it is short of memory or
	// disk. The broker still delivers. Empty means that it accepts messages.
	Alarm string
	// Stopped is why the consumer is stopped: an operator paused it, or the breaker is open. A stopped
	// consumer is not ready. Empty means that it is not stopped.
	Stopped string

	// Stuck lists at most 100 messages. First come messages with failures that do not count: there is an
	// outage, the store refuses to park them, or their handler hangs. Then come the parked messages of all
	// instances that failed and block their keys, as of the last count.
	Stuck []Stuck
	// Parked and Dead count the parked messages and the dead letters in the store, as of the last count.
	Parked, Dead int64
	// Quarantined counts the messages of the consumer in quarantine, as of the last count. At
	// store.QuarantineOfAll messages the consumer acknowledges further ones without storing them.
	Quarantined int64
	// Failing lists background operations that failed more than once in a row. If there are any, the process
	// is not ready.
	Failing []Failing

	// Received and the fields up to Missed are counts of this process, since New.
	Received, Handled, Rejected, Duplicates, Skipped, Failures int64 // Failures: failed attempts
	// Barred counts messages for a step that was undone before they came.
	Barred            int64
	Conflicts, TooOld int64 // put into quarantine
	// Cached counts the duplicates that Options.Cache.Finished had. Duplicates includes them.
	Cached int64
	// ForOtherBuilds counts messages that are parked for a build with a handler for their type.
	ForOtherBuilds int64
	// Parkings counts how often messages were parked: behind an earlier message of their key, for a later
	// time, or after a failure.
	Parkings int64
	// UnknownSettled counts outside calls with an outcome that was unknown for a while.
	UnknownSettled int64
	// Missed counts messages that the broker removed before the inbox read them.
	Missed         int64
	Unacknowledged int // deliveries in memory now
	// Paused lists the partitions with too many deliveries in memory.
	Paused []string
}

// Stuck is a message that failed and that the inbox retries. The later messages of its key wait. The message
// is parked or, during its first attempts, still in its partition.
type Stuck struct {
	Topic, Partition string
	Position         int64
	ID, Type         string
	Attempts         int
	Since            time.Time
	Error            string
	// Uncounted reports that the failures do not count yet: they are temporary (Retry.OutageRetryTime), the
	// store refuses to park the message, or its handler hangs.
	Uncounted bool
}

func (s Stuck) String() string {
	return fmt.Sprintf("%s at %s/%d (%s %s), %d attempts since %s: %s", s.Topic, s.Partition, s.Position,
		s.Type, s.ID,
		s.Attempts, s.Since.Format(time.RFC3339), s.Error)
}

const maxStuck = 100

// Health returns the current state. It is safe for concurrent use.
func (in *Inbox[TTx]) Health() Health {
	in.mu.Lock()
	defer in.mu.Unlock()
	h := in.health
	h.Stuck, h.Paused, h.Failing = slices.Clone(h.Stuck), slices.Clone(h.Paused), slices.Clone(h.Failing)
	in.judge(&h)
	return h
}

// Status returns the state for skald.Run and package health.
func (in *Inbox[TTx]) Status() skald.Status {
	h := in.Health()
	return skald.Status{Name: "consumer " + in.group, Stage: skald.Handling, Live: h.Live, Ready: h.Ready,
		Why: h.Why}
}

func (in *Inbox[TTx]) inboxState() telemetry.InboxState {
	in.mu.Lock()
	defer in.mu.Unlock()
	h := in.health
	in.judge(&h)
	s := telemetry.InboxState{Unacknowledged: in.health.Unacknowledged, Stuck: len(in.health.Stuck),
		Paused: len(in.health.Paused), Ready: h.Ready}
	if in.health.Stopped != "" {
		s.Stopped = 1
	}
	return s
}

func (in *Inbox[TTx]) count(f func(*Health)) {
	in.mu.Lock()
	f(&in.health)
	in.mu.Unlock()
}

func (h *Health) add(what decide.Ending) {
	switch what {
	case decide.Handled:
		h.Handled++
	case decide.Duplicate:
		h.Duplicates++
	case decide.Rejected:
		h.Rejected++
	case decide.Barred:
		h.Barred++
	case decide.Conflict:
		h.Conflicts++
	case decide.TooOld:
		h.TooOld++
	case decide.Failed, decide.Dead, decide.Delayed:
		h.Failures++
	}
}

// report updates the health from the state of Run or Step. Only their goroutine calls it.
func (in *Inbox[TTx]) report(outage error) {
	held, paused, full := 0, []string(nil), []string(nil)
	for name, l := range in.checkpoints.Partitions {
		held += len(l.Entries)
		if l.Paused {
			paused = append(paused, name)
		}
		if l.Full > 0 {
			full = append(full, name)
		}
	}
	slices.Sort(paused)
	slices.Sort(full)
	alarm := in.alarmed()
	in.mu.Lock()
	defer in.mu.Unlock()
	waits, failing := append(in.stuckInHandlers(), in.uncounted()...), in.work.Lasting()
	failed := slices.DeleteFunc(slices.Clone(in.stuck), func(s Stuck) bool {
		return slices.ContainsFunc(waits, func(w Stuck) bool { return w.Topic == s.Topic && w.ID == s.ID })
	})
	in.health.Stuck = slices.Concat(waits, bySince(failed))
	in.health.Stuck = in.health.Stuck[:min(len(in.health.Stuck), maxStuck)]
	in.health.Failing = failing
	in.health.Unacknowledged, in.health.Paused, in.health.Alarm = held, paused, alarm
	in.health.Parked, in.health.Dead = in.kept.Parked, in.kept.Dead
	in.health.Live, in.health.Ready, in.health.Why = true, outage == nil, ""
	if len(full) > 0 {
		in.health.Ready, in.health.Why = false, fmt.Sprintf("partitions wait, because the consumer "+
			"may park no more messages: %s: repair the cause of the failures (skald parked list --consumer %s), or raise Limits",
			strings.Join(full, ", "), in.group)
	}
	if in.health.Stopped = in.breaker.Why(); in.health.Stopped != "" {
		in.health.Ready, in.health.Why = false, "stopped by the breaker: "+in.health.Stopped
	}
	if why := in.orders.Why(); why != "" {
		in.health.Stopped, in.health.Ready, in.health.Why = why, false, why
	}
	if len(failing) > 0 {
		in.health.Ready, in.health.Why = false, failing[0].Doing+": "+failing[0].Error
	}
	if why := in.delays.Unkept(in.o.Now()); why != "" {
		in.health.Ready, in.health.Why = false, why
	}
	if in.allStuck != "" {
		in.health.Ready, in.health.Why = false, in.allStuck
	}
	if in.absent.why != "" {
		in.health.Ready, in.health.Why = false, in.absent.why
	}
	if outage != nil {
		in.health.Ready, in.health.Why = false, vitals.Why(outage)
	}
}

// alarmed returns why the broker accepts no messages, or "". It logs when that begins and when it ends.
func (in *Inbox[TTx]) alarmed() string {
	if in.sub == nil { // not open yet
		return ""
	}
	now := in.sub.Alarm()
	switch was := in.Health().Alarm; {
	case was == "" && now != "":
		in.o.Logger.Warn("inbox: the broker accepts no messages; it still delivers those it has", "consumer",
			in.group, "why", now)
	case was != "" && now == "":
		in.o.Logger.Info("inbox: the broker accepts messages again", "consumer", in.group)
	}
	return now
}

// stuckOf converts parked messages that failed to entries of Health.Stuck.
func stuckOf(ps []store.Parked) []Stuck {
	var out []Stuck
	for _, p := range ps {
		reason, _, _ := strings.Cut(p.Last.Why, "\n")
		out = append(out, Stuck{Topic: p.Message.Topic, Partition: p.Partition, Position: p.Position,
			ID: p.ID, Type: p.Message.Type,
			Attempts: p.Attempts, Since: p.First.At, Error: reason, Uncounted: p.Attempts == 0})
	}
	return out
}

func bySince(all []Stuck) []Stuck {
	slices.SortFunc(all, func(a, b Stuck) int {
		return cmp.Or(a.Since.Compare(b.Since), cmp.Compare(a.Partition, b.Partition),
			cmp.Compare(a.Position, b.Position))
	})
	return all
}

// Idle reports whether each received delivery is acknowledged: finished or in the store. It is for callers of
// Step, because Step may do nothing while a delivery waits for another transaction or the database.
func (in *Inbox[TTx]) Idle(context.Context) (bool, error) {
	return in.Health().Unacknowledged == 0, nil
}

func (in *Inbox[TTx]) backlog(ctx context.Context) (store.Backlog, error) {
	return store.ReadBacklog(ctx, in.db)
}

// Backlog returns the backlog of the database, for callers of Step: its outbox, and the stored messages
// of this consumer.
func (in *Inbox[TTx]) Backlog(ctx context.Context) (store.Backlog, error) {
	b, err := store.ReadBacklog(ctx, in.db)
	b.PerConsumer = slices.DeleteFunc(b.PerConsumer,
		func(k store.ConsumerBacklog) bool { return k.Consumer != in.group })
	return b, err
}

// Stored returns the first parked messages and dead letters of this consumer, at most limit, without their
// payloads.
func (in *Inbox[TTx]) Stored(ctx context.Context, limit int) ([]store.Parked, error) {
	return store.ListParked(ctx, in.db, store.ParkedQuery{Consumer: in.group, Bare: true, Limit: limit})
}

// uncounted returns the messages with several attempts in a row that did not count, the oldest first.
func (in *Inbox[TTx]) uncounted() (out []Stuck) {
	for _, m := range in.delays.Lasting(in.o.Now()) {
		out = append(out, Stuck{Topic: m.Topic, Partition: m.Partition, Position: m.Position, ID: m.ID,
			Type: m.Type, Attempts: m.Attempts, Since: m.Since, Error: m.Error, Uncounted: true})
	}
	return bySince(out)
}

// lag returns how many messages wait at the broker for this consumer, by topic. For other consumers it
// returns telemetry.ErrNotMine: they may have another broker, and a relay or their own processes report their
// lag.
func (in *Inbox[TTx]) lag(ctx context.Context, consumer string, topics []string) (map[string]int64, error) {
	b, ok := in.bus.(broker.Lagger)
	if !ok || consumer != in.group {
		return nil, telemetry.ErrNotMine
	}
	return lag(ctx, b, consumer, topics...)
}
