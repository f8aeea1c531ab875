// This file masks payloads, and records in the audit who has read them.

package page

import (
	"context"
	"net/http"
	"slices"
	"strings"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/store"
)

// Mask changes payloads and header values before the console shows them.
type Mask struct {
	Body func(m skald.Message, body []byte) []byte // nil means that payloads are shown unchanged
	// Header may be nil: then header values are hidden if Body is set, and shown unchanged otherwise.
	Header func(m skald.Message, name string, value []byte) []byte
}

// Most is the maximum number of bytes of a payload that a page shows.
const Most = 64 << 10

// Shown is a masked payload for a page. The audit has a record of the access.
type Shown struct {
	ContentType string        `json:"content_type"`
	Data        string        `json:"data"`
	Cut         bool          `json:"cut"`
	Headers     []shownHeader `json:"headers"`
}

type shownHeader struct {
	Name   string `json:"name"`
	Value  string `json:"value"`
	Hidden bool   `json:"hidden,omitempty"` // Mask is set, but MaskHeader is not
}

// Of returns the masked payload and headers of a parked message or dead letter.
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

// shownHeader returns the masked header.
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

// Saga returns the masked payload of a saga.
func (is Mask) Saga(what string, data []byte) string {
	if is.Body != nil {
		data = is.Body(skald.Message{Type: what, ContentType: "application/json", Data: data},
			slices.Clone(data))
	}
	return Cut(string(data), Most)
}

// Note records in the audit that the user reads a payload. If Note returns an error, do not show the payload.
func Note(q *Request, s *Source, reason, action, consumer string, id store.Identity) error {
	_, err := One(q, s, func(ctx context.Context, s *Source) (struct{}, error) {
		applied, err := s.DB.Apply(ctx, store.Effect{Audit: &store.Audit{
			Author: q.Who.Name, Reason: reason, Action: action, Consumer: consumer, Identity: id,
		}})
		if err == nil && !applied[0] {
			err = NewRefusal(http.StatusServiceUnavailable,
				"%s: the access could not be recorded, so nothing is shown: try again", s.Name)
		}
		return struct{}{}, err
	})
	return err
}
