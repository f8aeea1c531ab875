package view

import (
	"context"
	"time"

	"github.com/skald-go/skald/console/internal/page"
	"github.com/skald-go/skald/store"
)

// holdLine is a place in an entity's queue. The first saga in the queue holds the entity until it ends.
type holdLine struct {
	Space  string    `json:"space"`
	Key    []byte    `json:"key"`
	Name   string    `json:"saga"` // the definition of the saga
	Saga   string    `json:"saga_key"`
	Since  time.Time `json:"since"`
	Before int       `json:"before"`  // the number of sagas before this one; 0 if it holds the entity
	Behind int       `json:"waiting"` // the number of sagas after this one
}

// mostHolds limits the places that are read to find holders.
const mostHolds = 1000

// heldBySagas returns the queue of an entity, or the holders of all entities if entity is nil. The result
// more reports whether there are more places than the list out has.
func heldBySagas(ctx context.Context, db store.Lister, entity *store.Lock) (out []holdLine, more bool,
	err error) {
	all, err := store.ListHolds(ctx, db, store.HoldQuery{Entity: entity, Limit: mostHolds})
	out = []holdLine{}
	for _, h := range all {
		switch {
		case entity == nil && h.Before > 0:
		case len(out) == page.Rows:
			return out, true, err
		default:
			out = append(out, holdLine{h.Space, []byte(h.Key), h.Saga.Name, h.Saga.Key, h.Since, h.Before,
				h.Behind})
		}
	}
	return out, len(all) == mostHolds, err
}

func heldEntities(p *page.Page, part *locksPart) {
	p.Table("Entities that sagas of %s hold or wait for", part.Source)
	p.Heads("entity of a saga", "saga", "since", "before it", "wait for it")
	for i := range part.Held {
		h := &part.Held[i]
		p.Put("<tr><td>%s %s</td><td>", h.Space, page.Cut(page.Key(h.Key), 60))
		p.Link(h.Name+" "+page.Cut(h.Saga, 60), "/saga", "in", part.Source, "name", h.Name, "key", h.Saga)
		p.Put("</td><td>")
		p.When(h.Since)
		p.Put("</td><td class=\"n\">%d</td><td class=\"n\">%d</td></tr>\n", h.Before, h.Behind)
	}
	p.Put("</table></div>\n")
}
