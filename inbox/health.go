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

// Health is how an inbox does. An outage of broker or database makes it not ready, never not live: a restart
// cures none. docs/operations.md has what is reported for each fault, and how soon.
type Health struct {
	Live  bool   // false only when Run has ended
	Ready bool   // subscribed; database and broker answer; and where messages are at work, some are finished
	Why   string // it is not ready: one line, the innermost cause first
	// Alarm says why the broker takes nothing for the moment, while messages go on coming: it is short of
	// memory or disk. "": it does.
	Alarm string
	// Stopped says who paused the consumer, or why the breaker lets nothing be taken, or one message at a
	// time; "": neither. Then it is not ready.
	Stopped string

	// Stuck are the parked messages that failed and hold their keys, whichever instance parked them, at most
	// 100, and Parked and Dead how many the store keeps, dead letters too: as of a moment ago. Before them
	// stand those that this process tries again and again without a charge, because of an outage or a store
	// that refuses to keep them.
	Stuck        []Stuck
	Parked, Dead int64
	// Quarantined counts the messages of the consumer in quarantine, a moment ago. At store.QuarantineOfAll
	// messages the consumer acknowledges further ones without storing them.
	Quarantined int64
	// Failing lists background operations that failed more than once in a row. The process is not ready then.
	Failing []Failing

	// Received and the fields up to Missed are counts of this process, since New.
	Received, Handled, Rejected, Duplicates, Skipped, Failures int64 // Failures: failed attempts
	// Barred counts messages with a step that was undone before they came.
	Barred            int64
	Conflicts, TooOld int64 // put into quarantine
	// Cached counts those of Duplicates that Options.Cache.Finished had.
	Cached int64
	// Left counts messages that are parked for a build with a handler for their type.
	Left int64
	// Parkings counts parked messages: behind others, for later, or after a failure.
	Parkings int64
	// UnknownSettled counts external calls with an outcome that was unknown for a while.
	UnknownSettled int64
	// Missed counts messages that the broker removed before the inbox read them.
	Missed         int64
	Unacknowledged int // deliveries in memory now
	// Paused are partitions with too many deliveries in memory.
	Paused []string
}

// Stuck message failed and is tried again; the messages of its key wait behind it. It is parked, or tried
// at its place for the first times.
type Stuck struct {
	Topic, Partition string
	Position         int64
	ID, Type         string
	Attempts         int
	Since            time.Time
	Error            string
	// Uncharged reports that its failures do not count yet (Retry.Uncharged), because they may pass, or
	// because the store refuses to park it.
	Uncharged bool
}

func (s Stuck) String() string {
	return fmt.Sprintf("%s at %s/%d (%s %s), %d attempts since %s: %s", s.Topic, s.Partition, s.Position,
		s.Type, s.ID,
		s.Attempts, s.Since.Format(time.RFC3339), s.Error)
}

const maxStuck = 100

// Health may be called at any time from any goroutine.
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

func (in *Inbox[TTx]) standing() telemetry.Standing {
	in.mu.Lock()
	defer in.mu.Unlock()
	h := in.health
	in.judge(&h)
	s := telemetry.Standing{Unacknowledged: in.health.Unacknowledged, Stuck: len(in.health.Stuck),
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

// report publishes what the goroutine of Run or Step knows.
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
	waits, failing := append(in.stuckInHandlers(), in.uncharged()...), in.work.Lasting()
	in.health.Stuck = slices.Concat(waits, bySince(slices.Clone(in.stuck)))
	in.health.Stuck = in.health.Stuck[:min(len(in.health.Stuck), maxStuck)]
	in.health.Failing = failing
	in.health.Unacknowledged, in.health.Paused, in.health.Alarm = held, paused, alarm
	in.health.Parked, in.health.Dead = in.kept.Parked, in.kept.Dead
	in.health.Live, in.health.Ready, in.health.Why = true, outage == nil, ""
	if len(full) > 0 {
		in.health.Ready, in.health.Why = false, fmt.Sprintf("partitions wait, as no more may be parked "+
			"for the consumer: %s: repair what fails (skald parked list --consumer %s), or raise Limits",
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

// alarmed is why the broker takes nothing, which is logged when it begins and when it is over.
func (in *Inbox[TTx]) alarmed() string {
	if in.sub == nil { // not open yet
		return ""
	}
	now := in.sub.Alarm()
	switch was := in.Health().Alarm; {
	case was == "" && now != "":
		in.o.Logger.Warn("inbox: the broker takes nothing; what it has goes on coming", "consumer",
			in.group, "why", now)
	case was != "" && now == "":
		in.o.Logger.Info("inbox: the broker takes messages again", "consumer", in.group)
	}
	return now
}

// stuckOf names parked messages that failed.
func stuckOf(ps []store.Parked) []Stuck {
	var out []Stuck
	for _, p := range ps {
		reason, _, _ := strings.Cut(p.Last.Why, "\n")
		out = append(out, Stuck{Topic: p.Message.Topic, Partition: p.Partition, Position: p.Position,
			ID: p.ID, Type: p.Message.Type,
			Attempts: p.Attempts, Since: p.First.At, Error: reason, Uncharged: p.Attempts == 0})
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

// Quiet tells whether no delivery is in hand: each that came is finished, or kept by the store. It is for
// those who step an inbox: a Step may do nothing while a delivery waits for a rival or for the database.
func (in *Inbox[TTx]) Quiet(context.Context) (bool, error) {
	return in.Health().Unacknowledged == 0, nil
}

func (in *Inbox[TTx]) backlog(ctx context.Context) (store.Backlog, error) {
	return store.ReadBacklog(ctx, in.db)
}

// Backlog tells how the database stands, for those who step an inbox: its outbox, and what it keeps for this
// consumer.
func (in *Inbox[TTx]) Backlog(ctx context.Context) (store.Backlog, error) {
	b, err := store.ReadBacklog(ctx, in.db)
	b.Kept = slices.DeleteFunc(b.Kept, func(k store.Kept) bool { return k.Consumer != in.group })
	return b, err
}

// Kept are the first parked messages and dead letters of this consumer, at most limit, without their
// payloads.
func (in *Inbox[TTx]) Kept(ctx context.Context, limit int) ([]store.Parked, error) {
	return store.ListKept(ctx, in.db, store.Sought{Consumer: in.group, Bare: true, Limit: limit})
}

// uncharged are messages whose attempts end without a charge again and again, the oldest first.
func (in *Inbox[TTx]) uncharged() (out []Stuck) {
	for _, m := range in.delays.Lasting(in.o.Now()) {
		out = append(out, Stuck{Topic: m.Topic, Partition: m.Partition, Position: m.Position, ID: m.ID,
			Type: m.Type, Attempts: m.Attempts, Since: m.Since, Error: m.Error, Uncharged: true})
	}
	return bySince(out)
}

// lag tells how much waits at the broker for this consumer. Others of its database may have another broker: a
// relay, or their own processes, report theirs.
func (in *Inbox[TTx]) lag(ctx context.Context, consumer string, topics []string) (map[string]int64, error) {
	b, ok := in.bus.(broker.Lagger)
	if !ok || consumer != in.group {
		return nil, telemetry.ErrNotMine
	}
	return lag(ctx, b, consumer, topics...)
}
