package operate

import (
	"context"
	"time"

	"github.com/skald-go/skald/store"
)

// MessageState is the stored state of a message for one consumer. The JSON field names are stable.
type MessageState struct {
	Consumer    string               `json:"consumer"`
	Source      string               `json:"source"`
	ID          string               `json:"id"`
	Status      string               `json:"status"` // unknown, done, rejected, barred, parked, calling or dead
	Reason      string               `json:"reason,omitempty"`
	Code        int32                `json:"code"`
	Result      string               `json:"result"`
	Fingerprint int64                `json:"fingerprint,string"`
	Kept        *Message             `json:"kept,omitempty"` // the parked message or dead letter
	Quarantine  []QuarantinedMessage `json:"quarantine"`
}

// QuarantinedMessage is a message in quarantine. The JSON field names are stable.
type QuarantinedMessage struct {
	Number     int64      `json:"number"`
	Source     string     `json:"source"`
	Why        string     `json:"why"`
	At         time.Time  `json:"at"`
	Topic      string     `json:"topic"`
	Type       string     `json:"type"`
	Bytes      int        `json:"bytes"` // of the payload
	Data       []byte     `json:"data"`  // null after the first store.QuarantineOfOne messages
	AdmittedAt *time.Time `json:"admitted_at"`
	AdmittedBy string     `json:"admitted_by,omitempty"`
	Reason     string     `json:"reason,omitempty"`
	TakenAt    *time.Time `json:"taken_at"`
}

// ShowStore is the part of a store that Show needs.
type ShowStore interface {
	MessageStore
}

// Show returns the state of a message for one consumer. If sourced is false, id has no source: Show then
// searches for a kept message with that ID. If there is none, it returns the state of the identity that has
// this ID and an empty source, as an idempotency key has.
func Show(ctx context.Context, db ShowStore, consumer string, id store.Identity,
	sourced bool) (k MessageState, err error) {
	var kept *store.Parked
	if sourced {
		kept, err = find(ctx, db, consumer, id)
	} else {
		kept, err = findByID(ctx, db, consumer, id.ID)
	}
	if err != nil {
		return k, err
	}
	if kept != nil {
		id.Source = kept.Source
	}
	seen, err := db.Seen(ctx, consumer, []store.Identity{id})
	if err != nil {
		return k, err
	}
	v := seen[0]
	k = MessageState{Consumer: consumer, Source: id.Source, ID: id.ID, Status: v.Outcome.String(),
		Reason: v.Reason, Code: v.Code,
		Result: v.Result, Fingerprint: v.Fingerprint, Quarantine: []QuarantinedMessage{}}
	if kept != nil {
		m := NewMessage(kept)
		k.Kept = &m
	}
	if v.Outcome == store.Fresh {
		k.Status = statusOf(kept)
	}
	k.Quarantine, err = showQuarantine(ctx, db, consumer, id, sourced || kept != nil)
	return k, err
}

// showQuarantine lists the messages in quarantine with that identity, or all with that ID if sourced is
// false. It reads at most store.QuarantineOfOne payloads, each by itself, because many large messages may
// have the same ID.
func showQuarantine(ctx context.Context, db store.Lister, consumer string, id store.Identity,
	sourced bool) ([]QuarantinedMessage, error) {
	what := store.QuarantineQuery{Consumer: consumer, ID: id.ID, Taken: true, Bare: true}
	list, err := store.ListQuarantined(ctx, db, what)
	if err != nil {
		return nil, err
	}
	out := []QuarantinedMessage{}
	for _, q := range list {
		if sourced && q.Source != id.Source {
			continue
		}
		if len(out) < store.QuarantineOfOne {
			what.Bare, what.After, what.Limit = false, q.Number-1, 1
			one, err := store.ListQuarantined(ctx, db, what)
			if err != nil {
				return nil, err
			}
			if len(one) == 0 || one[0].Number != q.Number { // it was deleted meanwhile
				continue
			}
			q = one[0]
		}
		out = append(out, QuarantinedMessage{q.Number, q.Source, q.Why.String(), q.At, q.Message.Topic,
			q.Message.Type,
			q.Bytes, q.Message.Data, timeOrNil(q.Admitted), q.By, q.Reason, timeOrNil(q.Taken)})
	}
	return out, nil
}

// findByID returns a kept message with that ID, or nil if there is none. It prefers a message without a
// source.
func findByID(ctx context.Context, db MessageStore, consumer, id string) (*store.Parked, error) {
	p, err := find(ctx, db, consumer, store.Identity{ID: id})
	if err != nil || p != nil {
		return p, err
	}
	for p, err := range listAny(ctx, db, Selection{Consumer: consumer, ID: id}) {
		return &p, err
	}
	return nil, nil
}

func statusOf(kept *store.Parked) string {
	switch {
	case kept == nil:
		return "unknown"
	case kept.Dead != nil:
		return store.Dead.String()
	case kept.Call != nil:
		return "calling"
	}
	return store.Waiting.String()
}
