package inbox

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/store"
)

// AnnouncementType is the type of the message that tells of a dead letter by reference.
const AnnouncementType = "skald.dead"

// An Announcement tells others of a dead letter: where it lies and why, not what is in it.
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
	HoldsKey    bool      `json:"holds_key"`
}

// The headers of a dead letter that is copied whole.
const (
	headerAttempt = "x-attempt"
	headerReason  = "x-failed-reason"
	headerAt      = "x-failed-at"
	headerID      = "x-original-id"
	headerSource  = "x-original-source"
	headerTopic   = "x-original-topic"
	maxReason     = 1 << 10
)

func (in *Inbox[TTx]) death(kind string, class Class, e *entry, err error, now time.Time) *store.Death {
	d := &store.Death{At: now, Kind: kind, Fingerprint: in.kindOf(class, e.Type, why(err)), Version: in.o.Version, Holds: !in.o.FreeDead}
	var p *PanicError
	if errors.As(err, &p) {
		d.Stack = string(p.Stack)
	}
	return d
}

// owns are the parts of an error's text that are one message's own.
func owns() (out []*regexp.Regexp) {
	for _, own := range []string{`"[^"]*"`, `'[^']*'`, `\b[0-9a-fA-F]{8}-[0-9a-fA-F-]{27}\b`, `0x[0-9a-fA-F]+`, `[0-9]+`} {
		out = append(out, regexp.MustCompile(own))
	}
	return out
}

// kindOf is equal for failures of one kind: what is one message's own in the text does not count.
func (in *Inbox[TTx]) kindOf(class Class, typ, why string) string {
	for _, own := range in.own {
		why = own.ReplaceAllString(why, "#")
	}
	sum := sha256.Sum256([]byte(string(class) + "\x00" + typ + "\x00" + why))
	return hex.EncodeToString(sum[:6])
}

// announcement is what the dead-letter topic is told, if there is one. It has an id of its own: the message's is for the
// message. What cannot be said is not said: the dead letter itself does not depend on it.
func (in *Inbox[TTx]) announcement(ctx context.Context, k *store.Keep) []skald.Message {
	if in.o.DeadTopic == "" {
		return nil
	}
	ctx = skald.WithCause(ctx, k.Message)
	var err error
	for _, d := range in.drafts(k) {
		var ms []skald.Message
		if ms, err = in.with.Messages(ctx, []skald.Draft{d}); err == nil {
			return ms
		}
	}
	in.o.Logger.WarnContext(ctx, "inbox: a dead letter cannot be announced", "consumer", in.group, "topic", in.o.DeadTopic, "id", k.ID, "error", err)
	return nil
}

// drafts are the ways to say it, the best first.
func (in *Inbox[TTx]) drafts(k *store.Keep) (out []skald.Draft) {
	m := &k.Message
	if in.o.DeadCopy && k.Fault == "" {
		more := in.diagnostics(k)
		out = append(out, skald.Draft{Topic: in.o.DeadTopic, Type: m.Type, Key: m.Key, Subject: m.Subject, Value: m, Codec: whole{},
			Headers: slices.Concat(without(m.Headers, more), more)})
	}
	reference := skald.Draft{Topic: in.o.DeadTopic, Type: AnnouncementType, Key: m.Key, Codec: skald.JSON{}, Value: Announcement{
		Consumer: in.group, Source: k.Source, ID: k.ID, Topic: m.Topic, Type: m.Type, Kind: k.Dead.Kind, Error: cut(k.Last.Why),
		Fingerprint: k.Dead.Fingerprint, Attempts: k.Attempts, FailedAt: k.Dead.At.UTC(), HoldsKey: k.Dead.Holds && m.Key != nil}}
	bare := reference // a foreign key may be longer than ours can be
	bare.Key = nil
	return append(out, reference, bare)
}

// diagnostics are the headers that a copy has more than the message.
func (in *Inbox[TTx]) diagnostics(k *store.Keep) (out []skald.Header) {
	for _, h := range []skald.Header{
		{Name: headerAttempt, Value: []byte(strconv.Itoa(k.Attempts))},
		{Name: headerReason, Value: []byte(cut(k.Last.Why))},
		{Name: headerAt, Value: []byte(k.Dead.At.UTC().Format(time.RFC3339Nano))},
		{Name: headerID, Value: []byte(k.Message.ID)},
		{Name: headerSource, Value: []byte(k.Message.Source)},
		{Name: headerTopic, Value: []byte(k.Message.Topic)},
	} {
		if name, mapped := in.o.DeadHeaders[h.Name]; mapped {
			h.Name = name
		}
		if h.Name != "" {
			out = append(out, h)
		}
	}
	return out
}

// without is headers but for those of more's names: a copy that goes round by the topic must not grow each time.
func without(headers, more []skald.Header) []skald.Header {
	return slices.DeleteFunc(slices.Clone(headers), func(h skald.Header) bool {
		return slices.ContainsFunc(more, func(m skald.Header) bool { return m.Name == h.Name })
	})
}

// kindRejected is the kind of a rejection that is a dead letter, too.
const kindRejected = "rejected"

// rejection is e as a dead letter that was rejected. Its verdict stays with its mark.
func (in *Inbox[TTx]) rejection(e *entry, no *skald.RejectedError, code int32) *store.Keep {
	k, now := in.parcel(e), in.o.Now()
	k.Call = nil                                                // who redrives it asks anew
	k.Marked, k.Step, k.MostRows, k.MostBytes = true, nil, 0, 0 // the verdict says how its step stands
	text := no.Error()
	if code != 0 {
		text = fmt.Sprintf("rejected with code %d: %v", code, no.Err)
	}
	k.Last = store.Failure{At: now, Why: text, Host: in.o.Host}
	if k.First.At.IsZero() {
		k.First = k.Last
	}
	k.Dead = in.death(kindRejected, Class(kindRejected), e, errors.New(text), now)
	k.Dead.Holds = in.o.RejectHolds
	return k
}

// whole is the codec of a message that is said again as it came.
type whole struct{ skald.JSON }

// Encode takes what is there.
func (whole) Encode(_ context.Context, m *skald.Message, v any) error {
	was, ok := v.(*skald.Message)
	if !ok {
		return fmt.Errorf("a message is copied, not a %T", v)
	}
	m.Data, m.ContentType, m.Schema = was.Data, was.ContentType, was.Schema
	return nil
}

func cut(s string) string { return strings.ToValidUTF8(s[:min(len(s), maxReason)], "\ufffd") }
