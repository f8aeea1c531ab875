// This file does what somebody on call does about what a shop's services keep: redrives what failed and
// will not again, drops, for a reason, what nobody can read, and releases what a dead service had in hand.

package demo

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"time"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/operate"
	"github.com/skald-go/skald/store"
)

const (
	author = "skald demo"
	// elsewhere is who says what nobody can read.
	elsewhere = "/elsewhere"
	// A message that is claimed is nobody else's for 13 s, here. One that has been for a second, of a service
	// whose handlers take milliseconds, was in hand when that died; no pause between attempts is longer than
	// the lesser of these.
	claimedMost, claimedLeast = 12 * time.Second, 3 * time.Second
)

// unreadable is a message of a type about an order that no service can read: half a payload, or, if it is a
// later one, one of a version that no build here knows.
func unreadable(kind, topic, order string, later bool) skald.Message {
	m := skald.Message{
		ID: rand.Text(), Source: elsewhere, Type: kind, Topic: topic, Key: []byte(order),
		Time:        time.Now(),
		ContentType: "application/json", Data: []byte(`{"id": "` + order),
	}
	if later {
		m.Schema, m.Data = kind+"/2", []byte(`{"order": 1}`)
	}
	return m
}

// mend redrives, drops and releases what a consumer keeps, and tells how many it has dropped.
func mend[TTx any](ctx context.Context, db store.Driver[TTx], consumer string) (dropped int, err error) {
	kept, err := store.ListKept(ctx, db, store.Sought{Consumer: consumer, Bare: true, Limit: 1000})
	if err != nil {
		return 0, fmt.Errorf("look: %w", err)
	}
	var es []store.Effect
	for i := range kept {
		if e, ok := mending(&kept[i]); ok {
			es = append(es, e)
		}
	}
	if len(es) == 0 {
		return 0, nil
	}
	stood, err := db.Apply(ctx, es...)
	for i, e := range es {
		if e.Finish != nil && stood[i] {
			dropped++
		}
	}
	return dropped, err
}

// mending is what the operator does about a message that is kept; most only wait.
func mending(p *store.Parked) (e store.Effect, some bool) {
	note := &store.Audit{Author: author, Consumer: p.Consumer, Identity: p.Identity}
	switch {
	case p.Source == elsewhere && (p.Dead != nil || p.Last.Why != ""):
		note.Action, note.Reason = "drop", "nobody can read it: "+p.Last.Why
		return store.Effect{
			Finish: &store.Finish{Consumer: p.Consumer, Identity: p.Identity}, Audit: note,
			Mark: &store.Mark{Consumer: p.Consumer, Identity: p.Identity, As: store.Rejected,
				Reason: "dropped: nobody can read it", Held: true},
		}, true
	case p.Dead != nil:
		note.Action, note.Reason = "redrive", "it does not last: "+p.Last.Why
		return store.Effect{Requeue: &store.Requeue{Consumer: p.Consumer, Identity: p.Identity}, Audit: note},
			true
	case !p.Waiting && p.Due > claimedLeast && p.Due < claimedMost:
		note.Action, note.Reason = "release", "its service died with it in hand"
		return store.Effect{Requeue: &store.Requeue{Consumer: p.Consumer, Identity: p.Identity}, Audit: note},
			true
	}
	return e, false
}

// retry has the steps of stuck sagas tried again: their failures do not last.
func retry[TTx any](ctx context.Context, db store.Driver[TTx]) error {
	_, err := operate.ChangeSagas(ctx, db, operate.SagaSelection{Stuck: true},
		operate.SagaChange{Verb: operate.RetrySaga},
		operate.Order{Author: author, Reason: "it does not last"})
	if none := (*operate.NoneError)(nil); errors.As(err, &none) {
		return nil
	}
	return err
}
