package operate

import (
	"encoding/json"
	"time"

	"github.com/skald-go/skald/store"
)

// Message is a parked message or a dead letter, for people and tools. The JSON field names are stable. In
// JSON, Key and Data are base64.
type Message struct {
	Place       int64      `json:"place"`
	Consumer    string     `json:"consumer"`
	Source      string     `json:"source"`
	ID          string     `json:"id"`
	Topic       string     `json:"topic"`
	Type        string     `json:"type"`
	Key         []byte     `json:"key"`
	Attempts    int        `json:"attempts"`
	DueSeconds  float64    `json:"due_seconds"`
	Waiting     bool       `json:"waiting"`
	Since       time.Time  `json:"since"`
	FirstError  string     `json:"first_error,omitempty"`
	LastError   string     `json:"last_error,omitempty"`
	LastAt      *time.Time `json:"last_at,omitempty"`
	LastHost    string     `json:"last_host,omitempty"`
	Partition   string     `json:"partition"`
	Position    int64      `json:"position"`
	Kind        string     `json:"kind,omitempty"`
	Fingerprint string     `json:"fingerprint,omitempty"`
	DeadAt      *time.Time `json:"dead_at,omitempty"`
	BlocksKey   bool       `json:"blocks_key"`
	Version     string     `json:"version,omitempty"`
	Stack       string     `json:"stack,omitempty"`
	ContentType string     `json:"content_type,omitempty"`
	Data        []byte     `json:"data,omitempty"`

	Time          *time.Time      `json:"time,omitempty"` // when it was published
	Subject       string          `json:"subject,omitempty"`
	DataSchema    string          `json:"data_schema,omitempty"`
	CorrelationID string          `json:"correlation_id,omitempty"`
	CausationID   string          `json:"causation_id,omitempty"`
	TraceParent   string          `json:"traceparent,omitempty"`
	Headers       []Header        `json:"headers,omitempty"`
	Payload       json.RawMessage `json:"payload,omitempty"` // equal to Data, if Data is JSON
	Fault         string          `json:"fault,omitempty"`   // why the envelope could not be read
	FirstAt       *time.Time      `json:"first_at,omitempty"`
	FirstHost     string          `json:"first_host,omitempty"`
	// CrashCount counts the crashes of a process that handled only this message at that time.
	CrashCount int `json:"crash_count,omitempty"`
	// Failures has the first failed attempt and the last store.MaxFailures failed attempts, oldest first.
	Failures []FailedAttempt `json:"failures,omitempty"`
}

// FailedAttempt is one failed attempt at a message. The JSON field names are stable.
type FailedAttempt struct {
	At    time.Time `json:"at"`
	Error string    `json:"error"` // at most 300 bytes; the first attempt may have a longer error
	Host  string    `json:"host"`
}

// Header is one header of a message.
type Header struct {
	Name  string `json:"name"`
	Value []byte `json:"value"`
}

// NewMessage converts p to a Message.
func NewMessage(p *store.Parked) Message {
	m := &p.Message
	out := Message{Place: p.Place, Consumer: p.Consumer, Source: p.Source, ID: p.ID, Topic: m.Topic,
		Type: m.Type, Key: m.Key, Attempts: p.Attempts,
		DueSeconds: p.Due.Seconds(), Waiting: p.Waiting, Since: p.Since, FirstError: p.First.Why,
		LastError: p.Last.Why, LastHost: p.Last.Host,
		Partition: p.Partition, Position: p.Position, BlocksKey: m.Key != nil, ContentType: m.ContentType,
		Data: m.Data,
		Time: timeOrNil(m.Time), Subject: m.Subject, DataSchema: m.Schema, CorrelationID: m.CorrelationID,
		CausationID: m.CausationID, TraceParent: m.TraceParent,
		Fault: p.Fault, FirstAt: timeOrNil(p.First.At), FirstHost: p.First.Host,
		LastAt: timeOrNil(p.Last.At), CrashCount: p.CrashCount, Failures: failedAttempts(p)}
	for _, h := range m.Headers {
		out.Headers = append(out.Headers, Header{h.Name, h.Value})
	}
	if m.ContentType == "application/json" && json.Valid(m.Data) {
		out.Payload = m.Data
	}
	if d := p.Dead; d != nil {
		out.Kind, out.Fingerprint, out.DeadAt, out.Version, out.Stack = d.Kind, d.Fingerprint,
			timeOrNil(d.At), d.Version, d.Stack
		out.BlocksKey = d.BlocksKey && m.Key != nil
	}
	return out
}

func failedAttempts(p *store.Parked) (out []FailedAttempt) {
	add := func(f store.Failure) { out = append(out, FailedAttempt{f.At, f.Why, f.Host}) }
	all := p.Failures
	if len(all) == 0 && !p.Last.At.IsZero() { // a version of Skald without this list parked the message
		all = []store.Failure{p.Last}
	}
	// After a release, First is the first attempt since the release, and the list may have earlier attempts.
	complete := len(p.Failures) > 0 && len(p.Failures) < store.MaxFailures
	if !complete && !p.First.At.IsZero() && len(all) > 0 && all[0].At.Sub(p.First.At) > time.Millisecond {
		add(p.First)
	}
	for _, f := range all {
		add(f)
	}
	return out
}

// State describes the state of a kept message in a few words.
func State(p *store.Parked) string {
	switch {
	case p.Dead != nil:
		return "dead: " + p.Dead.Kind + " " + p.Dead.Fingerprint
	case p.Waiting:
		return "waits behind its key"
	case p.Session != "" && p.Due > 0:
		return "running"
	case p.Due <= 0:
		return "due"
	}
	return "due in " + p.Due.Round(time.Millisecond).String()
}
