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

// AnnouncementType is the type of the message that tells of a dead letter by reference.
const AnnouncementType = "skald.dead"

// CopyType is the type of a copy of a message that had none, as one of a plain Kafka producer.
const CopyType = "skald.dead.copy"

// An Announcement tells others of a dead letter: where it lies and why, not its payload.
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
	HoldsKey    bool      `json:"blocks_key"`
}

// FaultTooLarge begins store.Parked.Fault of a record that was too large: not all of its payload is kept.
// Redriven, it is of that kind again.
const FaultTooLarge = string(TooLarge) + ": "

// FaultUnkept begins store.Parked.Fault of a message that the store refused to park: its payload is not kept.
const FaultUnkept = KindUnkept + ": "

// Whole reports whether a kept message with this store.Parked.Fault has all of its payload.
func Whole(fault string) bool {
	return !strings.HasPrefix(fault, FaultTooLarge) && !strings.HasPrefix(fault, FaultUnkept)
}

// The headers that a copy of a dead letter has more than the message.
const (
	headerAttempt = "x-attempt"
	headerReason  = "x-failed-reason"
	headerAt      = "x-failed-at"
	headerID      = "x-original-id"
	headerSource  = "x-original-source"
	headerTopic   = "x-original-topic"
	maxReason     = 1 << 10 // bytes of an error in an announcement
)

// An Announcer makes the messages that tell a topic of dead letters.
type Announcer struct {
	Topic string // "": nobody is told
	Copy  bool   // the message is copied whole, where that is not too large; else by reference
	// Headers are the names that the headers of a copy have instead of x-attempt and the others; "" leaves
	// one out.
	Headers map[string]string
	// Complete makes outbox rows of drafts.
	Complete func(ctx context.Context, ds []skald.Draft) ([]skald.Message, error)
	Logger   *slog.Logger
}

// Rows returns the outbox rows that tell of a dead letter: one, or none where Topic is empty. They have ids
// of their own. The dead letter does not depend on them: what cannot be told is logged, and left out.
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
				"inbox: a dead letter cannot be copied whole; a reference goes to the topic",
				"consumer", p.Consumer,
				"topic", a.Topic, "id", p.ID, "error", err)
		}
	}
	a.Logger.WarnContext(ctx, "inbox: a dead letter cannot be announced", "consumer", p.Consumer,
		"topic", a.Topic, "id", p.ID, "error", err)
	return nil
}

// drafts are the ways to tell of p, the best first.
func (a Announcer) drafts(p *store.Parked) (out []skald.Draft) {
	m := &p.Message
	if a.Copy && Whole(p.Fault) {
		more := a.diagnostics(p)
		out = append(out, skald.Draft{Topic: a.Topic, Type: cmp.Or(m.Type, CopyType), Key: m.Key,
			Subject: m.Subject, Value: m,
			Codec: verbatim{}, Headers: slices.Concat(without(m.Headers, more), more)})
	}
	reference := skald.Draft{Topic: a.Topic, Type: AnnouncementType, Key: m.Key, Codec: skald.JSON{},
		Value: Announcement{
			Consumer: p.Consumer, Source: p.Source, ID: p.ID, Topic: m.Topic, Type: m.Type, Kind: p.Dead.Kind,
			Error:       cut(p.Last.Why),
			Fingerprint: p.Dead.Fingerprint, Attempts: p.Attempts, FailedAt: p.Dead.At.UTC(),
			HoldsKey: p.Dead.BlocksKey && m.Key != nil}}
	bare := reference // a foreign key may be longer than ours can be
	bare.Key = nil
	return append(out, reference, bare)
}

// diagnostics are the headers that a copy has more than the message.
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

// without returns headers without those of more's names: a copy that comes back through the topic must not
// grow each time.
func without(headers, more []skald.Header) []skald.Header {
	return slices.DeleteFunc(slices.Clone(headers), func(h skald.Header) bool {
		return slices.ContainsFunc(more, func(m skald.Header) bool { return m.Name == h.Name })
	})
}

// verbatim is the codec of a message that is copied as it came.
type verbatim struct{ skald.JSON }

// Encode takes the payload of another message.
func (verbatim) Encode(_ context.Context, m *skald.Message, v any) error {
	was, ok := v.(*skald.Message)
	if !ok {
		return fmt.Errorf("a message is copied, not a %T", v)
	}
	m.Data, m.ContentType, m.Schema = was.Data, was.ContentType, was.Schema
	return nil
}

func cut(s string) string { return strings.ToValidUTF8(s[:min(len(s), maxReason)], "\ufffd") }
