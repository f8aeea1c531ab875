// This file creates the messages that announce dead letters.

package failure

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/store"
)

// AnnouncementType is the type of a message that announces a dead letter without its payload.
const AnnouncementType = "skald.dead"

// CopyType is the type of a copy of a dead letter that has no type, for example from a plain Kafka producer.
const CopyType = "skald.dead.copy"

// Announcement is the value of a message that announces a dead letter: its identity and the reason, without
// its payload.
type Announcement struct {
	Consumer    string    `json:"consumer"`
	Source      string    `json:"source"`
	ID          string    `json:"id"`
	Topic       string    `json:"topic"`
	Type        string    `json:"type"`
	Kind        string    `json:"kind"`
	Error       string    `json:"error"`
	Fingerprint string    `json:"fingerprint"`
	Attempts    int       `json:"attempts"`
	FailedAt    time.Time `json:"failed_at"`
	BlocksKey   bool      `json:"blocks_key"`
}

// FaultTooLarge is the prefix of store.Parked.Fault for a record that was too large. Only a part of its
// payload is stored. If an operator redrives it, it becomes a dead letter of the same kind again.
const FaultTooLarge = string(TooLarge) + ": "

// FaultUnkept is the prefix of store.Parked.Fault for a message that the store could not park. Its payload is
// not stored.
const FaultUnkept = KindUnkept + ": "

// IsComplete returns true if a stored message with this store.Parked.Fault has its complete payload.
func IsComplete(fault string) bool {
	return !strings.HasPrefix(fault, FaultTooLarge) && !strings.HasPrefix(fault, FaultUnkept)
}

// Headers of a copy of a dead letter, and the maximum length of a reason.
const (
	headerAttempt = "x-attempt"
	headerReason  = "x-failed-reason"
	headerAt      = "x-failed-at"
	headerID      = "x-original-id"
	headerSource  = "x-original-source"
	headerTopic   = "x-original-topic"
	maxReason     = 1 << 10 // bytes of an error in an announcement
)

// Announcer creates the messages that announce dead letters on a topic.
type Announcer struct {
	Topic string // the topic; "" means no announcements
	Copy  bool   // publish a complete copy if it is not too large, otherwise an Announcement
	// Headers renames the headers that a copy gets. It maps their default names to new names. An empty new
	// name omits the header.
	Headers map[string]string
	// Complete returns the outbox rows for drafts.
	Complete func(ctx context.Context, ds []skald.Draft) ([]skald.Message, error)
	Logger   *slog.Logger
}

// Rows returns the outbox row that announces a dead letter, with its own ID. It returns none if Topic is
// empty. If it cannot create the announcement, it logs this and returns none, because the dead letter must be
// stored anyway.
func (a Announcer) Rows(ctx context.Context, p *store.Parked) []skald.Message {
	if a.Topic == "" {
		return nil
	}
	ctx = skald.WithCause(ctx, p.Message)
	var err error
	for _, d := range a.drafts(p) {
		var rows []skald.Message
		if rows, err = a.Complete(ctx, []skald.Draft{d}); err == nil {
			return rows
		}
		if _, copied := d.Codec.(verbatim); copied {
			a.Logger.WarnContext(ctx,
				"inbox: a dead letter cannot be copied whole; an announcement is published instead",
				"consumer", p.Consumer,
				"topic", a.Topic, "id", p.ID, "error", err)
		}
	}
	a.Logger.WarnContext(ctx, "inbox: a dead letter cannot be announced", "consumer", p.Consumer,
		"topic", a.Topic, "id", p.ID, "error", err)
	return nil
}

// drafts returns the possible announcements of p in order of preference.
func (a Announcer) drafts(p *store.Parked) (out []skald.Draft) {
	m := &p.Message
	if a.Copy && IsComplete(p.Fault) {
		more := a.diagnostics(p)
		out = append(out, skald.Draft{Topic: a.Topic, Type: cmp.Or(m.Type, CopyType), Key: m.Key,
			Subject: m.Subject, Value: m,
			Codec: verbatim{}, Headers: slices.Concat(withoutNames(m.Headers, more), more)})
	}
	reference := skald.Draft{Topic: a.Topic, Type: AnnouncementType, Key: m.Key, Codec: skald.JSON{},
		Value: Announcement{
			Consumer: p.Consumer, Source: p.Source, ID: p.ID, Topic: m.Topic, Type: m.Type, Kind: p.Dead.Kind,
			Error:       cut(p.Last.Why),
			Fingerprint: p.Dead.Fingerprint, Attempts: p.Attempts, FailedAt: p.Dead.At.UTC(),
			BlocksKey: p.Dead.BlocksKey && m.Key != nil}}
	bare := reference // without the key, because another system's key may exceed Skald's limit
	bare.Key = nil
	return append(out, reference, bare)
}

// diagnostics returns the headers that a copy gets.
func (a Announcer) diagnostics(p *store.Parked) (out []skald.Header) {
	for _, h := range []skald.Header{
		{Name: headerAttempt, Value: []byte(strconv.Itoa(p.Attempts))},
		{Name: headerReason, Value: []byte(cut(p.Last.Why))},
		{Name: headerAt, Value: []byte(p.Dead.At.UTC().Format(time.RFC3339Nano))},
		{Name: headerID, Value: []byte(cmp.Or(p.Message.ID, p.ID))},
		{Name: headerSource, Value: []byte(cmp.Or(p.Message.Source, p.Source))},
		{Name: headerTopic, Value: []byte(p.Message.Topic)},
	} {
		if name, mapped := a.Headers[h.Name]; mapped {
			h.Name = name
		}
		if h.Name != "" {
			out = append(out, h)
		}
	}
	return out
}

// withoutNames returns headers without the headers that have the name of one in excluded. Otherwise a copy
// that fails and is copied again would grow each time.
func withoutNames(headers, excluded []skald.Header) []skald.Header {
	return slices.DeleteFunc(slices.Clone(headers), func(h skald.Header) bool {
		return slices.ContainsFunc(excluded, func(m skald.Header) bool { return m.Name == h.Name })
	})
}

// verbatim is a codec that copies the payload of a message unchanged.
type verbatim struct{ skald.JSON }

// Encode sets the payload of m to that of v, which is a *skald.Message.
func (verbatim) Encode(_ context.Context, m *skald.Message, v any) error {
	original, ok := v.(*skald.Message)
	if !ok {
		return fmt.Errorf("only a *skald.Message can be copied, not a %T", v)
	}
	m.Data, m.ContentType, m.Schema = original.Data, original.ContentType, original.Schema
	return nil
}

func cut(s string) string { return strings.ToValidUTF8(s[:min(len(s), maxReason)], "\ufffd") }
