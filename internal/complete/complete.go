// Package complete converts drafts to messages, for the outbox, the inbox and the saga engine. It encodes the
// payload, adds the ID, the time and the cause, and checks the limits.
package complete

import (
	"cmp"
	"context"
	"fmt"
	"runtime/debug"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/internal/telemetry"
	"github.com/skald-go/skald/internal/uuid7"
	"github.com/skald-go/skald/store"
)

// Limits of a message, in bytes. Every broker supports messages within these limits. The tables check the
// same limits for rows that other programs insert.
const (
	MaxData    = 900 << 10
	MaxHeaders = 16 << 10
	MaxName    = 128
	MaxKey     = 1 << 10
	MaxTopic   = 249
	MaxType    = 255
	MaxText    = 1 << 10 // of a subject, a schema or an ID in a stamp

	mostHeaders = 1024 // limits the number of headers, because each header needs additional bytes
)

// Completer converts drafts to messages. The zero Completer works.
type Completer struct {
	Now   func() time.Time           // nil means time.Now
	NewID func(now time.Time) string // nil means UUIDs of version 7
	Codec skald.Codec                // the codec of drafts without a codec; nil means JSON
}

// Messages converts drafts to messages, in order. Each message gets the cause and the span in ctx. Messages
// converts a panic of a codec, or of a value that encodes itself, to an error.
func (c Completer) Messages(ctx context.Context, drafts []skald.Draft) (out []skald.Message, err error) {
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("encode a draft: it panicked: %v\n%s", v, debug.Stack())
		}
	}()
	out = make([]skald.Message, len(drafts))
	s := stampOf(ctx)
	for i := range drafts {
		if err := c.complete(ctx, &out[i], &drafts[i], &s); err != nil {
			return nil, err
		}
	}
	return out, nil
}

func (c Completer) complete(ctx context.Context, m *skald.Message, d *skald.Draft, s *stamp) error {
	*m = skald.Message{Type: d.Type, Topic: d.Topic, Key: d.Key, Subject: d.Subject, Headers: d.Headers}
	if d.ID != "" {
		if _, ok := uuid7.Parse(d.ID); !ok {
			return &store.LimitError{Topic: d.Topic, Type: d.Type, What: fmt.Sprintf(
				"the draft's id %.40q is no UUID: give it one in text form, of version 7, or none", d.ID)}
		}
		m.ID = strings.ToLower(d.ID)
	}
	c.stamp(m, s)
	if d.Value != nil {
		if err := c.codec(d).Encode(ctx, m, d.Value); err != nil {
			return fmt.Errorf("encode %s for topic %q: %w", d.Type, d.Topic, err)
		}
	}
	return Limits(m)
}

func (c Completer) codec(d *skald.Draft) skald.Codec {
	switch {
	case d.Codec != nil:
		return d.Codec
	case c.Codec != nil:
		return c.Codec
	}
	return skald.JSON{}
}

// stamp has the fields that all messages of one call have in common.
type stamp struct{ correlation, causation, trace string }

func stampOf(ctx context.Context) stamp {
	cause, _ := skald.Cause(ctx)
	s := stamp{causation: storable(cause.ID), trace: telemetry.TraceParent(ctx)}
	if s.trace == "" {
		s.trace = storable(cause.TraceParent)
	}
	s.correlation = cmp.Or(storable(cause.CorrelationID), s.causation)
	return s
}

func (c Completer) stamp(m *skald.Message, s *stamp) {
	now, id := c.Now, c.NewID
	if now == nil {
		now = time.Now
	}
	if id == nil {
		id = uuid7.New
	}
	m.Time = now().UTC().Truncate(time.Microsecond) // the precision of PostgreSQL
	if m.ID == "" {
		m.ID = id(m.Time)
	}
	m.CausationID, m.TraceParent = s.causation, s.trace
	m.CorrelationID = cmp.Or(s.correlation, m.ID)
}

