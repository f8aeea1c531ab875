package inbox

import (
	"context"
	"fmt"
	"math"
	"time"

	"github.com/skald-go/skald/inbox/internal/decide"
	"github.com/skald-go/skald/inbox/internal/exec"
	"github.com/skald-go/skald/inbox/internal/partition"
	"github.com/skald-go/skald/store"
)

// parkedConfig is what is claimed by.
func (in *Inbox[TTx]) parkedConfig() parkedConfig {
	return parkedConfig{
		Group: in.group, DB: in.db, Workers: in.o.Workers, Bytes: in.o.Limits.Bytes / 2, Now: in.o.Now,
		Log: in.o.Logger.With("consumer", in.group), KeyRows: in.o.Limits.KeyRows,
		KeyBytes: in.o.Limits.KeyBytes,
		Alone:    in.exec.AsksBeside, Handles: in.exec.Handles, Calls: in.exec.Calls,
		Lease:   func() time.Duration { return in.exec.Lease(exec.TurnOfClaimed) },
		Running: in.runningNow,
		Again:   in.delays.Attempts, Refused: in.delays.Refused, Retries: in.retries.Most,
		Uncharged: in.o.Retry.Uncharged,
	}
}

// appetite is how many more messages may be claimed.
func (in *Inbox[TTx]) appetite() int {
	limit := math.MaxInt
	switch wait, alone := in.breaker.Closed(in.o.Now()); {
	case wait > 0, in.orders.Pause():
		limit = 0
	case alone:
		limit = 1
	}
	return in.parked.Appetite(in.pick.Most(), limit)
}

// lookNow is a turn's look into the store.
func (in *Inbox[TTx]) lookNow(ctx context.Context) (found bool, err error) {
	most, count, some := in.parked.Wants(0, in.appetite, in.checkpoints.Partitions)
	if !some {
		return false, nil
	}
	if count {
		in.parked.Counting()
	}
	l := in.parked.Look(ctx, ask{Session: in.checkpoints.Session(), Most: most, Count: count,
		Others: in.checkpoints.Others()})
	if err := in.shelve(ctx, l); err != nil {
		return false, err
	}
	return len(l.Claimed.Parked) > 0 || in.parked.Admitted(), l.Err
}

// shelve takes up what a look found. An error stops the consumer.
func (in *Inbox[TTx]) shelve(ctx context.Context, l looked) error {
	if l.Err != nil && store.Incurable(l.Err) {
		return fmt.Errorf("consumer %s: %w", in.group, l.Err)
	}
	doing := counting
	if l.Claims() {
		doing = claiming
	}
	in.did(ctx, doing, l.Err)
	if l.Err == nil {
		in.facts.store.Answered()
	}
	in.putOff(ctx, in.parked.Take(l))
	if l.Err == nil && l.Counted {
		in.mu.Lock()
		in.kept, in.health.Quarantined, in.stuck = l.Kept, l.Apart, stuckOf(l.Failed)
		in.mu.Unlock()
	}
	return nil
}

// settleClaimed is settle for a message that was claimed.
func (in *Inbox[TTx]) settleClaimed(r exec.Result) {
	if !in.exec.Handles(r.Entry.Kind()) {
		in.checkpoints.AskTypes()
	}
	wait := time.Duration(0) // the next of its key
	switch r.What {
	case decide.Later, decide.Failed, decide.Delayed:
		wait = r.After
	case decide.Again, decide.Outage, decide.Unkept:
		wait = max(r.After, in.o.Retry.First)
	case decide.Stale, decide.Full:
		wait = retryLater
	}
	in.parked.Settle(r.Entry, wait)
}

// putOff gives back messages that have failed and were claimed beyond those that may be tried soon: else they
// would be claimed first again, and the others never. Those in hand here keep their claim for one more lease.
func (in *Inbox[TTx]) putOff(ctx context.Context, es []*partition.Entry) {
	var back []store.Effect
	for _, e := range es {
		k := in.exec.Parcel(e)
		k.Claims = e.Parked.Claims - 1 // as if it had not been claimed
		k.WasClaim = &store.Claim{Claims: e.Parked.Claims, Session: e.Parked.Session}
		if k.Due = in.retry.WaitOutage(math.MaxInt32); e.Lease > 0 { // it stays ours
			k.Due, k.Session = e.Lease, e.Parked.Session
		}
		back = append(back, store.Effect{Park: k})
	}
	if len(back) == 0 {
		return
	}
	put := func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
		defer cancel()
		_, _ = in.db.Apply(ctx, back...) // what it cannot put off is claimed when its lease is over
	}
	if in.checkpoints.Patient() {
		go put()
	} else {
		put()
	}
}

// handBack lets others claim what was claimed and not begun. What it cannot hand back is claimed when its
// lease is over.
func (in *Inbox[TTx]) handBack(ctx context.Context) {
	var back []store.Effect
	for _, e := range in.parked.Unbegun() {
		k := in.exec.Parcel(e)
		k.Claims = e.Parked.Claims - 1 // as if it had not been claimed
		back = append(back, store.Effect{Park: k})
	}
	if len(back) == 0 {
		return
	}
	if _, err := in.db.Apply(ctx, back...); err != nil {
		in.o.Logger.WarnContext(ctx, "inbox: could not hand claimed messages back", "consumer", in.group,
			"messages", len(back), "error", err)
	}
}
