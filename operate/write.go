package operate

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/internal/complete"
	"github.com/skald-go/skald/internal/fingerprint"
	"github.com/skald-go/skald/store"
)

// Draft is a message that an operator writes.
type Draft struct {
	Topic, Type string
	Key         []byte // nil means that the order of the message does not matter
	Data        []byte
	ContentType string // if it is application/json, Data must be JSON
	// ID is the message ID. If ID is empty, Write creates a new one. If the answer of a Write is lost, call
	// Write again with the same ID.
	ID string
	// CausedBy is the ID of the message that causes the draft. Write searches for the cause among the parked
	// messages and dead letters of Consumer and Source, or of all if these are empty. If Write does not find
	// the cause, it records only CausedBy.
	CausedBy         string
	Consumer, Source string
}

// WriteReport is the result of Write.
type WriteReport struct {
	Message   skald.Message
	CauseKept bool // Write found the cause, and the message has the correlation ID of the cause
	Repeated  bool // the same message was written under this ID before, so Write wrote nothing
}

// Errors of Write for an ID that was used before. See Write.
var (
	ErrOtherMessage = complete.ErrOtherMessage
	ErrForgotten    = complete.ErrForgotten
)

// WriteStore is the part of a store that Write needs.
type WriteStore interface {
	MessageStore
	Secret(ctx context.Context) ([]byte, error)
}

// WriteError reports that Write cannot determine whether the message was written. Call Write again with this
// ID: it does not write the message twice.
type WriteError struct {
	ID  string
	Err error
}

func (e *WriteError) Error() string {
	return fmt.Sprintf(
		"outbox write: if it is unclear whether %s was written, repeat the command with --id %s: %v", e.ID,
		e.ID, e.Err)
}

func (e *WriteError) Unwrap() error { return e.Err }

// rawCodec is a codec for payloads that are encoded already.
type rawCodec struct {
	skald.JSON
	contentType string
}

// Encode stores the bytes unchanged.
func (a rawCodec) Encode(_ context.Context, m *skald.Message, v any) error {
	m.Data, m.ContentType = v.([]byte), a.contentType
	return nil
}

// Write writes one message into the outbox, for example a manual compensation. The same transaction records
// the audit. If the same message was written under Draft.ID before, Write writes nothing and sets
// WriteReport.Repeated. Write returns ErrOtherMessage if another message was written under the ID. It
// returns ErrForgotten if the ID is older than the retention of marks.
func Write(ctx context.Context, db WriteStore, d Draft, o Order) (r WriteReport, err error) {
	if err := checkOrder(&o); err != nil {
		return r, err
	}
	if d.ContentType == "application/json" && !json.Valid(d.Data) {
		return r, &UsageError{Reason: "the payload is no JSON: correct it, or give its content type"}
	}
	if d.ContentType == "application/json" && fingerprint.CheckJSON(d.Data) != nil {
		return r, &UsageError{Reason: "the payload: " + fingerprint.ErrNotText.Error()}
	}
	cause, consumer, id, found, err := findCause(ctx, db, &d)
	if err != nil {
		return r, err
	}
	r.CauseKept = found
	caused, by := ctx, complete.Completer{}
	if d.CausedBy != "" {
		caused = skald.WithCause(ctx, cause)
	}
	if d.ID != "" {
		by.NewID = func(time.Time) string { return d.ID }
	}
	ms, err := by.Messages(caused, []skald.Draft{{Topic: d.Topic, Type: d.Type, Value: d.Data, Key: d.Key,
		Codec: rawCodec{contentType: d.ContentType}}})
	if err != nil {
		return r, &UsageError{Reason: err.Error()}
	}
	r.Message = ms[0]
	if o.DryRun {
		return r, nil
	}
	m := &r.Message
	if id.ID == "" {
		id.ID = m.ID
	}
	e := store.Effect{Rows: ms,
		Audit: auditOf(&o, fmt.Sprintf("write %s %s to %s", m.Type, m.ID, m.Topic), consumer, id)}
	r.Repeated, err = writeOnce(ctx, db, e, d.ID != "")
	if limit := new(store.LimitError); errors.As(err, &limit) {
		return r, &UsageError{Reason: err.Error()}
	}
	if errors.Is(err, ErrOtherMessage) || errors.Is(err, ErrForgotten) {
		return r, fmt.Errorf("outbox write: %s: %w", m.ID, err)
	}
	if err != nil {
		return r, &WriteError{m.ID, err}
	}
	return r, nil
}

// writeOnce writes the row of e. If marked is true, it also writes the mark that outbox.Write uses, so that a
// second call writes nothing.
func writeOnce(ctx context.Context, db WriteStore, e store.Effect, marked bool) (repeated bool, err error) {
	if !marked {
		_, err = db.Apply(ctx, e)
		return false, err
	}
	secret, err := db.Secret(ctx)
	if err != nil {
		return false, err
	}
	mark := complete.MarkWritten(secret, &e.Rows[0])
	e.Mark = &mark
	applied, err := applyEffect(ctx, db, e)
	if err != nil || applied {
		return false, err
	}
	seen, err := db.Seen(ctx, mark.Consumer, []store.Identity{mark.Identity})
	switch {
	case err != nil:
		return false, err
	case seen[0].Outcome != store.Done:
		return false, ErrForgotten
	case seen[0].Fingerprint != mark.Fingerprint:
		return false, ErrOtherMessage
	}
	return true, nil
}

// findCause searches for the message that causes the draft. It also returns the consumer that keeps this
// message, and the identity of the message.
func findCause(ctx context.Context, db MessageStore,
	d *Draft) (cause skald.Message, consumer string, id store.Identity, found bool, err error) {
	if d.CausedBy == "" {
		return cause, d.Consumer, id, false, nil
	}
	cause.ID, consumer = d.CausedBy, d.Consumer
	for p, err := range listAny(ctx, db,
		Selection{Consumer: d.Consumer, Source: d.Source, ID: d.CausedBy}) {
		switch {
		case err != nil:
			return cause, consumer, id, found, err
		// A message with an equal source is the same message, kept for another consumer.
		case found && p.Message.Source != cause.Source:
			return cause, consumer, id, found,
				&UsageError{
					Reason: fmt.Sprintf(
						"several messages have the id %s: select one by its consumer and its source",
						d.CausedBy)}
		}
		cause, id, consumer, found = p.Message, p.Identity, p.Consumer, true
	}
	return cause, consumer, id, found, nil
}
