// This file receives deliveries from the broker and puts them into partitions and chains.

package inbox

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/skald-go/skald/broker"
	"github.com/skald-go/skald/inbox/internal/exec"
	"github.com/skald-go/skald/inbox/internal/partition"
	"github.com/skald-go/skald/store"
)

const receiveMax = 1000 // deliveries per call of Receive

// receive puts deliveries into partitions and chains. It drops duplicates and messages without a handler. If
// necessary it joins the group first.
func (in *Inbox[TTx]) receive(ctx context.Context) (busy bool, err error) {
	in.recordResult(ctx, readingKey, in.exec.Rekey(ctx))
	in.admitted(ctx)
	if in.checkpoints.Moved() || in.sub == nil {
		if err := in.joinAgain(ctx); err != nil {
			return false, err
		}
	}
	if busy, err = in.fetch(ctx); err != nil {
		return false, err
	}
	if !in.checkpoints.Patient() {
		if err := in.storeCalls(ctx); err != nil {
			return busy, err
		}
	}
	ds := in.checkpoints.Admissible()
	fresh := make([]*partition.Entry, len(ds))
	for i, d := range ds {
		fresh[i] = in.accept(d)
	}
	in.identify(fresh)
	for _, e := range fresh {
		if l := e.Chain.Partition; l.Origin == "" && e.Given.Source == exec.Position {
			return busy, fmt.Errorf("partition %s: %w", l.Name, ErrPositions)
		}
		if !in.exec.Handles(e.Kind()) && in.skippable(e) {
			in.skip(e)
		}
	}
	in.seen.Cached(ctx, fresh)
	partition.Suspect(fresh, in.lookUp(ctx, fresh))
	in.schedule.Start(fresh)
	return busy || len(ds) > 0, nil
}

// lookMost bounds a read of the marks. The read may wait for a connection, because handlers may have all of
// them.
const lookMost = 2 * time.Second

// lookUp drops finished messages. It returns true if the remaining messages are known to be new.
func (in *Inbox[TTx]) lookUp(ctx context.Context, fresh []*partition.Entry) (known bool) {
	ctx, cancel := context.WithTimeout(ctx, lookMost)
	defer cancel()
	return in.seen.Marked(ctx, fresh)
}

// fetch receives from the broker, unless earlier deliveries still wait for their partitions.
func (in *Inbox[TTx]) fetch(ctx context.Context) (busy bool, err error) {
	if in.checkpoints.Waits() {
		return false, nil
	}
	batch, err := in.sub.Receive(ctx, receiveMax)
	if err != nil {
		var refused *broker.TopicError
		in.absent.refused = in.absent.refused || errors.As(err, &refused)
		return false, fmt.Errorf("receive for %s: %w", in.group, err)
	}
	in.outage.Received(len(batch.Gained) + len(batch.Deliveries))
	if len(batch.Deliveries) > 0 {
		in.facts.broker.Answered()
	}
	in.move(batch)
	for _, m := range batch.Missed {
		in.count(func(h *Health) { h.Missed += m.Count })
		in.tel.Missed(m.Count)
		noteMissed(ctx, in.db, in.o.Logger.With("consumer", in.group), in.group, m)
	}
	in.announce.Ready(len(in.checkpoints.Partitions), batch)
	in.checkpoints.Fetched(batch.Deliveries)
	return len(batch.Deliveries)+len(batch.Gained)+len(batch.Lost) > 0, nil
}

// move adds gained partitions and removes lost ones.
func (in *Inbox[TTx]) move(b broker.Batch) {
	for _, gone := range b.Lost {
		in.checkpoints.Lose(gone.Name)
	}
	again, without := int64(0), []string(nil)
	for _, g := range b.Gained {
		in.checkpoints.Gain(g)
		in.seen.ReadAgain()
		if g.Redelivered > 0 {
			again, without = again+g.Redelivered, append(without, g.Name)
		}
	}
	if again > 0 {
		in.o.Logger.Warn("inbox: the database has no checkpoint of these partitions: the consumer reads them from "+
			"its beginning, and marks drop what it has finished", "consumer", in.group, "partitions", without,
			"messages", again)
	}
}

// accept puts a delivery into its partition and chain.
func (in *Inbox[TTx]) accept(d broker.Delivery) *partition.Entry {
	l := in.checkpoints.Of(d.Partition)
	in.limit(&d)
	e := l.Add(d)
	in.schedule.Number(e)
	e.NoSharing = in.exec.Calls(store.Kind{Topic: d.Topic, Type: d.Type})
	in.count(func(h *Health) { h.Received++ })
	return e
}

// skippable reports whether the inbox may skip a message that this build has no handler for. It may if the
// identity is known, or if no other build of the consumer needs the message.
func (in *Inbox[TTx]) skippable(e *partition.Entry) bool {
	return e.Readable() || e.Fault == nil && e.Type != "" && !in.checkpoints.LeftToOthers(e.Kind())
}

// missedAction is the action of an audit entry about messages that the broker removed before they were read.
const missedAction = "missed"

// removedStore is the part of the store that writes the audit.
type removedStore interface {
	Apply(ctx context.Context, es ...store.Effect) ([]bool, error)
}

// noteMissed logs m, and writes it to the audit in the background, for skald doctor. If the database is away
// only the log has it. Log has the name of the consumer.
func noteMissed(ctx context.Context, db removedStore, log *slog.Logger, consumer string, m broker.Missed) {
	why := fmt.Sprintf(
		"%d messages of partition %s, from %d to below %d, were removed at the broker before they were read",
		m.Count, m.Partition, m.From, m.To)
	log.ErrorContext(ctx,
		"inbox: the broker removed unread messages (retention or a purge): have them sent again",
		"partition", m.Partition, "from", m.From, "to", m.To, "messages", m.Count)
	note := store.Audit{Author: "skald", Action: missedAction, Reason: why, Consumer: consumer}
	go func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
		defer cancel()
		if _, err := db.Apply(ctx, store.Effect{Audit: &note}); err != nil {
			log.WarnContext(ctx, "inbox: cannot write the removed messages to the audit", "note", why, "error", err)
		}
	}()
}
