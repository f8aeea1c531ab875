package operate

import (
	"context"
	"time"

	"github.com/skald-go/skald/store"
)

// A Knowledge is what a consumer knows of a message: its names in JSON are stable.
type Knowledge struct {
	Consumer    string   `json:"consumer"`
	Source      string   `json:"source"`
	ID          string   `json:"id"`
	Status      string   `json:"status"` // unknown, done, rejected, barred, parked, calling, dead
	Reason      string   `json:"reason,omitempty"`
	Code        int32    `json:"code"`
	Result      string   `json:"result"`
	Fingerprint int64    `json:"fingerprint,string"`
	Kept        *Message `json:"kept,omitempty"` // it is parked or a dead letter
	Quarantine  []Apart  `json:"quarantine"`
}

// An Apart is a message in quarantine: its names in JSON are stable.
type Apart struct {
	Number     int64      `json:"number"`
	Why        string     `json:"why"`
	At         time.Time  `json:"at"`
	Topic      string     `json:"topic"`
	Type       string     `json:"type"`
	Data       []byte     `json:"data"`
	AdmittedAt *time.Time `json:"admitted_at"`
	AdmittedBy string     `json:"admitted_by,omitempty"`
	Reason     string     `json:"reason,omitempty"`
	TakenAt    *time.Time `json:"taken_at"`
}

// A Shower is what Show asks of a store.
type Shower interface {
	Keeper
}

// Show tells what a consumer knows of a message. If its source is not known, it is looked for among what is
// kept by its id alone, and else taken for a key, which has no source.
func Show(ctx context.Context, db Shower, consumer string, id store.Identity,
	sourced bool) (k Knowledge, err error) {
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
	k = Knowledge{Consumer: consumer, Source: id.Source, ID: id.ID, Status: v.Outcome.String(),
		Reason: v.Reason, Code: v.Code,
		Result: v.Result, Fingerprint: v.Fingerprint, Quarantine: []Apart{}}
	if kept != nil {
		m := MessageOf(kept)
		k.Kept = &m
	}
	if v.Outcome == store.Fresh {
		k.Status = statusOf(kept)
	}
	list, err := store.ListQuarantined(ctx, db, store.Query{Consumer: consumer, ID: id.ID, Taken: true})
	for _, q := range list {
		k.Quarantine = append(k.Quarantine, Apart{q.Number, q.Why.String(), q.At, q.Message.Topic,
			q.Message.Type, q.Message.Data,
			someTime(q.Admitted), q.By, q.Reason, someTime(q.Taken)})
	}
	return k, err
}

// findByID is the message of that id as it is kept: first that without a source, a key; nil: none is.
func findByID(ctx context.Context, db Keeper, consumer, id string) (*store.Parked, error) {
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
