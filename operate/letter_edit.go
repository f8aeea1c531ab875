package operate

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/skald-go/skald/internal/complete"
	"github.com/skald-go/skald/internal/uuid7"
	"github.com/skald-go/skald/store"
)

// EditReport names the message that replaces a dead letter.
type EditReport struct {
	ID            string // of the new message; a later call uses another ID than a dry run
	InsteadOf     string // the ID of the dead letter
	Consumer      string
	Bytes, Before int // of the payloads
}

// Edit replaces the one selected dead letter by a new message with the payload data. Only the consumer of
// the dead letter receives the new message. The new message has its own ID, and the key, type and headers
// of the dead letter. Its cause is the cause of the dead letter; if there is none, the dead letter itself.
// The same transaction deletes the dead letter. Edit returns a *UsageError if the dead letter has an
// external call or an unreadable envelope.
func Edit(ctx context.Context, db MessageStore, s Selection, data []byte, o Order) (r EditReport, err error) {
	s.Dead = true
	if err := checkOrder(&o); err != nil {
		return r, err
	}
	old, err := onlySelected(ctx, db, s)
	if err != nil {
		return r, err
	}
	instead, err := edited(old, data)
	if err != nil {
		return r, err
	}
	r = EditReport{instead.ID, old.ID, old.Consumer, len(data), len(old.Message.Data)}
	if o.DryRun {
		return r, nil
	}
	applied, err := changeOne(ctx, db, "edit", "", old, &o,
		func(ctx context.Context, p *store.Parked) (e store.Effect, err error) {
			e.Park = &store.Park{Parked: *instead, Instead: &p.Identity}
			e.Mark, err = givenUpMark(ctx, db, p, "edited: "+o.Reason+"; instead of it: "+instead.ID)
			return e, err
		})
	if err == nil && !applied {
		err = &NoMatchError{Reason: "the dead letter is gone: another operator or process was first"}
	}
	if err != nil {
		return r, fmt.Errorf("edit %s: %w", old.ID, err)
	}
	return r, nil
}

// onlySelected returns the only selected message, with its payload.
func onlySelected(ctx context.Context, db MessageStore, s Selection) (found *store.Parked, err error) {
	n := 0
	for p, err := range List(ctx, db, s, false) {
		if err != nil {
			return nil, err
		}
		if n++; n > 1 {
			return nil,
				&UsageError{Reason: fmt.Sprintf(
					"several dead letters have the id %s: select one by its consumer and its source", p.ID)}
		}
		found = &p
	}
	if found == nil {
		return nil, &NoMatchError{Reason: "no message is selected"}
	}
	return found, nil
}

// edited returns the message that replaces the message old. The new ID has a new time, but the random bits
// of the old ID. A saga matches replies with commands by the cause and by these bits, so both stay the
// same.
func edited(old *store.Parked, data []byte) (*store.Parked, error) {
	if old.Fault != "" {
		return nil, &UsageError{Reason: "its envelope cannot be read (" + old.Fault +
			"), so a new message would have neither its type nor its key: " +
			"drop it, and write a new message with skald outbox write"}
	}
	if old.Call != nil {
		return nil, &UsageError{Reason: "it has an external call in progress, with key " + old.Call.Key +
			": a new message would make a second call. Look up the outcome at the provider; " +
			"then redrive it, or drop it with that outcome (--call) and write the follow-up messages by hand"}
	}
	if len(data) > complete.MaxData {
		return nil, &UsageError{Reason: fmt.Sprintf("the payload is %d bytes, at most %d are allowed",
			len(data), complete.MaxData)}
	}
	m := old.Message
	m.Time = time.Now().UTC().Truncate(time.Microsecond)
	m.ID, m.CausationID = uuid7.Again(old.Message.ID, m.Time), cmp.Or(old.Message.CausationID, old.Message.ID)
	m.CorrelationID = cmp.Or(old.Message.CorrelationID, old.Message.ID)
	m.Data, m.Sequence = data, ""
	return &store.Parked{Consumer: old.Consumer, Identity: store.Identity{Source: old.Source, ID: m.ID},
		Message: m, Partition: old.Partition, Position: old.Position}, nil
}
