package view

import (
	"context"
	"net/http"

	"github.com/skald-go/skald/console/internal/page"
	"github.com/skald-go/skald/store"
)

// A locksPage is entities that transactions have locked, or sagas hold, and keys that are reserved.
type locksPage struct {
	Parts []locksPart `json:"sources"`
	Away  []page.Away `json:"away"`
}

type locksPart struct {
	Source   string         `json:"source"`
	Told     bool           `json:"told"` // false: the database does not say which transaction has an entity
	Part     bool           `json:"part"` // true: entities are many, and only some of them were looked at
	Entities []lockLine     `json:"entities"`
	Held     []holdLine     `json:"held"` // by sagas
	Reserved []reservedLine `json:"reserved"`
	More     bool           `json:"more"` // there are others: narrow the filter
}

type lockLine struct {
	Space   string `json:"space"`
	Key     []byte `json:"key"`
	Version int64  `json:"version"` // the fencing token of who had it last; 0: nobody had it
	// The transaction that has it; "": none. It has it until it ends.
	Holder string `json:"holder"`
	// since that began; -1: it is not to be seen
	HeldSeconds float64 `json:"held_seconds"`
	Waiting     int     `json:"waiting"` // transactions that wait for it
	Unnamed     bool    `json:"unnamed"` // it is not to be seen which entities the transaction has
}

type reservedLine struct {
	Consumer    string  `json:"consumer"`
	Source      string  `json:"source"`
	ID          string  `json:"id"`
	HeldSeconds float64 `json:"held_seconds"`
	LeftSeconds float64 `json:"left_seconds"` // of its lease; 0: that has ended
}

// Locks is the page of entities and keys that are held.
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
		part := locksPart{Source: s.Name, Told: all.Told, Part: all.Part, Entities: []lockLine{},
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
	p.Put("<p>Entities are locked until a transaction ends, or held by a saga until its end; keys are reserved until a lease ends. To look an entity up, locked or not, give its space and key.</p>\n")
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
			p.Put("<p class=\"note\">This database does not tell who has an entity: whoever writes has them all.</p>\n")
		}
		if part.Part {
			p.Put("<p class=\"note warn\">Entities are many: beyond the first ones only those are seen that somebody waits for.</p>\n")
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
	p.Heads("entity", "version", "whose", "for", "wait for it")
	for i := range part.Entities {
		e := &part.Entities[i]
		p.Put("<tr><td>")
		if e.Unnamed {
			p.Put("a new one, or one that is not to be seen</td><td class=\"n\">")
		} else {
			p.Put("%s %s</td><td class=\"n\">%d", e.Space, page.Cut(page.Key(e.Key), 60), e.Version)
		}
		p.Put("</td><td>")
		switch {
		case e.Holder == "":
			p.Put("nobody's</td><td>–")
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
	p.Heads("reserved key", "whose", "for", "lease ends in")
	for i := range part.Reserved {
		r := &part.Reserved[i]
		p.Put("<tr><td>%s %s</td><td>%s</td><td>%s</td><td>", r.Source, page.Cut(r.ID, 60), r.Consumer,
			page.Ago(page.Seconds(r.HeldSeconds)))
		if r.LeftSeconds <= 0 {
			p.Put("it has ended: whoever comes next takes the key")
		} else {
			p.Put("%s", page.Ago(page.Seconds(r.LeftSeconds)))
		}
		p.Put("</td></tr>\n")
	}
	p.Put("</table></div>\n")
}
