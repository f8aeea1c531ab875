package view

import (
	"context"
	"net/http"

	"github.com/skald-go/skald/console/internal/page"
	"github.com/skald-go/skald/store"
)

// locksPage lists the entities that transactions have locked, the entities that sagas hold, and reserved
// keys.
type locksPage struct {
	Parts []locksPart        `json:"sources"`
	Away  []page.Unreachable `json:"away"`
}

type locksPart struct {
	Source   string         `json:"source"`
	Told     bool           `json:"told"` // the database reports the transaction that has locked an entity
	Part     bool           `json:"part"` // there are many entities, and only a part was read
	Entities []lockLine     `json:"entities"`
	Held     []holdLine     `json:"held"` // the entities that sagas hold
	Reserved []reservedLine `json:"reserved"`
	More     bool           `json:"more"` // there are more than the page shows
}

type lockLine struct {
	Space   string `json:"space"`
	Key     []byte `json:"key"`
	Version int64  `json:"version"` // the fencing token of the last holder; 0 without a holder so far
	// Holder is the transaction that has locked the entity. It is "" if the entity is not locked.
	Holder string `json:"holder"`
	// HeldSeconds is the age of the transaction Holder. It is -1 if the age is not known.
	HeldSeconds float64 `json:"held_seconds"`
	Waiting     int     `json:"waiting"` // the number of transactions that wait for the entity
	Unnamed     bool    `json:"unnamed"` // the names of the entities that Holder has locked are not known
}

type reservedLine struct {
	Consumer    string  `json:"consumer"`
	Source      string  `json:"source"`
	ID          string  `json:"id"`
	HeldSeconds float64 `json:"held_seconds"`
	LeftSeconds float64 `json:"left_seconds"` // the remaining time of the lease; 0 if the lease has expired
}

// Locks is the page of locked entities and reserved keys.
func Locks(q *page.Request) (page.View, error) {
	find := store.LockQuery{Consumer: q.Arg("consumer"), Limit: page.Rows + 1}
	if space, text := q.Arg("space"), q.Arg("key"); space != "" && text != "" {
		key, err := page.ToKey(text)
		if err != nil {
			return nil, err
		}
		find.Entity = &store.Lock{Space: space, Key: string(key)}
	} else if space != text {
		return nil, page.NewRefusal(http.StatusBadRequest, "an entity has a space and a key: give both")
	}
	parts, away, err := page.Parts(q, func(ctx context.Context, s *page.Source) (locksPart, error) {
		all, err := store.ListLocks(ctx, s.DB, find)
		part := locksPart{Source: s.Name, Told: all.Supported, Part: all.Part, Entities: []lockLine{},
			Reserved: []reservedLine{},
			More:     len(all.Entities) > page.Rows || len(all.Reserved) > page.Rows}
		for _, e := range all.Entities[:min(page.Rows, len(all.Entities))] {
			l := lockLine{e.Space, []byte(e.Key), e.Version, e.Holder, -1, e.Waiting, e.Unnamed}
			if e.Holder != "" && e.Since >= 0 {
				l.HeldSeconds = e.Since.Seconds()
			}
			part.Entities = append(part.Entities, l)
		}
		for _, r := range all.Reserved[:min(page.Rows, len(all.Reserved))] {
			part.Reserved = append(part.Reserved, reservedLine{r.Consumer, r.Source, r.ID, r.Since.Seconds(),
				r.Left.Seconds()})
		}
		if err != nil {
			return part, err
		}
		held, more, err := heldBySagas(ctx, s.DB, find.Entity)
		part.Held, part.More = held, part.More || more
		return part, err
	})
	return &locksPage{parts, away}, err
}

func (*locksPage) Heading() string { return "Locks" }
func (*locksPage) Live()           {}

func (v *locksPage) HTML(p *page.Page) {
	p.Away(v.Away)
	p.Put("<p>A transaction locks an entity until it ends; a saga holds an entity until it ends; a key is reserved until its lease expires. To look up any entity, give its space and key.</p>\n")
	p.FilterForm("/locks", "space", "key", "consumer")
	n := 0
	for i := range v.Parts {
		part := &v.Parts[i]
		some := len(part.Entities) + len(part.Held) + len(part.Reserved)
		if n += some; some == 0 && part.Told && !part.Part {
			continue
		}
		p.Put("<section class=\"card\">\n<h2>%s</h2>\n", part.Source)
		if !part.Told {
			p.Put("<p class=\"note\">This database does not report locks of entities: a writer locks all of them.</p>\n")
		}
		if part.Part {
			p.Put("<p class=\"note warn\">There are many entities: only the first ones, and those with waiting transactions, are shown.</p>\n")
		}
		if part.More {
			p.Put("<p class=\"note warn\">Only the first %d of each are shown: narrow the filter.</p>\n",
				page.Rows)
		}
		if len(part.Entities) > 0 {
			lockedEntities(p, part)
		}
		if len(part.Held) > 0 {
			heldEntities(p, part)
		}
		if len(part.Reserved) > 0 {
			reservedKeys(p, part)
		}
		p.Put("</section>\n")
	}
	if n == 0 {
		p.None()
	}
}

func lockedEntities(p *page.Page, part *locksPart) {
	p.Table("Entities of %s", part.Source)
	p.Heads("entity", "version", "holder", "for", "wait for it")
	for i := range part.Entities {
		e := &part.Entities[i]
		p.Put("<tr><td>")
		if e.Unnamed {
			p.Put("a new entity, or one that is not visible</td><td class=\"n\">")
		} else {
			p.Put("%s %s</td><td class=\"n\">%d", e.Space, page.Cut(page.Key(e.Key), 60), e.Version)
		}
		p.Put("</td><td>")
		switch {
		case e.Holder == "":
			p.Put("none</td><td>–")
		case e.HeldSeconds < 0:
			p.Put("%s</td><td>?", e.Holder)
		default:
			p.Put("%s</td><td>%s", e.Holder, page.Ago(page.Seconds(e.HeldSeconds)))
		}
		p.Put("</td><td class=\"n\">%d</td></tr>\n", e.Waiting)
	}
	p.Put("</table></div>\n")
}

func reservedKeys(p *page.Page, part *locksPart) {
	p.Table("Reserved keys of %s", part.Source)
	p.Heads("reserved key", "holder", "for", "lease ends in")
	for i := range part.Reserved {
		r := &part.Reserved[i]
		p.Put("<tr><td>%s %s</td><td>%s</td><td>%s</td><td>", r.Source, page.Cut(r.ID, 60), r.Consumer,
			page.Ago(page.Seconds(r.HeldSeconds)))
		if r.LeftSeconds <= 0 {
			p.Put("expired: the next request gets the key")
		} else {
			p.Put("%s", page.Ago(page.Seconds(r.LeftSeconds)))
		}
		p.Put("</td></tr>\n")
	}
	p.Put("</table></div>\n")
}
