// This file applies the results of attempts: it continues chains, schedules retries, counts and acknowledges.

package inbox

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/skald-go/skald/broker"
	"github.com/skald-go/skald/failure"
	"github.com/skald-go/skald/inbox/internal/decide"
	"github.com/skald-go/skald/inbox/internal/exec"
	"github.com/skald-go/skald/inbox/internal/partition"
)

// settle applies the results of a job to partitions and chains. Then it schedules the next messages of the
// chains. An error stops the consumer.
func (in *Inbox[TTx]) settle(ctx context.Context, rs []exec.Result) error {
	in.pick.Adapt(rs)
	for _, r := range rs {
		r.Entry.Chain.Busy = false
	}
	for _, r := range rs {
		if r.What == decide.NotAttempted {
			continue
		}
		if err := in.settleOne(ctx, r); err != nil {
			return err
		}
	}
	in.inPlace.Store(int64(in.schedule.InPlace()))
	for _, r := range rs {
		if c := r.Entry.Chain; !c.Busy && c.Pass() && !in.parked.DropPrefetched(c) {
			c.Busy = true
			in.schedule.Add(c)
		}
	}
	return nil
}

func (in *Inbox[TTx]) settleOne(ctx context.Context, r exec.Result) error {
	e, now := r.Entry, in.o.Now()
	if !r.Untouched {
		in.facts.settled = time.Now()
	}
	switch {
	case r.What == decide.Handled, r.What == decide.Duplicate:
		in.facts.store.Answered()
	case r.What == decide.Outage, r.What == decide.Delayed, r.Class == failure.Outage:
		in.suspectOutage(ctx)
	}
	if e.Retry {
		e.Retry = false
		in.retries.End(!r.What.Failing(), r.Took, now)
	}
	in.delays.Note(ctx, r, now)
	in.countInBreaker(ctx, r, now)
	in.tel.Ended(&e.Message, r.What.String(), r.Took, r.What == decide.Handled ||
		r.What == decide.Rejected, now)
	if r.What == decide.Duplicate {
		in.seen.ReadAgain()
	}
	if r.What == decide.Broken {
		return fmt.Errorf("consumer %s: %w", in.group, r.Err)
	}
	if in.note(ctx, r, now); r.What.Finished() {
		in.seen.Remember(e)
	}
	switch {
	case e.Parked != nil:
		in.settleClaimed(r)
	case r.What == decide.Again, r.What == decide.Outage, r.What == decide.NotParked, r.What == decide.Full:
		in.postpone(ctx, r)
	default:
		in.finish(e)
	}
	return nil
}

// countInBreaker counts a result in the breaker, and logs if that opens or closes it.
func (in *Inbox[TTx]) countInBreaker(ctx context.Context, r exec.Result, now time.Time) {
	opened, closed := in.breaker.Note(r, now)
	switch {
	case opened:
		in.o.Logger.ErrorContext(ctx, "inbox: the consumer is stopped", "consumer", in.group,
			"why", in.breaker.Why(), "until", in.breaker.Until())
	case closed:
		in.o.Logger.InfoContext(ctx, "inbox: the consumer continues: a message succeeded", "consumer",
			in.group)
	}
}

func (in *Inbox[TTx]) finish(e *partition.Entry) {
	e.Done = true
	e.Crowd(false)
}

// postpone keeps a message at the head of its chain until it is due again.
func (in *Inbox[TTx]) postpone(ctx context.Context, r exec.Result) {
	e := r.Entry
	if !r.Untouched {
		e.Again++
	}
	if first := !e.Full && r.What == decide.Full; first {
		in.o.Logger.WarnContext(ctx, "inbox: a message cannot be parked; its partition waits",
			"consumer", in.group,
			"topic", e.Topic, "partition", e.Partition, "position", e.Position, "id", e.ID, "type", e.Type,
			"error", r.Err)
	}
	e.Crowd(r.What == decide.Full)
	wait := r.After
	if r.What != decide.Again {
		wait = in.retry.WaitOutage(e.Again)
	}
	in.schedule.Hold(e.Chain, in.o.Now().Add(wait))
}

// note counts a result, logs failures, and schedules the next look for parked messages.
func (in *Inbox[TTx]) note(ctx context.Context, r exec.Result, now time.Time) {
	in.count(func(h *Health) {
		h.add(r.What)
		if r.Entry.Foreign && r.Entry.Parked == nil && r.What == decide.Queued {
			h.ForOtherBuilds++
		}
		if r.Entry.Settled && (r.What == decide.Handled || r.What == decide.Rejected) {
			h.UnknownSettled++
		}
	})
	switch r.What {
	case decide.Conflict, decide.TooOld:
		in.parked.Change()
	case decide.Rejected:
		if in.o.Dead.Rejections {
			in.parked.Change()
		}
	case decide.Queued, decide.Later, decide.Failed, decide.Dead, decide.Delayed:
		in.parked.Change()
		if r.Entry.Parked == nil && r.What != decide.Dead {
			in.mu.Lock()
			in.kept.Parked, in.kept.Bytes = in.kept.Parked+1, in.kept.Bytes+int64(r.Entry.Size())
			in.health.Parkings++
			in.mu.Unlock()
			in.parked.Soon(now.Add(r.After))
		}
		if r.Entry.Parked == nil && r.What == decide.Dead {
			in.mu.Lock()
			in.kept.Dead, in.kept.DeadBytes = in.kept.Dead+1, in.kept.DeadBytes+int64(r.Entry.Size())
			in.mu.Unlock()
		}
	}
	if r.Kept && r.What != decide.Handled && r.What != decide.Rejected {
		if r.What != decide.Duplicate {
			in.parked.Change()
		}
		in.parked.Soon(now.Add(max(r.After, in.o.Retry.InitialInterval)))
	}
	if r.What == decide.Failed || r.What == decide.Dead {
		e := r.Entry
		in.announce.Panic(ctx, e.Identity().ID, r.Print, r.Err)
		in.delays.Complain(ctx, r, !in.o.Dead.FreeKey && e.Key != nil && !errors.Is(r.Err, ErrUnhandled), now)
	}
}

// ack acknowledges the finished messages at the start of every partition.
func (in *Inbox[TTx]) ack(ctx context.Context) (busy bool, err error) {
	var done []broker.Delivery
	for _, l := range in.checkpoints.Partitions {
		if last, ok := l.Prefix(); ok {
			done = append(done, last)
		}
	}
	if len(done) == 0 {
		return false, nil
	}
	// a fixed order, so that tests can replay a run
	slices.SortFunc(done, func(a, b broker.Delivery) int { return cmp.Compare(a.Partition, b.Partition) })
	if err := in.sub.Ack(ctx, done); err != nil {
		return true, fmt.Errorf("acknowledge for %s: %w", in.group, err)
	}
	in.checkpoints.Acked()
	return true, nil
}
