// This file parks messages that an operator admitted from quarantine, so that the inbox handles them.

package inbox

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"time"

	"github.com/skald-go/skald/inbox/internal/partition"
	"github.com/skald-go/skald/internal/column"
	"github.com/skald-go/skald/store"
)

const admitMost = 100 // messages per read of the quarantine

var errNoHandler = errors.New("no handler is registered for its type")

// Admit parks messages that an operator admitted from quarantine. From then on the inbox handles them like
// other parked messages. Admit puts a message that cannot be read back into quarantine, with the reason. It
// parks no message that another instance parks first, or with a full key; the next look finds these. Admit
// returns true if there may be more admitted messages.
func (q *queue[TTx]) Admit(ctx context.Context) (more bool, err error) {
	var left unhandled
	defer func() { q.logUnhandled(ctx, left, err) }()
	for after := int64(0); ; {
		limit, bytes := q.admits.Limit(admitMost), 0
		list, err := store.ListQuarantined(ctx, q.in.db,
			store.QuarantineQuery{Consumer: q.in.group, Admitted: true, After: after, Limit: limit})
		if err != nil {
			return false, err
		}
		for i := range list {
			bytes += column.Weight(&list[i].Message)
		}
		q.admits.Read(len(list), bytes)
		var es []store.Effect
		for i := range list {
			if one := &list[i]; one.Fault == "" &&
				!q.in.exec.Handles(store.Kind{Topic: one.Message.Topic, Type: one.Message.Type}) {
				left.add(one)
			} else {
				es = append(es, q.fromQuarantine(ctx, one))
			}
		}
		var applied []bool
		if len(es) > 0 {
			applied, err = q.in.db.Apply(ctx, es...)
		}
		switch {
		case err != nil:
			q.admitted = true
			return false, err
		case slices.Contains(applied, true):
			q.Change()
			q.Soon(q.in.o.Now())
			q.admitted = true
			return true, nil
		case len(list) < limit:
			q.admitted = false
			return false, nil
		}
		after = list[len(list)-1].Number
	}
}

// unhandled counts the admitted messages of types without a handler, and has the first of them.
type unhandled struct {
	messages  int
	first     int64
	id, topic string
	kind      string
}

func (u *unhandled) add(one *store.Quarantined) {
	if u.messages++; u.messages == 1 {
		u.first, u.id, u.topic, u.kind = one.Number, one.ID, one.Message.Topic, one.Message.Type
	}
}

// logUnhandled logs the admitted messages that stay in quarantine because their types have no handler. It
// logs the first time, and then rarely.
func (q *queue[TTx]) logUnhandled(ctx context.Context, left unhandled, err error) {
	switch {
	case err != nil:
	case left.messages == 0:
		q.unhandled.Over()
	case q.unhandled.Due(q.in.o.Now()):
		q.log.WarnContext(ctx, "inbox: admitted messages stay in quarantine", "messages", left.messages,
			"number", left.first, "id", left.id, "topic", left.topic, "type", left.kind,
			"error", errNoHandler)
	}
}

// fromQuarantine returns the effect that parks an admitted message, or puts it back into quarantine.
func (q *queue[TTx]) fromQuarantine(ctx context.Context, one *store.Quarantined) store.Effect {
	if one.Fault != "" {
		q.log.ErrorContext(ctx,
			"inbox: an admitted message cannot be read; it is put back into quarantine",
			"number", one.Number, "id", one.ID, "error", one.Fault)
		return store.Effect{Admit: &store.Admit{Number: one.Number, By: one.By, Reason: one.Fault,
			Back: true}}
	}
	p := store.Parked{Consumer: q.in.group, Identity: admittedAs(one), Message: one.Message,
		Partition: partition.Quarantine, Position: one.Number}
	return store.Effect{Admitted: one,
		Park: &store.Park{MostRows: q.in.o.Limits.KeyRows, MostBytes: q.in.o.Limits.KeyBytes, Parked: p}}
}

// admittedAs returns the identity of an admitted message. This is its own identity, unless another message
// has the same one.
func admittedAs(q *store.Quarantined) store.Identity {
	if q.Why != store.Conflict {
		return q.Identity
	}
	return store.Identity{Source: partition.Quarantine, ID: strconv.FormatInt(q.Number, 10) + "-" + q.ID}
}

// admitEvery is the shortest pause between two attempts to park admitted messages.
const admitEvery = 5 * time.Second

// admitted calls Admit, if the last claim found admitted messages and the consumer may park more.
func (in *Inbox[TTx]) admitted(ctx context.Context) {
	now := in.o.Now()
	if !in.parked.Admitted() || now.Before(in.askAt) {
		return
	}
	in.askAt = now.Add(admitEvery)
	if !in.room() {
		return
	}
	more, err := in.parked.Admit(ctx)
	if more {
		in.askAt = now
	}
	in.recordResult(ctx, admitting, err)
}

// room reports whether the consumer may park more messages.
func (in *Inbox[TTx]) room() bool {
	in.mu.Lock()
	defer in.mu.Unlock()
	return in.kept.Parked < in.o.Limits.ParkedRows && in.kept.Bytes < in.o.Limits.ParkedBytes
}

// deadRoom reports whether messages of full keys may become dead letters. Dead letters count together with
// parked messages, so that a key with an endless stream does not fill the database.
func (in *Inbox[TTx]) deadRoom() bool {
	in.mu.Lock()
	defer in.mu.Unlock()
	return in.kept.Parked+in.kept.Dead < in.o.Limits.ParkedRows &&
		in.kept.Bytes+in.kept.DeadBytes < in.o.Limits.ParkedBytes
}
