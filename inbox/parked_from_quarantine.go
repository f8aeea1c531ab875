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
	var left unhandled
	defer func() { q.complain(ctx, left, err) }()
	for after := int64(0); ; {
		list, err := store.ListQuarantined(ctx, q.o.DB,
			store.Query{Consumer: q.o.Group, Admitted: true, After: after, Limit: admitMost})
		if err != nil {
			return false, err
		}
		var es []store.Effect
		for i := range list {
			if one := &list[i]; one.Fault == "" &&
				!q.o.Handles(store.Kind{Topic: one.Message.Topic, Type: one.Message.Type}) {
				left.add(one)
			} else {
				es = append(es, q.fromQuarantine(ctx, one))
			}
		}
		var stood []bool
		if len(es) > 0 {
			stood, err = q.o.DB.Apply(ctx, es...)
		}
		switch {
		case err != nil:
			q.admitted = true
			return false, err
		case slices.Contains(stood, true):
			q.Change()
			q.Soon(q.o.Now())
			q.admitted = true
			return true, nil
		case len(list) < admitMost:
			q.admitted = false
			return false, nil
		}
		after = list[len(list)-1].Number
	}
}

// unhandled is admitted messages of types without a handler: their number, and the first of them.
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

// complain logs admitted messages that stay where they are: at once, then rarely.
func (q *queue) complain(ctx context.Context, left unhandled, err error) {
	switch {
	case err != nil:
	case left.messages == 0:
		q.unhandled.Over()
	case q.unhandled.Due(q.o.Now()):
		q.o.Log.WarnContext(ctx, "inbox: admitted messages stay in quarantine", "messages", left.messages,
			"number", left.first, "id", left.id, "topic", left.topic, "type", left.kind,
			"error", errNoHandler)
	}
}

// fromQuarantine takes an admitted message out of quarantine, or puts it back.
func (q *queue) fromQuarantine(ctx context.Context, one *store.Quarantined) store.Effect {
	if one.Fault != "" {
		q.o.Log.ErrorContext(ctx,
			"inbox: a message that was admitted cannot be read; it is put back into quarantine",
			"number", one.Number, "id", one.ID, "error", one.Fault)
		return store.Effect{Admit: &store.Admit{Number: one.Number, By: one.By, Reason: one.Fault,
			Back: true}}
	}
	p := store.Parked{Consumer: q.o.Group, Identity: admittedAs(one), Message: one.Message,
		Partition: partition.Quarantine, Position: one.Number}
	return store.Effect{Admitted: one,
		Park: &store.Park{MostRows: q.o.KeyRows, MostBytes: q.o.KeyBytes, Parked: p}}
}

// admittedAs is the identity of an admitted message: its own, unless that has the mark of another message.
func admittedAs(q *store.Quarantined) store.Identity {
	if q.Why != store.Conflict {
		return q.Identity
	}
	return store.Identity{Source: partition.Quarantine, ID: strconv.FormatInt(q.Number, 10) + "-" + q.ID}
}
