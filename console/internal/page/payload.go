// Payloads, which need a right and an entry in the audit.

package page

import (
	"context"
	"net/http"
	"slices"
	"strings"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/store"
)

// Mask changes payloads and header values before they are shown.
type Mask struct {
	Body func(m skald.Message, body []byte) []byte // nil: unchanged
	// Header is nil to show values unchanged, or to hide them if Body is set.
	Header func(m skald.Message, name string, value []byte) []byte
}

// Most is the largest number of payload bytes shown.
const Most = 64 << 10

// Shown is a payload that a user requested; the request is recorded.
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

// Of returns the masked payload of a kept message.
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

// shownHeader returns the masked header. A header is hidden if payloads are masked but headers are not.
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

// Note records the user who requested a payload in the audit. If it fails, nothing may be shown.
func Note(q *Request, s *Source, reason, action, consumer string, id store.Identity) error {
	_, err := One(q, s, func(ctx context.Context, s *Source) (struct{}, error) {
		stood, err := s.DB.Apply(ctx, store.Effect{Audit: &store.Audit{
			Author: q.Who.Name, Reason: reason, Action: action, Consumer: consumer, Identity: id,
		}})
		if err == nil && !stood[0] {
			err = NewRefusal(http.StatusServiceUnavailable,
				"%s: the access could not be recorded, so nothing is shown: try again", s.Name)
		}
		return struct{}{}, err
	})
	return err
}
