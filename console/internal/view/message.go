package view

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/skald-go/skald/console/internal/page"
	"github.com/skald-go/skald/operate"
	"github.com/skald-go/skald/store"
)

// messagePage is the page of one message at one consumer.
type messagePage struct {
	Source string `json:"source"`
	// Kept is the message without payload and header values, if it is parked or dead.
	Kept    *operate.Message `json:"kept,omitempty"`
	State   string           `json:"state"`
	Outcome string           `json:"outcome"` // fresh, done, rejected, barred, …
	Reason  string           `json:"reason,omitempty"`
	Bytes   int              `json:"bytes"`
	Headers []string         `json:"headers"` // names
	// Seen is a hash of the state on this page. The form of a verb sends Seen back, and the console refuses
	// the verb if the state has changed.
	Seen        string        `json:"seen"`
	Call        *callLine     `json:"call,omitempty"`
	Quarantined []quarantined `json:"quarantine"`
	Audit       []line        `json:"audit"` // entries about the message among the newest 1,000
	Shown       *page.Shown   `json:"payload,omitempty"`

	id       store.Identity
	consumer string
	sel      operate.Selection
	at       *page.Source
	links    map[string]string
}

type callLine struct {
	Key   string    `json:"key"`
	Since time.Time `json:"since"`
	Known bool      `json:"answered"`
	Undo  bool      `json:"undo"`
}

// stateHash returns a hash of the parts of a message's state that verbs depend on.
func stateHash(p *store.Parked) string {
	state := fmt.Sprint(p.Place, p.Attempts, p.Last.At.UnixNano(), p.CrashCount)
	if p.Dead != nil {
		state += fmt.Sprint(" dead ", p.Dead.At.UnixNano(), p.Dead.Kind, p.Dead.Fingerprint)
	}
	if p.Call != nil {
		state += " call " + p.Call.Key + p.Call.Outcome
	}
	sum := sha256.Sum256([]byte(state))
	return hex.EncodeToString(sum[:8])
}

// Pages has the pages of single messages.
type Pages struct {
	Mask  page.Mask
	Links map[string]string // Options.Links
}

// Message is the page of one message.
func (m Pages) Message(q *page.Request) (page.View, error) {
	s, err := q.Source()
	if err != nil {
		return nil, err
	}
	v, _, err := m.read(q, s)
	return v, err
}

// read reads the message that the arguments identify.
func (m Pages) read(q *page.Request, s *page.Source) (*messagePage, *store.Parked, error) {
	v := &messagePage{Source: s.Name, consumer: q.Arg("consumer"),
		id: store.Identity{Source: q.Arg("source"), ID: q.Arg("id")}, at: s, links: m.Links,
		Headers: []string{}, Quarantined: []quarantined{}, Audit: []line{}}
	if v.consumer == "" || v.id.ID == "" {
		return nil, nil, page.NewRefusal(http.StatusBadRequest, "give consumer, source and id of a message")
	}
	kept, err := page.One(q, s,
		func(ctx context.Context, s *page.Source) (*store.Parked, error) { return v.read(ctx, s) })
	return v, kept, err
}

func (v *messagePage) read(ctx context.Context, s *page.Source) (*store.Parked, error) {
	list, err := store.ListParked(ctx, s.DB, store.ParkedQuery{Consumer: v.consumer, Identity: &v.id,
		Limit: 1})
	if err != nil {
		return nil, err
	}
	seen, err := s.DB.Seen(ctx, v.consumer, []store.Identity{v.id})
	if err != nil {
		return nil, err
	}
	found, err := store.ListQuarantined(ctx, s.DB, store.QuarantineQuery{Consumer: v.consumer, ID: v.id.ID,
		Taken: true,
		Bare:  true})
	if err != nil {
		return nil, err
	}
	acts, err := s.DB.Audits(ctx, store.AuditQuery{Limit: 1000})
	if err != nil {
		return nil, err
	}
	v.Outcome, v.Reason, v.State = seen[0].Outcome.String(), seen[0].Reason, seen[0].Outcome.String()
	for i := range found {
		if found[i].Identity == v.id {
			v.Quarantined = append(v.Quarantined, quarantinedOf(s.Name, &found[i]))
		}
	}
	for i := range acts {
		if acts[i].Consumer == v.consumer && acts[i].Identity == v.id {
			v.Audit = append(v.Audit, lineOf(s.Name, &acts[i]))
		}
	}
	if len(list) == 0 {
		if seen[0].Outcome == store.Fresh {
			v.State = "neither kept nor finished"
		}
		return nil, nil
	}
	v.copyKept(&list[0])
	return &list[0], nil
}

// copyKept copies p to the page, without the payload and the header values.
func (v *messagePage) copyKept(p *store.Parked) {
	m := operate.NewMessage(p)
	v.Bytes, v.State, v.Seen = len(m.Data), operate.State(p), stateHash(p)
	for _, h := range m.Headers {
		v.Headers = append(v.Headers, h.Name)
	}
	m.Data, m.Payload, m.Headers = nil, nil, nil
	v.Kept = &m
	if c := p.Call; c != nil {
		v.Call = &callLine{c.Key, c.Since, c.Outcome != "", c.Undo}
	}
	v.sel = selectionOf(p)
}

// selectionOf returns a selection with only the message p.
func selectionOf(p *store.Parked) operate.Selection {
	return operate.Selection{Dead: p.Dead != nil, Consumer: p.Consumer, Source: p.Source, ID: p.ID}
}

// Payload is the page of one message with its payload. It first records the access in the audit.
func (m Pages) Payload(q *page.Request) (page.View, error) {
	s, err := q.Source()
	if err != nil {
		return nil, err
	}
	v, kept, err := m.read(q, s)
	switch {
	case err != nil:
		return nil, err
	case kept == nil:
		return nil, page.NewRefusal(http.StatusNotFound, "the message is not kept any more")
	}
	reason := strings.TrimSpace(q.Arg("reason"))
	if reason == "" {
		reason = "viewed in the console"
	}
	if err := page.Note(q, s, reason, "show payload", kept.Consumer, kept.Identity); err != nil {
		return nil, err
	}
	v.Shown = m.Mask.Of(kept)
	return v, nil
}

func (v *messagePage) Heading() string { return "Message " + page.Cut(v.id.ID, 80) }
