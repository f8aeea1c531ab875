package view

import (
	"context"
	"net/http"
	"time"

	"github.com/skald-go/skald/console/internal/page"
	"github.com/skald-go/skald/store"
)

// quarantined is a message in quarantine, without its payload.
type quarantined struct {
	Number   int64      `json:"number"`
	Service  string     `json:"source"` // the database
	Consumer string     `json:"consumer"`
	Why      string     `json:"why"`
	At       time.Time  `json:"at"`
	From     string     `json:"message_source"`
	ID       string     `json:"id"`
	Topic    string     `json:"topic"`
	Type     string     `json:"type"`
	Key      string     `json:"key,omitempty"`
	Bytes    int        `json:"bytes"`
	Admitted *time.Time `json:"admitted_at,omitempty"`
	By       string     `json:"admitted_by,omitempty"`
	Reason   string     `json:"reason,omitempty"`
	Taken    *time.Time `json:"taken_at,omitempty"`
}

// quarantinedOf returns m as a line of a list. service is the name of the database.
func quarantinedOf(service string, m *store.Quarantined) quarantined {
	return quarantined{m.Number, service, m.Consumer, m.Why.String(), m.At, m.Source, m.ID, m.Message.Topic,
		m.Message.Type, page.Key(m.Message.Key),
		m.Bytes, some(m.Admitted), m.By, m.Reason, some(m.Taken)}
}

func some(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return &t
}

type quarantinePage struct {
	Parts []quarantinePart   `json:"sources"`
	Away  []page.Unreachable `json:"away"`
}

type quarantinePart struct {
	Source   string        `json:"source"`
	Messages []quarantined `json:"messages"`
	Next     int64         `json:"next,omitempty"` // the argument "after" of the next page
}

// Quarantine is the page of messages in quarantine.
func Quarantine(q *page.Request) (page.View, error) {
	after, err := page.Place(q, "after")
	if err != nil {
		return nil, err
	}
	what := store.QuarantineQuery{Consumer: q.Arg("consumer"), ID: q.Arg("id"), Topic: q.Arg("topic"),
		Type: q.Arg("type"), After: after, Bare: true, Limit: page.Rows + 1}
	switch q.Arg("why") {
	case "":
	case "conflict":
		what.Why = store.Conflict
	case "too-old":
		what.Why = store.TooOld
	default:
		return nil, page.NewRefusal(http.StatusBadRequest, "why is conflict or too-old")
	}
	parts, away, err := page.Parts(q, func(ctx context.Context, s *page.Source) (quarantinePart, error) {
		part := quarantinePart{Source: s.Name, Messages: []quarantined{}}
		list, err := store.ListQuarantined(ctx, s.DB, what)
		for i := range list {
			if i == page.Rows {
				part.Next = list[i-1].Number
				break
			}
			part.Messages = append(part.Messages, quarantinedOf(s.Name, &list[i]))
		}
		return part, err
	})
	return &quarantinePage{parts, away}, err
}

func (*quarantinePage) Heading() string { return "Quarantine" }
func (*quarantinePage) Live()           {}

func (v *quarantinePage) HTML(p *page.Page) {
	p.Away(v.Away)
	if p.Arg("admitted") != "" {
		p.Put("<p class=\"note fine\" role=\"status\">Admitted: the consumers handle them within seconds.</p>\n")
	}
	p.Put("<p>Messages whose id was already handled with another payload (conflict), or that are older than the retention of marks (too old). They block no other message, and wait for an operator's decision.</p>\n")
	p.FilterForm("/quarantine", "consumer", "why", "type", "topic", "id")
	n := 0
	for i := range v.Parts {
		part := &v.Parts[i]
		n += len(part.Messages)
		if len(part.Messages) == 0 {
			continue
		}
		p.Put("<section class=\"card\">\n<h2>%s</h2>\n", part.Source)
		if p.May(page.Act) {
			p.Put(`<p class="verbs"><a class="button" href="%s">Admit all that match the filter …</a></p>`+
				"\n",
				p.At("/act", "verb", "admit", "in", part.Source, "consumer", p.Arg("consumer"),
					"id", p.Arg("id"), "topic", p.Arg("topic"), "type", p.Arg("type"), "why", p.Arg("why")))
		}
		quarantineTable(p, part.Messages)
		if part.Next > 0 {
			p.Put("<p>")
			p.Link("The next ones", "/quarantine", "in", part.Source, "consumer", p.Arg("consumer"),
				"id", p.Arg("id"), "topic", p.Arg("topic"), "type", p.Arg("type"), "why", p.Arg("why"),
				"after", page.Digits(part.Next))
			p.Put("</p>\n")
		}
		p.Put("</section>\n")
	}
	if n == 0 {
		p.None()
	}
}

// quarantineTable writes messages in quarantine as a table.
func quarantineTable(p *page.Page, list []quarantined) {
	p.Table("Messages in quarantine")
	p.Put("<tr><th scope=\"col\" class=\"n\">number</th><th scope=\"col\">message</th><th scope=\"col\">consumer</th><th scope=\"col\">cause</th>" +
		"<th scope=\"col\">key</th><th scope=\"col\">since</th><th scope=\"col\"><span class=\"out\">verbs</span></th></tr>\n")
	for i := range list {
		m := &list[i]
		p.Put("<tr><td class=\"n\">%d</td><td>%s<br>", m.Number, m.Type)
		p.Link(m.ID, "/message", "in", m.Service, "consumer", m.Consumer, "source", m.From, "id", m.ID)
		p.Put("</td><td>%s</td><td>%s</td><td>%s</td><td>", m.Consumer, m.Why, page.Cut(m.Key, 60))
		p.When(m.At)
		p.Put("</td><td>")
		switch {
		case m.Taken != nil:
			p.Put("taken ")
			p.When(*m.Taken)
		case m.Admitted != nil:
			p.Put("admitted by %s: %s", m.By, page.Cut(m.Reason, 100))
		case p.May(page.Act):
			p.Put(`<a class="button" href="%s" aria-label="Admit %d …">Admit …</a>`,
				p.At("/act", "verb", "admit", "in", m.Service, "number", page.Digits(m.Number)), m.Number)
		}
		p.Put("</td></tr>\n")
	}
	p.Put("</table></div>\n")
}
