package view

import (
	"bytes"
	"context"
	"slices"

	"github.com/skald-go/skald/console/internal/page"
	"github.com/skald-go/skald/store"
)

// mostRows limits the waiting rows and the deferred rows that are read for a story. Rows have no index by
// key, and there may be millions of rows.
const mostRows = 1000

// outbox reads the rows of a story in the outbox of a source. If the user has only the rights of an app,
// which do not include the outbox, it sets part.Unread to the error.
func (h *search) outbox(ctx context.Context, s *page.Source, part *storyPart, why func(error) string) {
	got, err := s.DB.List(ctx, store.List{Waiting: mostRows, Written: &store.WrittenQuery{About: h.asked,
		Correlations: h.correlations, Keys: h.keys, Limit: page.Rows}})
	if err != nil {
		part.Unread = why(err)
		return
	}
	part.rows = got.Written
	ours := map[int64]bool{}
	for i := range got.Written {
		ours[got.Written[i].Seq] = true
	}
	waits := map[int64]bool{}
	for i := range got.Waiting {
		w := &got.Waiting[i]
		waits[w.Seq] = true
		if ours[w.Seq] || w.ID == h.asked || w.Key != nil && slices.ContainsFunc(h.keys,
			func(key []byte) bool { return bytes.Equal(key, w.Key) }) {
			part.Outbox = append(part.Outbox, rowOf(w))
		}
	}
	for i := range got.Written {
		w := &got.Written[i]
		line := writtenLine{w.ID, w.Topic, w.Type, w.Written, "published"}
		switch n := len(got.Waiting); {
		case waits[w.Seq]:
			line.State = "waits"
		case n >= mostRows && w.Seq > got.Waiting[n-1].Seq:
			line.State = "unknown" // the row comes after the last waiting row that was read
		}
		part.Written = append(part.Written, line)
	}
}

// unpublished writes the rows of the outbox that are not published yet.
func (part *storyPart) unpublished(p *page.Page) {
	if part.Unread != "" {
		p.Put("<p class=\"note warn\">The outbox of %s could not be read: %s. This needs the rights of a relay or a reader.</p>\n", part.Source, part.Unread)
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
			p.Put("waits for an earlier row of its key, which the broker refused")
		default:
			p.Put("waits in the ")
			p.Link("outbox", "/outbox", "in", part.Source)
			p.Put(" since ")
			p.When(r.Written)
		}
		p.Put(".</p>\n")
	}
}
