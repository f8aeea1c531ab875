// This file shows what only some may see, as a mask leaves it, once it is noted who looked.

package page

import (
	"context"
	"net/http"
	"slices"
	"strings"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/store"
)

// A Mask changes what is shown to somebody who may see payloads.
type Mask struct {
	Body func(m skald.Message, body []byte) []byte // nil: it is shown as it is
	// nil: as it is, and with a body not at all
	Header func(m skald.Message, name string, value []byte) []byte
}

// Most is how many bytes of a payload are shown.
const Most = 64 << 10

// A Shown payload is one that somebody asked for, which is noted.
type Shown struct {
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

// Of is what somebody may see of a kept message.
func (is Mask) Of(p *store.Parked) *Shown {
	body := slices.Clone(p.Message.Data)
	if is.Body != nil {
		body = is.Body(p.Message, body)
	}
	out := &Shown{ContentType: p.Message.ContentType, Headers: []shownHeader{}}
	if len(body) > Most {
		body, out.Cut = body[:Most], true
	}
	out.Data = strings.ToValidUTF8(string(body), "�")
	for _, one := range p.Message.Headers {
		out.Headers = append(out.Headers, is.shownHeader(p.Message, one))
	}
	return out
}

// shownHeader is a header as MaskHeader leaves it. Whoever masks payloads would not have it shown as it is.
func (is Mask) shownHeader(m skald.Message, h skald.Header) shownHeader {
	value := slices.Clone(h.Value)
	switch {
	case is.Header != nil:
		value = is.Header(m, h.Name, value)
	case is.Body != nil:
		return shownHeader{h.Name, "", true}
	}
	return shownHeader{h.Name, strings.ToValidUTF8(Cut(string(value), 1000), "�"), false}
}

// Saga is a payload of a saga, as the mask leaves it.
func (is Mask) Saga(what string, data []byte) string {
	if is.Body != nil {
		data = is.Body(skald.Message{Type: what, ContentType: "application/json", Data: data},
			slices.Clone(data))
	}
	return Cut(string(data), Most)
}

// Note stores who looked at what only some may see. Without it nothing is to be shown.
func Note(q *Request, s *Source, reason, action, consumer string, id store.Identity) error {
	_, err := One(q, s, func(ctx context.Context, s *Source) (struct{}, error) {
		stood, err := s.DB.Apply(ctx, store.Effect{Audit: &store.Audit{
			Author: q.Who.Name, Reason: reason, Action: action, Consumer: consumer, Identity: id,
		}})
		if err == nil && !stood[0] {
			err = NewRefusal(http.StatusServiceUnavailable,
				"%s: the look was not noted, so nothing is shown: try again", s.Name)
		}
		return struct{}{}, err
	})
	return err
}
