// This file is the operator of the demo. It redrives dead letters of temporary failures, drops unreadable
// messages with a reason, and releases messages that a dead service has claimed.

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
	// elsewhere is the source of unreadable messages.
	elsewhere = "/elsewhere"
	// A claim lasts 13 s here. If a claim has less than claimedMost left, the service that claimed the
	// message is dead, because handlers take only milliseconds. claimedLeast is longer than each pause
	// between attempts, so a message that waits for its next attempt does not count as claimed.
	claimedMost, claimedLeast = 12 * time.Second, 3 * time.Second
)

// unreadable returns a message that no service can decode, with the key of an order. It has half a payload.
// If newerSchema is true, it has a payload of an unknown schema instead.
func unreadable(kind, topic, order string, newerSchema bool) skald.Message {
	m := skald.Message{
		ID: rand.Text(), Source: elsewhere, Type: kind, Topic: topic, Key: []byte(order),
		Time:        time.Now(),
		ContentType: "application/json", Data: []byte(`{"id": "` + order),
	}
	if newerSchema {
		m.Schema, m.Data = kind+"/2", []byte(`{"order": 1}`)
	}
	return m
}

// repair redrives, drops and releases messages of a consumer. It returns the number of dropped messages.
func repair[TTx any](ctx context.Context, db store.Driver[TTx], consumer string) (dropped int, err error) {
	kept, err := store.ListParked(ctx, db, store.ParkedQuery{Consumer: consumer, Bare: true, Limit: 1000})
	if err != nil {
		return 0, fmt.Errorf("list the messages: %w", err)
	}
	var es []store.Effect
	for i := range kept {
		if e, ok := repairOf(&kept[i]); ok {
			es = append(es, e)
		}
	}
	if len(es) == 0 {
		return 0, nil
	}
	applied, err := db.Apply(ctx, es...)
	for i, e := range es {
		if e.Finish != nil && applied[i] {
			dropped++
		}
	}
	return dropped, err
}

// repairOf returns the operator's change to a message. It returns needed=false if the message needs no
// change.
func repairOf(p *store.Parked) (e store.Effect, needed bool) {
	note := &store.Audit{Author: author, Consumer: p.Consumer, Identity: p.Identity}
	switch {
	case p.Source == elsewhere && (p.Dead != nil || p.Last.Why != ""):
		note.Action, note.Reason = "drop", "it is unreadable: "+p.Last.Why
		return store.Effect{
			Finish: &store.Finish{Consumer: p.Consumer, Identity: p.Identity}, Audit: note,
			Mark: &store.Mark{Consumer: p.Consumer, Identity: p.Identity, Outcome: store.Rejected,
				Reason: "dropped: it is unreadable", Held: true},
		}, true
	case p.Dead != nil:
		note.Action, note.Reason = "redrive", "the failure is temporary: "+p.Last.Why
		return store.Effect{Requeue: &store.Requeue{Consumer: p.Consumer, Identity: p.Identity}, Audit: note},
			true
	case !p.Waiting && p.Due > claimedLeast && p.Due < claimedMost:
		note.Action, note.Reason = "release", "the service that claimed it died"
		return store.Effect{Requeue: &store.Requeue{Consumer: p.Consumer, Identity: p.Identity}, Audit: note},
			true
	}
	return e, false
}

// retry retries the stuck steps of sagas. All their failures are injected, and so are temporary.
func retry[TTx any](ctx context.Context, db store.Driver[TTx]) error {
	_, err := operate.ChangeSagas(ctx, db, operate.SagaSelection{Stuck: true},
		operate.SagaChange{Verb: operate.RetrySaga},
		operate.Order{Author: author, Reason: "the failure is temporary"})
	if none := (*operate.NoMatchError)(nil); errors.As(err, &none) {
		return nil
	}
	return err
}
