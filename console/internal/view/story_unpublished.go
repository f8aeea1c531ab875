package view

import (
	"context"

	"github.com/skald-go/skald/console/internal/page"
	"github.com/skald-go/skald/operate"
)

// mostRows of the outbox are looked through for a story: so many of those that wait, and of those that the
// broker refused. Rows have no index by key, and there may be millions.
const mostRows = 1000

// outbox looks for what a source has written and not published: no consumer can know of it. An app may not
// read the outbox; all else is told in any case.
func (h *hunt) outbox(ctx context.Context, s *page.Source, part *storyPart, why func(error) string) {
	rows, err := operate.Unpublished(ctx, s.DB, h.asked, h.keys, mostRows)
	if err != nil {
		part.Unread = why(err)
	}
	for i := range rows {
		part.Outbox = append(part.Outbox, rowOf(&rows[i]))
	}
}

// unpublished are the messages that nobody can take yet.
func (part *storyPart) unpublished(p *page.Page) {
	if part.Unread != "" {
		p.Put("<p class=\"note warn\">The outbox of %s could not be read: %s. It takes the rights of a relay or a reader.</p>\n", part.Source, part.Unread)
	}
	for i := range part.Outbox {
		r := &part.Outbox[i]
		class := "warn"
		if r.Attempts > 0 {
			class = "bad"
		}
		p.Put("<p class=\"note %s\"><b>Not published at %s</b>: %s <code>%s</code> to %s ", class,
			part.Source, r.Type, r.ID, r.Topic)
		switch {
		case r.Attempts > 0:
			p.Put("was refused by the broker %s: %s", page.Times(r.Attempts),
				page.Cut(page.FirstLine(r.Error), 300))
		case r.Deferred:
			p.Put("waits for an earlier one of its key, which the broker refused")
		default:
			p.Put("waits in the ")
			p.Link("outbox", "/outbox", "in", part.Source)
			p.Put(" since ")
			p.When(r.Written)
		}
		p.Put(".</p>\n")
	}
}
