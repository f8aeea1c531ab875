package inbox

import (
	"context"
	"math/bits"
	"slices"
	"strings"
	"time"

	"github.com/skald-go/skald/inbox/internal/decide"
	"github.com/skald-go/skald/inbox/internal/exec"
	"github.com/skald-go/skald/inbox/internal/partition"
	"github.com/skald-go/skald/internal/backoff"
	"github.com/skald-go/skald/store"
)

// lasting is how many attempts in a row a message may end without a charge before it is logged and listed in
// Health.Stuck: a deadlock, a rival, a failover of a second are over by then.
const lasting = 3

// forgotten is how long a message that was not tried again is listed: it is another instance's by then.
const forgotten = 5 * time.Minute

// A delay is a message of which attempts end without a charge: its database or a service is away, or the
// store refuses to keep it.
type delay struct {
	Stuck
	partition *partition.Partition
	last      time.Time
}

// delays are the messages whose last attempts ended so. They belong to the goroutine of Run or Step.
type delays struct {
	of  map[store.Identity]*delay
	say backoff.Rarely
}

// delay notes how an attempt ended.
func (in *Inbox[TTx]) delay(ctx context.Context, r exec.Result, now time.Time) {
	e, g := r.Entry, &in.delays
	waits := r.What == decide.Outage || r.What == decide.Unkept
	if !waits && len(g.of) == 0 {
		return
	}
	id := e.Identity()
	switch r.What {
	case decide.Outage, decide.Unkept:
	case decide.Again, decide.Left, decide.Full, decide.Stale:
		return
	default:
		if delete(g.of, id); len(g.of) == 0 {
			g.say.Over()
		}
		return
	}
	d := g.of[id]
	if d == nil {
		d = &delay{partition: e.Chain.Partition, Stuck: Stuck{Topic: e.Topic, Partition: e.Partition, Position: e.Position, ID: id.ID, Type: e.Type, Since: now, Uncharged: true}}
		g.of[id] = d
	}
	d.Attempts, d.last = d.Attempts+1, now
	d.Error, _, _ = strings.Cut(exec.Cause(r.Err).Error(), "\n")
	text, unknown := "inbox: a message waits for an outage to end", r.What == decide.Unkept
	if unknown {
		text = "inbox: a message cannot be parked, for a reason that Skald does not know; it is tried again, and its key waits"
	}
	if unknown && bits.OnesCount(uint(d.Attempts)) == 1 || !unknown && d.Attempts >= lasting && g.say.Due(now) {
		in.o.Logger.WarnContext(ctx, text, "consumer", in.group, "topic", e.Topic, "partition", e.Partition, "position", e.Position,
			"id", id.ID, "type", e.Type, "attempt", d.Attempts, "since", d.Since, "error", r.Err)
	}
}

// lasting are those that are listed, the oldest first. Those that are not ours any more are forgotten.
func (g *delays) lasting(now time.Time) (out []Stuck) {
	for id, d := range g.of {
		if d.partition.Lost || now.Sub(d.last) > forgotten {
			delete(g.of, id)
		} else if d.Attempts >= lasting {
			out = append(out, d.Stuck)
		}
	}
	return bySince(out)
}

// A Failing is work on the store, beside the messages themselves, that fails again and again.
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

// A failing is a Failing with what is logged of it.
type failing struct {
	Failing
	say backoff.Rarely
}

// did notes how work on the store ended. Once is chance; what fails twice in a row is logged, seldom while it
// lasts, and listed.
func (in *Inbox[TTx]) did(ctx context.Context, doing string, err error) {
	f := in.failing[doing]
	if err == nil {
		if f != nil {
			delete(in.failing, doing)
			if f.say.Over() {
				in.o.Logger.InfoContext(ctx, "inbox: what failed goes well again", "consumer", in.group, "doing", doing, "since", f.Since)
			}
		}
		return
	}
	in.tel.Failing(doing)
	now := in.o.Now()
	if f == nil {
		f = &failing{Failing: Failing{Doing: doing, Since: now}, say: seldom()}
		in.failing[doing] = f
	}
	f.Times++
	f.Error, _, _ = strings.Cut(err.Error(), "\n")
	if f.Times > 1 && f.say.Due(now) {
		in.o.Logger.WarnContext(ctx, "inbox: the store fails again and again", "consumer", in.group, "doing", doing, "times", f.Times,
			"since", f.Since, "outage", in.exec.Away(err), "error", err)
	}
}

// failures are those that failed more than once in a row.
func (in *Inbox[TTx]) failures() (out []Failing) {
	for _, f := range in.failing {
		if f.Times > 1 {
			out = append(out, f.Failing)
		}
	}
	slices.SortFunc(out, func(a, b Failing) int { return strings.Compare(a.Doing, b.Doing) })
	return out
}
