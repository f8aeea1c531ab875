package view

import (
	"context"

	"github.com/skald-go/skald/console/internal/page"
)

// listed has one page of items of each source.
type listed[T any] struct {
	Parts []listedPart[T]    `json:"sources"`
	Away  []page.Unreachable `json:"away"`
}

type listedPart[T any] struct {
	Source string `json:"source"`
	Sagas  []T    `json:"sagas"`
	More   bool   `json:"more"` // the source has more items
	// Next is the argument "after" of the next page of this source, for orchestrated sagas; "" for the last
	// page.
	Next    string `json:"next,omitempty"`
	Scanned int    `json:"scanned,omitempty"` // the number of sagas that were read, if that limit ended the page

	at *page.Source
}

// listOf queries the selected sources. The function ask should return one item more than a page has, so
// that listOf detects a further page.
func listOf[T any](q *page.Request,
	ask func(ctx context.Context, s *page.Source) ([]T, error)) (v listed[T], err error) {
	v.Parts, v.Away, err = page.Parts(q, func(ctx context.Context, s *page.Source) (listedPart[T], error) {
		list, err := ask(ctx, s)
		part := listedPart[T]{Source: s.Name, Sagas: append([]T{}, list...),
			More: len(list) > page.Rows, at: s}
		part.Sagas = part.Sagas[:min(page.Rows, len(part.Sagas))]
		return part, err
	})
	return v, err
}

func (*listed[T]) Live() {}

// tables writes a table for each source with items. The function heading writes the text above each table.
func (v *listed[T]) tables(p *page.Page, order string, heads []string, heading func(*listedPart[T]),
	line func(source string, one *T)) {
	n := 0
	for i := range v.Parts {
		part := &v.Parts[i]
		if n += len(part.Sagas) + len(part.Next); len(part.Sagas)+len(part.Next) == 0 {
			continue
		}
		p.Put("<section class=\"card\">\n<h2>%s</h2>\n", part.Source)
		if part.More && part.Next == "" {
			p.Put("<p class=\"note warn\">Only the first %d, %s, are shown: narrow the filter.</p>\n",
				page.Rows, order)
		}
		if heading != nil && p.May(page.Act) {
			heading(part)
		}
		p.Table("Sagas of %s", part.Source)
		p.Heads(heads...)
		for j := range part.Sagas {
			line(part.Source, &part.Sagas[j])
		}
		p.Put("</table></div>\n")
		if part.Next != "" {
			nextSagas(p, part.Source, part.Next, part.Scanned)
		}
		p.Put("</section>\n")
	}
	if n == 0 {
		p.None()
	}
}
