package console

import (
	"context"
	"slices"
	"strings"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/console/internal/page"
	"github.com/skald-go/skald/console/internal/source"
	"github.com/skald-go/skald/console/internal/spell"
	"github.com/skald-go/skald/store"
)

// A mask changes what is shown to somebody who may see payloads.
type mask struct {
	body   func(m skald.Message, body []byte) []byte               // nil: it is shown as it is
	header func(m skald.Message, name string, value []byte) []byte // nil: as it is, and with a body not at all
}

const mostShown = 64 << 10 // bytes of a payload

// A shown payload is one that somebody asked for, which is noted.
type shown struct {
	ContentType string        `json:"content_type"`
	Data        string        `json:"data"`
	Cut         bool          `json:"cut"`
	Headers     []shownHeader `json:"headers"`
}

type shownHeader struct {
	Name   string `json:"name"`
	Value  string `json:"value"`
	Hidden bool   `json:"hidden,omitempty"` // no MaskHeader says what may be shown
}

// shown is what somebody may see of a kept message.
func (is mask) shown(p *store.Parked) *shown {
	body := slices.Clone(p.Message.Data)
	if is.body != nil {
		body = is.body(p.Message, body)
	}
	out := &shown{ContentType: p.Message.ContentType, Headers: []shownHeader{}}
	if len(body) > mostShown {
		body, out.Cut = body[:mostShown], true
	}
	out.Data = strings.ToValidUTF8(string(body), "�")
	for _, one := range p.Message.Headers {
		out.Headers = append(out.Headers, is.shownHeader(p.Message, one))
	}
	return out
}

// shownHeader is a header as MaskHeader leaves it. Whoever masks payloads would not have it shown as it is.
func (is mask) shownHeader(m skald.Message, h skald.Header) shownHeader {
	value := slices.Clone(h.Value)
	switch {
	case is.header != nil:
		value = is.header(m, h.Name, value)
	case is.body != nil:
		return shownHeader{h.Name, "", true}
	}
	return shownHeader{h.Name, strings.ToValidUTF8(spell.Cut(string(value), 1000), "�"), false}
}

// masked is a payload of a saga, as the mask leaves it.
func (is mask) masked(what string, data []byte) string {
	if is.body != nil {
		data = is.body(skald.Message{Type: what, ContentType: "application/json", Data: data}, slices.Clone(data))
	}
	return spell.Cut(string(data), mostShown)
}

// noteLook stores who looked at what only some may see.
func noteLook(q *page.Request, s *source.Source, reason, action, consumer string, id store.Identity) error {
	_, err := source.One(q.Context(), q.Sources, s, func(ctx context.Context, s *source.Source) (struct{}, error) {
		stood, err := s.DB.Apply(ctx, store.Effect{Audit: &store.Audit{Author: q.Who.Name, Reason: reason, Action: action, Consumer: consumer, Identity: id}})
		if err == nil && !stood[0] {
			err = source.ErrBusy
		}
		return struct{}{}, err
	})
	return err
}