// storable returns s, or "" if a column or a header cannot store s. A message of another publisher may have
// any text as its ID. A handler of such a message must still be able to write messages.
func storable(s string) string {
	if len(s) > MaxText || !textOK(s) {
		return ""
	}
	return s
}

// Limits returns a *store.LimitError if m exceeds a limit.
func Limits(m *skald.Message) error {
	what := ""
	switch size := headerSize(m.Headers); {
	case !Topic(m.Topic):
		what = "a topic is 1 to 249 of A-Z a-z 0-9 . _ -"
	case m.Type == "" || len(m.Type) > MaxType || !textOK(m.Type):
		what = fmt.Sprintf("a type is 1 to %d bytes of text", MaxType)
	case len(m.Key) > MaxKey:
		what = fmt.Sprintf("the key is %d bytes, at most %d are allowed", len(m.Key), MaxKey)
	case len(m.Data) > MaxData:
		what = fmt.Sprintf("data is %d bytes, at most %d are allowed: send a reference instead",
			len(m.Data), MaxData)
	case len(m.Headers) > mostHeaders:
		what = fmt.Sprintf("there are %d headers, at most %d are allowed", len(m.Headers), mostHeaders)
	case size > MaxHeaders:
		what = fmt.Sprintf("headers are %d bytes, at most %d are allowed", size, MaxHeaders)
	case !textOK(m.Subject) || len(m.Subject) > MaxText:
		what = fmt.Sprintf("a subject is at most %d bytes of text", MaxText)
	case !textOK(m.ContentType) || len(m.ContentType) > MaxType:
		what = fmt.Sprintf("a content type is at most %d bytes of text", MaxType)
	case !textOK(m.Schema) || len(m.Schema) > MaxText:
		what = fmt.Sprintf("a schema is at most %d bytes of text", MaxText)
	default:
		what = badHeader(m.Headers)
	}
	if what == "" {
		return nil
	}
	return &store.LimitError{Topic: m.Topic, Type: m.Type, What: what}
}

// Broken returns the name of the constraint of the outbox table that m violates, or "". The table does not
// check rows of writers that claim to have checked the limits, so a relay checks them again. The table
// itself checks headers.
func Broken(m *skald.Message) string {
	switch {
	case !Topic(m.Topic):
		return "skald_outbox_topic"
	case m.Type == "" || len(m.Type) > MaxType || twoLines(m.Type):
		return "skald_outbox_type"
	case len(m.Key) > MaxKey:
		return "skald_outbox_key"
	case len(m.Data) > MaxData:
		return "skald_outbox_data"
	case len(m.Subject) > MaxText || twoLines(m.Subject):
		return "skald_outbox_subject"
	}
	return ""
}

func twoLines(s string) bool {
	return strings.IndexByte(s, '\n') >= 0 || strings.IndexByte(s, '\r') >= 0
}

// Topic reports whether s can be the name of a topic.
func Topic(s string) bool {
	if s == "" || len(s) > MaxTopic {
		return false
	}
	for _, r := range []byte(s) {
		if !nameByte(r) {
			return false
		}
	}
	return true
}

func nameByte(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '.' ||
		c == '_' || c == '-'
}

// textOK reports whether a text column of PostgreSQL and a header of every broker can store s.
func textOK(s string) bool { return utf8.ValidString(s) && !strings.ContainsAny(s, "\x00\r\n") }

func headerSize(hs []skald.Header) (n int) {
	for _, h := range hs {
		n += len(h.Name) + len(h.Value)
	}
	return n
}

func badHeader(hs []skald.Header) string {
	for _, h := range hs {
		if h.Name == "" || len(h.Name) > MaxName {
			return fmt.Sprintf("the header name %q is not 1 to %d bytes", h.Name, MaxName)
		}
		for _, c := range []byte(h.Name) {
			if !nameByte(c) {
				return fmt.Sprintf("the header name %q has other characters than A-Z a-z 0-9 . _ -", h.Name)
			}
		}
	}
	return ""
}
