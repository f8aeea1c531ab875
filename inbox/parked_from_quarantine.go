package inbox

import (
	"context"
	"errors"
	"slices"
	"strconv"

	"github.com/skald-go/skald/inbox/internal/partition"
	"github.com/skald-go/skald/store"
)

const admitMost = 100 // at a time

var errNoHandler = errors.New("no handler is for its type")

// Admit parks messages in quarantine that somebody admitted: from then on they are tried, wait for their turn
// and end as others of their key do. One that cannot be read is put back, with the reason. Which of them
// another instance was first with, or whose key is full, the next look finds out. More: there may be more of
// them.
func (q *queue) Admit(ctx context.Context) (more bool, err error) {
	var es []store.Effect
	for after := int64(0); len(es) == 0; {
		list, err := store.ListQuarantined(ctx, q.o.DB,
			store.Query{Consumer: q.o.Group, Admitted: true, After: after, Limit: admitMost})
		if err != nil {
			return false, err
		}
		for i := range list {
			if e, is := q.fromQuarantine(ctx, &list[i]); is {
				es = append(es, e)
			}
		}
		if len(list) < admitMost {
			break
		}
		after = list[len(list)-1].Number
	}
	if len(es) == 0 {
		q.admitted = false
		return false, nil
	}
	stood, err := q.o.DB.Apply(ctx, es...)
	if more = err == nil && slices.Contains(stood, true); more {
		q.Change()
		q.Soon(q.o.Now())
	}
	q.admitted = more || err != nil
	return more, err
}

// fromQuarantine takes an admitted message out of quarantine, or puts it back; false: it stays as it is.
func (q *queue) fromQuarantine(ctx context.Context, one *store.Quarantined) (e store.Effect, is bool) {
	log := q.o.Log.With("number", one.Number, "id", one.ID)
	switch {
	case one.Fault != "":
		log.ErrorContext(ctx,
			"inbox: a message that was admitted cannot be read; it is put back into quarantine", "error", one.Fault)
		return store.Effect{Admit: &store.Admit{Number: one.Number, By: one.By, Reason: one.Fault,
			Back: true}}, true
	case !q.o.Handles(store.Kind{Topic: one.Message.Topic, Type: one.Message.Type}):
		log.WarnContext(ctx, "inbox: a message that was admitted stays in quarantine", "topic",
			one.Message.Topic,
			"type", one.Message.Type, "error", errNoHandler)
		return e, false
	}
	p := store.Parked{Consumer: q.o.Group, Identity: admittedAs(one), Message: one.Message,
		Partition: partition.Quarantine, Position: one.Number}
	return store.Effect{Admitted: one,
		Park: &store.Park{MostRows: q.o.KeyRows, MostBytes: q.o.KeyBytes, Parked: p}}, true
}

// admittedAs is the identity of an admitted message: its own, unless that has the mark of another message.
func admittedAs(q *store.Quarantined) store.Identity {
	if q.Why != store.Conflict {
		return q.Identity
	}
	return store.Identity{Source: partition.Quarantine, ID: strconv.FormatInt(q.Number, 10) + "-" + q.ID}
}
