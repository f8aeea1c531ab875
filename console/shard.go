package console

import (
	"context"

	"github.com/skald-go/skald/operate"
)

// A shardsPage is the outbox of each source: its shards, who publishes them, and how long the oldest row
// waits.
type shardsPage struct {
	Parts []shardsPart `json:"sources"`
	Away  []Away       `json:"away"`
}

type shardsPart struct {
	Source        string      `json:"source"`
	Pending       int64       `json:"pending"`
	Exact         bool        `json:"exact"` // false: Pending is an estimate
	OldestSeconds float64     `json:"oldest_seconds"`
	Deferred      int64       `json:"deferred"`
	Shards        []shardLine `json:"shards"`
}

type shardLine struct {
	Shard   int    `json:"shard"`
	Owner   string `json:"owner"` // the relay that has it; "": none
	Epoch   int64  `json:"epoch"`
	Pending int64  `json:"pending"`
}

func shards(q *request) (view, error) {
	parts, away, err := partsOf(q, func(ctx context.Context, s *source) (shardsPart, error) {
		o, err := operate.Status(ctx, s.db)
		part := shardsPart{s.name, o.Pending, o.Exact, o.Oldest.Seconds(), o.Deferred, []shardLine{}}
		for _, shard := range o.Shards {
			part.Shards = append(part.Shards, shardLine{shard.Shard, shard.Owner, shard.Epoch, shard.Pending})
		}
		return part, err
	})
	return &shardsPage{parts, away}, err
}

func (*shardsPage) title() string { return "Outbox" }
func (*shardsPage) live()         {}

func (v *shardsPage) html(p *page) {
	p.away(v.Away)
	for i := range v.Parts {
		part := &v.Parts[i]
		about := ""
		if !part.Exact {
			about = "about "
		}
		p.put("<section class=\"card\">\n<h2>%s</h2>\n<dl class=\"figures\">\n", part.Source)
		old := part.OldestSeconds > 60
		p.figure("to be published", about+number(part.Pending), old, "")
		p.figure("the oldest waits", ago(seconds(part.OldestSeconds)), old, "")
		p.figure("deferred", number(part.Deferred), part.Deferred > 0, "")
		p.put("</dl>\n<div class=\"wide\"><table>\n<caption class=\"out\">Shards of %s</caption>\n", part.Source)
		p.heads("shard", "relay", "epoch", "to be published")
		for _, s := range part.Shards {
			p.put("<tr><td>%d</td><td>", s.Shard)
			if s.Owner == "" {
				p.put("<b class=\"late\">none</b>")
			}
			p.put("%s</td><td>%d</td><td>%s</td></tr>\n", s.Owner, s.Epoch, number(s.Pending))
		}
		p.put("</table></div>\n</section>\n")
	}
}
