package view

import (
	"context"
	"time"

	"github.com/skald-go/skald/console/internal/page"
	"github.com/skald-go/skald/operate"
	"github.com/skald-go/skald/store"
)

// shardsPage has the outbox of each source: its shards with their relays, and the oldest rows.
type shardsPage struct {
	Parts []shardsPart       `json:"sources"`
	Away  []page.Unreachable `json:"away"`
}

type shardsPart struct {
	Source        string      `json:"source"`
	Pending       int64       `json:"pending"`
	Exact         bool        `json:"exact"` // false if Pending is an estimate
	OldestSeconds float64     `json:"oldest_seconds"`
	Deferred      int64       `json:"deferred"`
	Shards        []shardLine `json:"shards"`
	// Rows has some of the oldest waiting rows, and of the rows that the broker refused.
	Rows   []row  `json:"rows"`
	Unread string `json:"unread,omitempty"` // the reason why the rows could not be read
}

type shardLine struct {
	Shard   int    `json:"shard"`
	Owner   string `json:"owner"` // the relay that owns the shard; "" without an owner
	Epoch   int64  `json:"epoch"`
	Pending int64  `json:"pending"`
}

// row is a row of the outbox, without its payload.
type row struct {
	Seq        int64     `json:"seq"`
	Shard      int       `json:"shard"`
	ID         string    `json:"id"`
	Topic      string    `json:"topic"`
	Type       string    `json:"type"`
	Key        []byte    `json:"key"`
	Written    time.Time `json:"written"`
	AgeSeconds float64   `json:"age_seconds"`
	Deferred   bool      `json:"deferred"` // the broker refused this row, or an earlier row of its key
	Attempts   int       `json:"attempts"`
	Error      string    `json:"error"`
}

// oldestRows limits the waiting rows and the deferred rows of each source.
const oldestRows = 20

// Outbox is the page of outboxes.
func Outbox(q *page.Request) (page.View, error) {
	parts, away, err := page.Parts(q, func(ctx context.Context, s *page.Source) (shardsPart, error) {
		o, err := operate.Status(ctx, s.DB)
		part := shardsPart{Source: s.Name, Pending: o.Pending, Exact: o.Exact,
			OldestSeconds: o.Oldest.Seconds(), Deferred: o.Deferred,
			Shards: []shardLine{}, Rows: []row{}}
		for _, shard := range o.Shards {
			part.Shards = append(part.Shards, shardLine{shard.Shard, shard.Owner, shard.Epoch, shard.Pending})
		}
		if err != nil {
			return part, err
		}
		rows, err := store.ListWaiting(ctx, s.DB, oldestRows)
		if err != nil { // show the shards anyway: the rights of an app do not include reading rows
			part.Unread = q.Sources.Why(ctx, s.Name, err)
		}
		for i := range rows {
			part.Rows = append(part.Rows, rowOf(&rows[i]))
		}
		return part, nil
	})
	return &shardsPage{parts, away}, err
}

func (*shardsPage) Heading() string { return "Outbox" }
func (*shardsPage) Live()           {}

func (v *shardsPage) HTML(p *page.Page) {
	p.Away(v.Away)
	for i := range v.Parts {
		part := &v.Parts[i]
		about := ""
		if !part.Exact {
			about = "about "
		}
		p.Put("<section class=\"card\">\n<h2>%s</h2>\n<dl class=\"figures\">\n", part.Source)
		old := part.OldestSeconds > 60
		p.Figure("to be published", about+page.Number(part.Pending), old, "")
		p.Figure("the oldest waits", page.Ago(page.Seconds(part.OldestSeconds)), old, "")
		p.Figure("deferred", page.Number(part.Deferred), part.Deferred > 0, "")
		p.Put("</dl>\n")
		p.Table("Shards of %s", part.Source)
		p.Heads("shard", "relay", "epoch", "to be published")
		for _, s := range part.Shards {
			p.Put("<tr><td>%d</td><td>", s.Shard)
			if s.Owner == "" {
				p.Put("<b class=\"late\">none</b>")
			}
			p.Put("%s</td><td>%d</td><td>%s</td></tr>\n", s.Owner, s.Epoch, page.Number(s.Pending))
		}
		p.Put("</table></div>\n")
		rowTable(p, part)
		p.Put("</section>\n")
	}
}

func rowTable(p *page.Page, part *shardsPart) {
	if part.Unread != "" {
		p.Put("<p class=\"note warn\">The waiting rows could not be read: %s. This needs the rights of a relay or a reader.</p>\n",
			part.Unread)
	}
	if len(part.Rows) == 0 {
		if part.Unread == "" && part.Pending > 0 {
			p.Put("<p class=\"note\">The waiting rows come after the first %s rows, and are not shown.</p>\n",
				page.Number(store.WaitingScan))
		}
		return
	}
	p.Put("<h3>The oldest rows</h3>\n")
	p.Table("The oldest rows of %s", part.Source)
	p.Heads("message", "topic", "key", "shard", "written", "waits", "refused")
	for i := range part.Rows {
		r := &part.Rows[i]
		p.Put("<tr><td>%s<br>%s</td><td>%s</td><td>%s</td><td>%d</td><td>", r.Type, r.ID, r.Topic,
			page.Cut(page.Key(r.Key), 60), r.Shard)
		p.When(r.Written)
		p.Put("</td><td>%s</td><td class=\"why\">", page.Ago(page.Seconds(r.AgeSeconds)))
		switch {
		case r.Attempts > 0:
			p.Put("%s: %s", page.Times(r.Attempts), page.Cut(page.FirstLine(r.Error), 200))
		case r.Deferred:
			p.Put("waits for an earlier row of its key")
		}
		p.Put("</td></tr>\n")
	}
	p.Put("</table></div>\n")
}

// rowOf returns r as a line of a list, without the payload.
func rowOf(r *store.WaitingRow) row {
	return row{r.Seq, r.Shard, r.ID, r.Topic, r.Type, r.Key, r.Written, r.Age.Seconds(), r.Deferred,
		r.Attempts, r.LastError}
}
