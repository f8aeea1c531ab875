package parked

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
// and end as others of their key do. Which of them another instance was first with, or whose key is full, the
// next look finds out. More: there may be more of them.
func (q *Queue) Admit(ctx context.Context) (more bool, err error) {
	list, err := store.ListQuarantined(ctx, q.o.DB,
		store.Query{Consumer: q.o.Group, Admitted: true, Limit: admitMost})
	if err != nil {
		return false, err
	}
	var es []store.Effect
	for _, one := range list {
		if !q.o.Handles(store.Kind{Topic: one.Message.Topic, Type: one.Message.Type}) {
			q.o.Log.WarnContext(ctx, "inbox: a message that was admitted stays in quarantine",
				"number", one.Number, "topic", one.Message.Topic, "type", one.Message.Type, "error",
				errNoHandler)
			continue
		}
		p := store.Parked{Consumer: q.o.Group, Identity: admittedAs(&one), Message: one.Message,
			Partition: partition.Quarantine, Position: one.Number}
		es = append(es, store.Effect{Admitted: &one,
			Park: &store.Park{MostRows: q.o.KeyRows, MostBytes: q.o.KeyBytes, Parked: p}})
	}
	if len(es) == 0 {
		return false, nil
	}
	stood, err := q.o.DB.Apply(ctx, es...)
	if more = err == nil && slices.Contains(stood, true); more {
		q.Change()
		q.Soon(q.o.Now())
	}
	return more, err
}

// admittedAs is the identity of an admitted message: its own, unless that has the mark of another message.
func admittedAs(q *store.Quarantined) store.Identity {
	if q.Why != store.Conflict {
		return q.Identity
	}
	return store.Identity{Source: partition.Quarantine, ID: strconv.FormatInt(q.Number, 10) + "-" + q.ID}
}
